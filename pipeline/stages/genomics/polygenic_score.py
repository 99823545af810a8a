"""Polygenic scores of people, from a table of weights."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError
from pipeline.genome.chromosomes import ONE_COPY, autosomes_of, chromosome_kind
from pipeline.genome.columns import dtypes_of, need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex, counted_people, sexes
from pipeline.kernels.dosages import are_dosages
from pipeline.kernels.frequencies import frequencies
from pipeline.kernels.scores import call_scores, dosage_scores
from pipeline.kernels.variant_quality import MALE
from pipeline.stage import Context, Outcome, Whole, need_columns, need_numeric
from pipeline.stages.genomics._genotypes import genotypes_in, special_rows
from pipeline.stages.genomics._matching import Matches
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table

COLUMNS = ("sample_id", "score_sum", "score_average", "variants_used")


class _Sums(NamedTuple):
    """Of some variants: per person the sum, and the alleles and variants that count."""

    sums: Any
    alleles: Any
    used: Any
    matches: Matches


class PolygenicScore(Whole, name="polygenic_score", version=2):
    """Give every person the sum of weight x effect alleles over the variants that a table of weights names, as PLINK's --score.

    Weights (variant_id, effect_allele, weight) meet variants by variant_id. The effect allele is ALT or REF of the variant; where it is
    neither the weight is not used, and counted: strands are not guessed. score_average is the sum over the alleles that count: two a
    variant, one on Y, of men alone, and on MT and in a haploid genome (on X a man's count runs to 2, as a woman's). Dosages are used where
    the genotype table has them. A row per person: sample_id, score_sum, score_average, variants_used; no score where no variant counts.

    Example:
        {use: polygenic_score, from: {genotypes: passed, weights: weights}, as: score}
    """

    roles = ("genotypes", "weights")
    counts = Matches.words("weights")

    missing: Literal["mean", "ignore"] = Field(
        "mean", description="A missing call counts as its variant's mean, twice the effect allele's frequency, or it does not count."
    )
    founders_only: bool = Field(True, description="Frequencies of those with no parent named, as PLINK; false: of everyone.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row per person."""
        genotypes, weights = schemas["genotypes"], schemas["weights"]
        check_sex(need_genotypes(genotypes, ("chromosome", "variant_id", "ref", "alt"), dosages=True))
        need_known(weights, ("variant_id", "effect_allele"), "weights")
        need_columns(weights, ("weight",), "weights")
        need_numeric(weights, ("weight",))
        return {"": Schema(pl.Schema(dtypes_of(COLUMNS)))}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        import_module("pipeline.kernels.compiled.standardize")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A sum over the parts; the weights go to each of them."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        people = people_of(genotypes)
        weights = submit(_checked, tables["weights"].named(name).map(_needed).value(), stage=name)
        sums = genotypes.reduce(self.score, _added, people, weights)
        scores = submit(_scores, sums, people, weights, stage=name)
        return Outcome({"": Table.of(context.session, name, [scores])}, counts=submit(_tally, sums, stage=name))

    def score(self, part: Part, people: Part, weights: Part) -> _Sums:
        """The sums over one part's variants."""
        n = people.frame.height
        variants = part.frame.select("chromosome", "variant_id", "ref", "alt").with_row_index("row")
        met = variants.join(weights.frame, on="variant_id", maintain_order="left")
        is_ref, is_alt = (pl.col("effect_allele") == pl.col(name) for name in ("ref", "alt"))
        kind = chromosome_kind(autosomes=autosomes_of(people.frame)).fill_null("")
        used = (
            met.filter(is_ref | is_alt).with_columns(kind=kind).with_columns(swapped=is_ref, haploid=pl.col("kind").is_in(list(ONE_COPY)))
        )
        sums, counted, on_y, sex = np.zeros(n), np.zeros((2, n), np.int64), pl.col("kind") == "y", sexes(people.frame)
        two, one, of_men = used.filter(~pl.col("haploid")), used.filter("haploid", ~on_y), used.filter(on_y)
        everyone = np.ones(n, np.bool_)
        for alleles, rows, who in ((2, two, everyone), (1, one, everyone), (1, of_men, everyone if sex is None else sex == MALE)):
            if rows.height:
                found, number = self._scored(part, people, rows, alleles / 2)
                sums += found * who
                counted += np.outer([alleles, 1], number * who)
        return _Sums(sums, counted[0], counted[1], Matches.of(variants, met, used, weights.frame.height))

    def _scored(self, part: Part, people: Part, rows: pl.DataFrame, scale: float) -> tuple[Any, Any]:
        """Per person the sum, times `scale`, and the number of variants that count, of the part's variants at `rows`."""
        values, places = genotypes_in(part), rows["row"].to_numpy()
        values = values if np.array_equal(places, np.arange(len(values))) else take(values, places)
        xp = array_module(values)
        weights, swapped = xp.asarray(rows["weight"].to_numpy() * scale), xp.asarray(rows["swapped"].to_numpy())
        impute, frequency = self.missing == "mean", None
        if impute:
            special = special_rows(rows.select("chromosome"), people.frame)
            frequency = frequencies(values, counted_people(people.frame, self.founders_only), special)
        if are_dosages(values):
            sums, used = dosage_scores(values, weights, swapped, impute, frequency)
        else:
            sums, used = call_scores(values, people.frame.height, weights, swapped, impute, frequency)
        return to_host(sums), to_host(used)


def _needed(weights: pl.LazyFrame) -> pl.LazyFrame:
    return weights.select("variant_id", "effect_allele", pl.col("weight").cast(pl.Float64))


def _checked(weights: Part) -> Part:
    """The weights with their places: each a finite number, a variant and allele named once. DataError else."""
    names = ("variant_id", "effect_allele")
    whole = pl.col("weight").is_finite() & pl.all_horizontal(pl.col(*names).is_not_null())
    bad = weights.frame.filter(~whole.fill_null(value=False))
    if bad.height:
        raise DataError(
            f"{bad.height} rows of the weights lack a variant, an allele or a finite weight, such as {bad.row(0)}. "
            "Filter them out, or fill them in."
        )
    twice = weights.frame.filter(pl.struct(*names).is_duplicated())
    if twice.height:
        raise DataError(
            f"the weights name {twice.row(0)[0]!r} with effect allele {twice.row(0)[1]!r} more than once. "
            "Give one weight per variant and allele (drop_duplicates, or aggregate)."
        )
    return Part(weights.frame.with_row_index("place"))


def _added(values: list[_Sums]) -> _Sums:
    total = values[0]
    for more in values[1:]:
        matches = total.matches.plus(more.matches)
        total = _Sums(total.sums + more.sums, total.alleles + more.alleles, total.used + more.used, matches)
    return total


def _scores(sums: _Sums, people: Part, weights: Part) -> Part:
    """A row per person. Raises DataError where no weight is used, or one meets several variants."""
    sums.matches.check("weights", weights.frame["variant_id"])
    some = sums.used > 0
    scores = {
        "score_sum": np.where(some, sums.sums, np.nan),
        "score_average": np.where(some, sums.sums / np.maximum(sums.alleles, 1), np.nan),
    }
    columns = [pl.Series(name, values).fill_nan(None) for name, values in scores.items()]
    return Part(people.frame.select("sample_id").hstack([*columns, pl.Series("variants_used", sums.used)]))


def _tally(sums: _Sums) -> dict[str, int]:
    return sums.matches.counts("weights")
