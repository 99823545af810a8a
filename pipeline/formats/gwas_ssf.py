"""Association results as the GWAS Catalog's summary statistics standard (GWAS-SSF 1.0), read; and written: bgzipped TSV, a file a trait.

https://github.com/EBISPOT/gwas-summary-statistics-standard: eight columns in a fixed order with no missing value among them, others after
them, #NA where these have none; chromosomes are numbers, X 23, Y 24, MT 25.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
from pydantic import Field, PrivateAttr

from pipeline.errors import InputError, JobError
from pipeline.files import exists, read_bytes
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._by_trait import EFFECT, NUMBERS, P_VALUE, PLACE, OfTrait, TraitOutput, first_of, without_nan
from pipeline.formats._ssf import TABS, GwasSsfSource, no_rows, of_file, read_rows
from pipeline.genome.builds import Build, build_field, build_in_text
from pipeline.genome.chromosomes import AUTOSOME_COUNT, chromosome_key
from pipeline.genome.inputs import PlacedInput
from pipeline.genome.species import HUMAN_SET
from pipeline.pieces import with_more
from pipeline.tables.part import Schema

MANDATORY = (*PLACE, EFFECT, ("standard_error",), ("effect_allele_frequency",), P_VALUE)
"""The mandatory columns in order; of each the first that the table has."""

_OWN = ("variant_id", "rsid", "ref_allele", "trait", "reason", "ref", "alt")  # columns that are written in another form, or not at all
_SMALLEST_P = 1e-300  # below it a p-value is written from its logarithm


class GwasSsfInput(PlacedInput, BoundedInput):
    """Summary statistics of the GWAS Catalog (GWAS-SSF): the columns of a scan, chromosomes X, Y and MT by name.

    variant_id is the rsid, where the file has one. Effects that are odds or hazard ratios become beta, their logarithm. A p-value that is
    smaller than a double holds is 0 beside its neg_log_10_p_value. Other columns of the file are left out. The genome build is that of the
    -meta.yaml beside it. As the standard has it, standard errors are those of beta.
    """

    name = "gwas_ssf"
    suffixes = (".tsv.gz", ".tsv")

    trait: str | None = Field(None, min_length=1, description="What a column trait says of all rows; there is none where it is not given.")

    def genome_build(self) -> str | None:
        """As the job says, else as the metadata of the first file do."""
        metadata = with_more(self.files()[0], "-meta.yaml")
        if self.build or not exists(metadata):
            return self.build
        return build_in_text("".join(line for line in read_bytes(metadata).decode(errors="replace").splitlines() if "assembly" in line))

    def table_schema(self) -> Schema:
        """The columns, which are those of all files. Raises InputError where they are not."""
        schemas = {source.text.path: read_rows(no_rows(source.text), source.trait).collect_schema() for source in self.sources(1)}
        (first, schema), *others = schemas.items()
        for path, other in others:
            if other != schema:
                raise InputError(f"{path}: has the columns {', '.join(other)}, and {first} {', '.join(schema)}. Give an input each.")
        return Schema(schema)

    def sources(self, parallel: int) -> Sequence[GwasSsfSource]:
        """One a file."""
        dialect = replace(TABS, limits=self.limits)
        return [GwasSsfSource(of_file(path, dialect), self.trait) for path in self.files()]


class GwasSsfOutput(TraitOutput):
    """GWAS-SSF: NAME.TRAIT.tsv.gz for each trait (NAME.tsv.gz without a column trait), and NAME.TRAIT.tsv.gz-meta.yaml beside it.

    Rows are in the table's order. Left out, and counted in the metadata, are rows without a result, on other chromosomes than 1 to 22, X, Y
    and MT, and with other alleles than of A, C, G and T. other_allele is taken for REF, as the association stages have it. A p-value below
    1e-300 is written from its logarithm (3.1e-1073), where the table has that.
    """

    name = "gwas_ssf"
    ending: ClassVar[str] = "tsv"
    label: ClassVar[str] = "GWAS-SSF"
    needed: ClassVar[tuple[tuple[str, ...], ...]] = MANDATORY

    build: Build = build_field()
    _digests: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def made_by(self, digests: Mapping[str, str]) -> GwasSsfOutput:
        """This writer, whose metadata name the run by what its certificate.json says, too."""
        writer = self.model_copy()
        writer._digests = digests
        return writer

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without a mandatory column, and for results of a species whose autosomes are not 22."""
        if AUTOSOME_COUNT in schema.columns:
            raise JobError(
                "GWAS-SSF numbers human chromosomes (X 23, Y 24, MT 25), and these are of another species. Write parquet or csv."
            )
        super().check(schema, columns)

    def lines(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows that the standard can hold, with its columns in its order. Raises InputError where chromosomes are not man's."""
        return _lines(rows)

    def text(self, lines: pl.DataFrame) -> bytes:
        """Lines of tab-separated text."""
        return _text(lines)

    def header(self, columns: Sequence[str], whole: OfTrait) -> str:
        """The columns' names."""
        return "\t".join(columns) + "\n"

    def noted(self, lines: pl.DataFrame) -> dict[str, Any]:
        """Whether positions rise, the first and last of them, and people."""
        places = lines.select("chromosome", pl.col("base_pair_location").cast(pl.Int64))
        key = places.select((pl.col("chromosome") * (1 << 40) + pl.col("base_pair_location")).alias("key"))["key"]
        n = max(lines["n"].drop_nulls().cast(pl.Int64).to_list(), default=None) if "n" in lines.columns else None
        return {"is_sorted": key.is_sorted(), "first": key[0], "last": key[-1], "n": n}

    def noted_together(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """The same of both."""
        return {
            "is_sorted": before["is_sorted"] and after["is_sorted"] and before["last"] <= after["first"],
            "first": before["first"],
            "last": after["last"],
            "n": max((n for n in (before["n"], after["n"]) if n is not None), default=None),
        }

    def beside(self, file: Path, whole: OfTrait) -> Mapping[str, str]:
        """The fields of the standard's metadata that are known here, as YAML."""
        with file.open("rb") as data:
            digest = hashlib.file_digest(data, "md5").hexdigest()
        n = whole.noted.get("n")
        notes = [f"{whole.left_out} variants without a result that the format can hold are left out"] if whole.left_out else []
        notes += (
            [f"made by the run whose certificate.json has {', '.join(f'{k} {v}' for k, v in self._digests.items())}"]
            if self._digests
            else []
        )
        known: dict[str, Any] = {
            "file_type": "GWAS-SSF v1.0",
            "data_file_name": file.name,
            "data_file_md5sum": digest,
            "genome_assembly": self.build,
            "coordinate_system": "1-based",
            "trait_description": [whole.trait] if whole.trait else None,
            "samples": [{"sample_size": n}] if n is not None else None,
            "is_harmonised": False,
            "is_sorted": whole.noted.get("is_sorted", True),
            "author_notes": "; ".join(notes) or None,
        }
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in known.items() if value is not None)  # JSON is YAML
        return {"-meta.yaml": text}

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame | None:
        """A trait's rows, with its name and the variants' own; None for metadata."""
        trait = self.trait_of(rest)
        if trait is None:
            return None
        rows = pl.scan_csv(source, separator="\t", null_values="#NA", schema_overrides=dtypes, quote_char=None, infer_schema_length=None)
        named = [pl.coalesce("rsid", "variant_id").alias("variant_id")] if "rsid" in rows.collect_schema().names() else []
        return rows.with_columns(*named, *([pl.lit(trait).alias("trait")] if trait else []))


def _lines(rows: pl.DataFrame) -> pl.DataFrame:
    """As `lines`; other chromosomes are those of a table that lost its column `autosomes` on the way."""
    HUMAN_SET.check_names(rows["chromosome"].cast(pl.String).unique().sort(), "the rows to write as gwas_ssf")
    chosen = [first_of(names, rows.columns) for names in MANDATORY]
    others = [name for name in rows.columns if name not in (*chosen, *_OWN)]
    alleles = ["effect_allele", "other_allele"]
    table = without_nan(rows).with_columns(
        chromosome_key().replace_strict(NUMBERS, default=None, return_dtype=pl.Int64).alias("chromosome"),
        pl.col(alleles).cast(pl.String).str.to_uppercase(),
    )
    whole = pl.all_horizontal(pl.col(chosen).is_not_null())
    fits = (pl.col("base_pair_location") > 0) & pl.all_horizontal(pl.col(alleles).str.contains("^[ACGT]+$"))
    kept = table.filter(whole & fits)
    own = [pl.concat_str("chromosome", "base_pair_location", "other_allele", "effect_allele", separator="_").alias("variant_id")]
    if "variant_id" in rows.columns:
        own.append(pl.col("variant_id").cast(pl.String).str.extract("^(rs[0-9]+)$").alias("rsid"))
    return kept.select(*chosen, *own, pl.lit("OA").alias("ref_allele"), *others)


def _text(lines: pl.DataFrame) -> bytes:
    """Lines of tab-separated text without a header; p-values that are too small for a double from their logarithm."""
    if "p_value" in lines.columns and "neg_log_10_p_value" in lines.columns:
        logarithm = pl.col("neg_log_10_p_value")
        exponent = logarithm.ceil()
        exact = pl.format("{}e-{}", (pl.lit(10.0) ** (exponent - logarithm)).round_sig_figs(6), exponent.cast(pl.Int64))
        small = (pl.col("p_value") < _SMALLEST_P) & logarithm.is_not_null()
        lines = lines.with_columns(pl.when(small).then(exact).otherwise(pl.col("p_value").cast(pl.String)).alias("p_value"))
    text = lines.with_columns(pl.all().cast(pl.String).fill_null("#NA"))
    return text.write_csv(include_header=False, separator="\t", quote_style="never").encode()
