"""What the genome scans (linear_gwas, logistic_gwas) share: their tables, parameters, models per chromosome, and rows. Not a stage.

A scan gives `build`, its model of the people that share a missingness, and `test`, the results of a block of variants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.memory import block_bytes
from pipeline.errors import DataError
from pipeline.genome.chromosomes import AUTOSOME_COUNT, HUMAN, ONE_COPY, autosomes_of, chromosome_kind
from pipeline.genome.columns import VARIANT, VOCABULARY, dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex
from pipeline.kernels.audit import Again, Genotype
from pipeline.kernels.genotype_block import CODES, HAPLOID, Coding, GenotypeBlock
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Share, Whole, need_columns
from pipeline.stages.genomics._audited import Audit
from pipeline.stages.genomics._results import COLUMNS, NUMBERS, SCHEMA, ScanRows, follow, named_variants, words_column
from pipeline.stages.genomics._sheet import COVARIATES, SEX, Sheet, need_traits, read_sheet, sheet_columns, sheet_rows
from pipeline.stages.genomics._tallied import tally, told_of_minus_nines
from pipeline.tables.audits import AUDIT_COUNTS
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, added_counts, take
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

_BYTES_A_RESULT = 128
"""Bytes that a variant and a trait take while they are tested: some sixteen numbers."""
_BYTES_A_GENOTYPE = 8
"""Bytes that a decoded genotype takes."""
_LOOKED_UP = 4
"""Genotypes that are looked up in place of one that is decoded: tables are made once for all of them."""
NO_SEX = "no sex is known for the people, which X and Y need"
NOT_DIPLOID = "dominant and recessive coding need two copies of the chromosome"


@dataclass(frozen=True)
class FittedTraits:
    """Sheets of the traits that the same people lack, and their models of all people; `autosomes` are None where people do not tell."""

    sheets: list[Sheet]
    models: list[Any]
    audit: Audit
    autosomes: int | None = None


class Scan(Whole):
    """Base of the scans: one test of every variant with each trait."""

    roles: ClassVar[tuple[str, ...]] = ("genotypes", "samples")
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        "people_of_unknown_sex": Count("people of unknown sex"),
        "people_*": Count("people, *"),
        "tested_*": Count("tested, *"),
        "kept_*": Count("kept, *"),
        "minus_nine_*": Count("people with -9, *", aside=True),
        **AUDIT_COUNTS,
    }
    tests: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[str, ...]] = ("",)
    results_at_once: ClassVar[int] = 1 << 21  # of variants and traits that a CPU holds at once: an array of them is 16 MB
    genotypes_at_once: ClassVar[int] = 1 << 24  # of variants and people, there: then it is asked whether the run still wants them

    traits: ColumnNames = Field(description="Columns of the samples table to explain.")
    covariates: tuple[ColumnName, ...] = Field((), description=COVARIATES)
    coding: Coding = Field(
        "additive", description="What is counted: copies of ALT, whether there is one (dominant), or whether there are two (recessive)."
    )
    sex: ColumnName | None = Field(
        None,
        description="Column of the samples table, 1 male, 2 female, 0 or null unknown, for X and Y; by default the genotype table's own.",
    )
    max_p: Share = Field(1.0, description="Give the rows with at most this p-value; below 1, rows without a result go too.")

    @property
    def test_words(self) -> tuple[str, ...]:
        """The tests that rows may carry, by their places in `ScanRows.test`."""
        return self.tests

    def build(self, sheet: Sheet) -> Any:
        """The model of the people who have all of a sheet's values: `used`, `mask`, `trait_names`, `beside`, and what is the scan's own.

        Raises DataError where they cannot be fitted.
        """
        raise NotImplementedError(f"{type(self).__name__} has no build")

    def test(self, block: GenotypeBlock, model: Any) -> ScanRows:
        """The results that `max_p` keeps of a small block: p_value <= max_p, and where that is 1 the rows without one too."""
        raise NotImplementedError(f"{type(self).__name__} has no test")

    def again(self, genotype: Genotype, sheet: Sheet, place: int, test: str) -> Again:
        """One variant and a sheet's trait by another way, for the audit; `test` is what the row carries."""
        raise NotImplementedError(f"{type(self).__name__} has no again")

    def tested(self, block: GenotypeBlock, model: Any) -> ScanRows:
        """The results that `max_p` keeps, of every variant with every trait of the model, some variants at a time."""
        here, traits = model.beside(block.array), len(model.trait_names)
        results, genotypes = (
            block_bytes(block.array, size * on_host) // size
            for size, on_host in ((_BYTES_A_RESULT, self.results_at_once), (_BYTES_A_GENOTYPE, self.genotypes_at_once))
        )
        genotypes *= _LOOKED_UP if block.compiled else 1
        step = max(1, min(results // traits, genotypes // max(1, block.n_samples)))
        found = list[ScanRows]()
        for start in range(0, max(1, len(block)), step):
            go_on()
            found.append(self.test(block.part(slice(start, start + step)), here))
        return ScanRows.joined(found, step)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait."""
        genotypes, samples = schemas["genotypes"], schemas["samples"]
        people = need_genotypes(genotypes, VARIANT, dosages=True)
        need_traits(samples, self.traits, self.covariates)
        need_columns(samples, (self.sex,) if self.sex else (), key="sex")
        check_sex(samples.columns, self.sex, key="sex") if self.sex else check_sex(people)
        return {"": Schema(pl.Schema(SCHEMA | dtypes_of({AUTOSOME_COUNT} & {*people})))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Fit what all variants share once, then map over blocks of variants; nothing is exchanged."""
        genotypes = tables["genotypes"].named(context.name)
        rows = sheet_rows(tables["samples"].named(context.name), self.needed, self.covariates)
        submit = context.session.submit
        people = people_of(genotypes)
        fitted = submit(self.fitted, people, rows, Audit(context.seed, len(genotypes.blocks)), stage=context.name)
        return Outcome(self.tables(genotypes, fitted, context), counts=submit(tally, fitted, stage=context.name))

    def tables(self, genotypes: Table, fitted: Any, context: Context) -> dict[str, Table]:
        """The rows, and what else a scan makes of the same genotypes and models (a future of them)."""
        return {"": genotypes.map_parts(self.scan, fitted)}

    def noticed(self, counts: Mapping[str, int]) -> tuple[str, ...]:
        """Missing values that may have been read as numbers."""
        return told_of_minus_nines(counts)

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used."""
        sex = [pl.col(self.sex).cast(pl.Float64).alias(SEX)] if self.sex else []
        return samples.select("sample_id", *sheet_columns(samples, self.traits, self.covariates), *sex)

    def fitted(self, people: Part, rows: Part, audit: Audit) -> FittedTraits:
        """The sheets of the traits that are missing for the same people, and their models of all people."""
        autosomes = autosomes_of(people.frame) if AUTOSOME_COUNT in people.frame.columns else None
        sheets = read_sheet(people.frame, rows.frame, self.traits, self.covariates).groups()
        return FittedTraits(sheets, [self.build(sheet) for sheet in sheets], audit, autosomes)

    def scan(self, part: Part, fitted: Any) -> Part:
        """The results of one part's variants with all traits, in the order of the variants, then of the traits."""
        kind_of_row = chromosome_kind(autosomes=fitted.autosomes or HUMAN).replace({"autosome": "", "par": ""}).fill_null("")
        kinds = part.frame.select(kind_of_row.alias("kind"))["kind"]
        found = [
            self._kind(part, np.flatnonzero((kinds == kind).to_numpy()), kind, (sheet, model, fitted.audit))
            for kind in (kinds.unique(maintain_order=True).to_list() or [""])
            for sheet, model in zip(fitted.sheets, fitted.models, strict=True)
        ]
        return self.put_together(found, fitted.autosomes)

    def put_together(self, found: list[Part], autosomes: int | None) -> Part:
        """The rows of all pieces of a part in the order of its variants, then of the traits."""
        rows = pl.concat([one.frame for one in found])
        if not follow([one.frame["row"] for one in found]):
            order = {trait: i for i, trait in enumerate(self.traits)}
            rows = rows.sort("row", pl.col("trait").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)
        species = [] if autosomes is None else [pl.lit(autosomes, VOCABULARY[AUTOSOME_COUNT].dtype).alias(AUTOSOME_COUNT)]
        return Part(rows.select(*COLUMNS, *species), counts=added_counts([one.counts for one in found]))

    def piece(self, part: Part, places: Any, kind: str, people: int) -> tuple[pl.DataFrame, GenotypeBlock]:
        """The variants at `places`, with `row`, their place in the part, and their genotypes as they count on a kind of chromosome."""
        first, number = int(places[0]) if len(places) else 0, len(places)
        if number and int(places[-1]) - first + 1 == number:  # neighbours, as those of a chromosome mostly are, are not copied
            variants, arrays = part.frame.slice(first, number), {name: array[first : first + number] for name, array in part.arrays.items()}
        else:
            variants, arrays = part.frame[places], {name: take(array, places) for name, array in part.arrays.items()}
        variants = variants.with_columns(row=pl.Series(places))
        codes = HAPLOID if kind in ONE_COPY else CODES[self.coding]
        return variants, GenotypeBlock(arrays.get("calls"), arrays.get("alt_dosages"), people, codes)

    def _kind(self, part: Part, places: Any, kind: str, fitted: tuple[Sheet, Any, Audit]) -> Part:
        """The rows of the variants at `places`, which lie on one kind of chromosome, for one model's traits."""
        sheet, model, audit = fitted
        variants, block = self.piece(part, places, kind, len(sheet.traits))
        if failed := self._untestable(kind, sheet):
            return self.without(variants, sheet.trait_names, failed)
        if kind in {"x", "y"}:
            try:
                sheet = sheet.of_chromosome(kind)
                model = self.build(sheet)
            except DataError as error:
                return self.without(variants, sheet.trait_names, f"on chromosome {kind.upper()}: {error}")
        return self.results(variants, block, (sheet, model, audit))

    def results(self, variants: pl.DataFrame, block: GenotypeBlock, fitted: tuple[Sheet, Any, Audit]) -> Part:
        """The rows of a block's variants that `max_p` keeps, and what was counted and audited of them."""
        sheet, model, audit = fitted
        rows = self.tested(block, model).on_host()
        audited = audit.counts(block, sheet, rows, self.test_words, self.again)
        if self.max_p == 1:
            return Part(self._frame(variants, sheet.trait_names, rows), counts=audited)
        counts = [(f"tested_{name}", int(tested)) for name, tested in zip(sheet.trait_names, rows.with_result, strict=True)]
        kept = np.bincount(rows.trait, minlength=len(counts))
        counts += [(f"kept_{name}", int(number)) for name, number in zip(sheet.trait_names, kept, strict=True)]
        return Part(self._frame(variants, sheet.trait_names, rows), counts=dict(counts) | audited)

    def _untestable(self, kind: str, sheet: Sheet) -> str | None:
        """Why nothing can be tested on a kind of chromosome; None where it can."""
        if kind in {"x", "y"} and sheet.sex is None:
            return NO_SEX
        return NOT_DIPLOID if kind in ONE_COPY and self.coding != "additive" else None

    def without(self, variants: pl.DataFrame, traits: tuple[str, ...], reason: str) -> Part:
        """Rows with no results, or no rows where `max_p` keeps only results."""
        traits = traits if self.max_p == 1 else ()
        rows = [
            named_variants(variants).with_columns(
                pl.lit(None, VOCABULARY[name].dtype).alias(name) for name in (*NUMBERS, "n")
            ).with_columns(trait=pl.lit(trait), test=pl.lit(self._test_name(0)), reason=pl.lit(reason))
            for trait in traits
        ]  # fmt: skip
        return Part(pl.concat(rows).select("row", *COLUMNS) if rows else pl.DataFrame(schema={"row": pl.Int64(), **SCHEMA}))

    def _test_name(self, test: int) -> str:
        return self.test_words[test] + ("" if self.coding == "additive" else f" {self.coding}")

    def _frame(self, variants: pl.DataFrame, traits: tuple[str, ...], rows: ScanRows) -> pl.DataFrame:
        """A block's rows as a frame, with `row`, the variant's place in the part."""
        variant = rows.variant
        every = len(variant) == variants.height and bool((variant == np.arange(len(variant))).all())
        tests = tuple(self._test_name(i) for i in range(len(self.test_words)))
        named = named_variants(variants) if every else named_variants(variants)[variant]
        return named.with_columns(
            *(pl.Series(name, rows.numbers[name], pl.Float64, nan_to_null=True) for name in NUMBERS),
            pl.Series("n", rows.n, pl.Int64),
            words_column("trait", traits, rows.trait),
            words_column("test", tests, rows.test),
            words_column("reason", (None, *self.reasons[1:]), rows.reason),
        ).select("row", *COLUMNS)
