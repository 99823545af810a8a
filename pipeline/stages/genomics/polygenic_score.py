"""Polygenic scores of people, from a table of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError
from pipeline.genome.chromosomes import ONE_COPY, autosomes_of, chromosome_key, chromosome_kind
from pipeline.genome.columns import dtypes_of, need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex, counted_people, sexes
from pipeline.kernels.dosages import are_dosages
from pipeline.kernels.frequencies import frequencies
from pipeline.kernels.scores import call_scores, dosage_scores
from pipeline.kernels.variant_quality import MALE
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns, need_numeric
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

    Weights (variant_id, effect_allele, weight) meet variants by variant_id; with `match: position` by chromosome and base_pair_location,
    and by other_allele where it is known (a PGS Catalog file). The effect allele is ALT or REF of the variant; where it is
    neither the weight is not used, and counted: strands are not guessed. score_average is the sum over the alleles that count: two a
    variant, one on Y, of men alone, and on MT and in a haploid genome (on X a man's count runs to 2, as a woman's). Dosages are used where
    the genotype table has them. A row per person: sample_id, score_sum, score_average, variants_used; no score where no variant counts.

    With `thresholds` a row per person and threshold, in the column p_threshold: the score of the weights with p_value at or below it, as
    PLINK's --q-score-range. Of the index variants of `clump` this is clumping and thresholding.

    Example:
        {use: polygenic_score, from: {genotypes: passed, weights: loci}, as: score, weight: beta, thresholds: [5e-8, 1e-5]}
    """

    roles = ("genotypes", "weights")
    counts = Matches.words("weights")

    missing: Literal["mean", "ignore"] = Field(
        "mean", description="A missing call counts as its variant's mean, twice the effect allele's frequency, or it does not count."
    )
    match: Literal["variant_id", "position"] = Field("variant_id", description="What weights and variants are brought together by.")
    weight: ColumnName = Field("weight", description="The column of weights: beta of a scan's results, say.")
    thresholds: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field((), description="p-values up to which weights count, a score each.")
    founders_only: bool = Field(True, description="Frequencies of those with no parent named, as PLINK; false: of everyone.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row per person."""
        genotypes, weights = schemas["genotypes"], schemas["weights"]
        check_sex(need_genotypes(genotypes, ("chromosome", "variant_id", "ref", "alt"), dosages=True))
        by_place = self.match == "position"
        if by_place:
            need_known(genotypes, ("base_pair_location",), "genotypes")
        need_known(weights, ("chromosome", "base_pair_location") if by_place else ("variant_id",), "weights")
        need_known(weights, ("effect_allele",), "weights")
        for key, names in (("weight", [self.weight]), ("thresholds", ["p_value"] * bool(self.thresholds))):
            need_columns(weights, names, "weights", key=key)
            need_numeric(weights, names, key=key)
        return {"": Schema(pl.Schema({**({"p_threshold": pl.Float64()} if self.thresholds else {}), **dtypes_of(COLUMNS)}))}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        import_module("pipeline.kernels.compiled.standardize")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A sum over the parts; the weights go to each of them."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        people = people_of(genotypes)
        weights = submit(self.checked, tables["weights"].named(name).map(self.needed).value(), people, stage=name)
        sums = genotypes.reduce(self.scores, _added, people, weights)
        scores = submit(self.told, sums, people, weights, stage=name)
        return Outcome({"": Table.of(context.session, name, [scores])}, counts=submit(_tally, sums, stage=name))

    def needed(self, weights: pl.LazyFrame) -> pl.LazyFrame:
        """What is read of the weights; by position a name made of it, and null where the other allele is not known."""
        has = weights.collect_schema().names()
        names = [pl.col("variant_id").cast(pl.String)]
        if self.match == "position":
            place = (pl.col("chromosome").cast(pl.String), pl.col("base_pair_location").cast(pl.Int64))
            other = pl.col("other_allele").cast(pl.String) if "other_allele" in has else pl.lit(None, pl.String)
            names = [pl.format("{}:{}", *place).alias("variant_id"), *place, other.alias("other_allele")]
        p_value = pl.col("p_value").cast(pl.Float64) if self.thresholds else pl.lit(0.0)
        return weights.select(*names, "effect_allele", pl.col(self.weight).cast(pl.Float64).alias("weight"), p_value.alias("p_value"))

    def checked(self, weights: Part, people: Part) -> Part:
        """The weights with their places: each a finite number, a variant and allele named once. DataError else."""
        frame = weights.frame
        if self.match == "position":  # a weight that was given no place meets nobody
            key = chromosome_key(autosomes=autosomes_of(people.frame))
            frame = frame.with_columns(key=key, variant_id=pl.col("variant_id").fill_null("unplaced"))
        names = ("key", "base_pair_location", "other_allele") if self.match == "position" else ("variant_id",)
        whole = pl.col("weight").is_finite() & pl.all_horizontal(pl.col("variant_id", "effect_allele").is_not_null())
        bad = frame.filter(~whole.fill_null(value=False))
        if bad.height:
            row = bad.select("variant_id", "effect_allele", "weight").row(0)
            raise DataError(
                f"{bad.height} rows of the weights lack a variant, an allele or a finite weight, such as {row}. "
                "Filter them out, or fill them in."
            )
        twice = frame.filter(pl.struct(*names, "effect_allele").is_duplicated() & (pl.col("variant_id") != "unplaced"))
        if twice.height:
            raise DataError(
                f"the weights name {twice['variant_id'][0]!r} with effect allele {twice['effect_allele'][0]!r} more than once. "
                "Give one weight per variant and allele (drop_duplicates, or aggregate)."
            )
        return Part(frame)

    def scores(self, part: Part, people: Part, weights: Part) -> list[_Sums]:
        """The sums over one part's variants, of every threshold."""
        return [self.score(part, people, of) for of in self.thresholded(weights)]

    def thresholded(self, weights: Part) -> list[Part]:
        """The weights of every threshold, with their places."""
        rows = [weights.frame.filter(pl.col("p_value") <= most) for most in self.thresholds] if self.thresholds else [weights.frame]
        return [Part(frame.with_row_index("place")) for frame in rows]

    def score(self, part: Part, people: Part, weights: Part) -> _Sums:
        """The sums over one part's variants."""
        n, autosomes = people.frame.height, autosomes_of(people.frame)
        variants = part.frame.select("chromosome", "variant_id", "ref", "alt", *self._place).with_row_index("row")
        met = self._met(variants, weights.frame, autosomes)
        is_ref, is_alt = (pl.col("effect_allele") == pl.col(name) for name in ("ref", "alt"))
        kind = chromosome_kind(autosomes=autosomes).fill_null("")
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

    @property
    def _place(self) -> list[str]:
        return ["base_pair_location"] if self.match == "position" else []

    def _met(self, variants: pl.DataFrame, weights: pl.DataFrame, autosomes: int) -> pl.DataFrame:
        """Variants with the weights of their name, or of their place and, where it is known, their other allele."""
        if self.match == "variant_id":
            return variants.join(weights, on="variant_id", maintain_order="left")
        keyed = variants.with_columns(key=chromosome_key(autosomes=autosomes))
        met = keyed.join(weights.drop("variant_id", "chromosome"), on=["key", "base_pair_location"], maintain_order="left")
        other = pl.when(pl.col("effect_allele") == pl.col("alt")).then("ref").otherwise("alt")
        return met.filter((pl.col("other_allele") == other).fill_null(value=True))

    def told(self, sums: list[_Sums], people: Part, weights: Part) -> Part:
        """A row per person, and threshold where there are some. Raises DataError where no weight is used, or one meets several variants."""
        most = int(np.argmax(self.thresholds or [1.0]))
        sums[most].matches.check("weights", self.thresholded(weights)[most].frame["variant_id"])
        frames = [_scores(one, people) for one in sums]
        if not self.thresholds:
            return Part(frames[0])
        named = (pl.lit(most, pl.Float64).alias("p_threshold") for most in self.thresholds)
        return Part(pl.concat([frame.select(most, pl.all()) for frame, most in zip(frames, named, strict=True)]))

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


def _added(values: list[list[_Sums]]) -> list[_Sums]:
    return [_total(of) for of in zip(*values, strict=True)]


def _total(values: Sequence[_Sums]) -> _Sums:
    total = values[0]
    for more in values[1:]:
        matches = total.matches.plus(more.matches)
        total = _Sums(total.sums + more.sums, total.alleles + more.alleles, total.used + more.used, matches)
    return total


def _scores(sums: _Sums, people: Part) -> pl.DataFrame:
    """A row per person."""
    some = sums.used > 0
    scores = {
        "score_sum": np.where(some, sums.sums, np.nan),
        "score_average": np.where(some, sums.sums / np.maximum(sums.alleles, 1), np.nan),
    }
    columns = [pl.Series(name, values).fill_nan(None) for name, values in scores.items()]
    return people.frame.select("sample_id").hstack([*columns, pl.Series("variants_used", sums.used)])


def _tally(sums: list[_Sums]) -> dict[str, int]:
    """Of the greatest threshold, which has the weights of all others."""
    return max((one.matches.counts("weights") for one in sums), key=lambda counts: counts["weights_in"])
