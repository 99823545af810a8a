"""Heritability, confounding and genetic correlations from the statistics of scans: ldsc's --h2 and --rg."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import natural_order
from pipeline.genome.columns import need_known
from pipeline.kernels.ld_score_regression import Fit, Scores, genetic_correlation, genetic_covariance, heritability
from pipeline.kernels.p_values import MEDIAN_CHI_SQUARE, z_test_p_values
from pipeline.stage import Context, Outcome, Whole
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

NEEDED = ("variant_id", "effect_allele", "other_allele", "beta", "standard_error", "n")
SCORED = ("chromosome", "base_pair_location", "variant_id", "ld_score")
COMMON = 0.05  # variants of a higher minor allele frequency are those that heritability is of (ldsc's M_5_50)
_PLACE = "__place__"

HERITABILITY: dict[str, pl.DataType] = {
    "trait": pl.String(),
    "variants": pl.Int64(),
    "mean_n": pl.Float64(),
    "mean_chi_square": pl.Float64(),
    "lambda": pl.Float64(),
    "heritability": pl.Float64(),
    "heritability_se": pl.Float64(),
    "intercept": pl.Float64(),
    "intercept_se": pl.Float64(),
    "ratio": pl.Float64(),
    "ratio_se": pl.Float64(),
}
CORRELATION: dict[str, pl.DataType] = {
    "trait_1": pl.String(),
    "trait_2": pl.String(),
    "variants": pl.Int64(),
    "genetic_covariance": pl.Float64(),
    "genetic_covariance_se": pl.Float64(),
    "intercept": pl.Float64(),
    "intercept_se": pl.Float64(),
    "genetic_correlation": pl.Float64(),
    "genetic_correlation_se": pl.Float64(),
    "p_value": pl.Float64(),
}


class LdScoreRegression(Whole, name="ld_score_regression", version=1):
    """Estimate each trait's heritability and what of its inflation is confounding, and the genetic correlation of each two traits.

    ldsc's --h2 and --rg: chi-squares of a scan regressed on LD scores. A row a trait: heritability (on the observed scale), intercept (1
    where nothing confounds), ratio (what the intercept has of the mean chi-square's excess), errors by a jackknife over `blocks`.
    NAME.correlations has a row per two traits. Put scans of several studies together by union, with a column trait. Rows meet LD scores by
    variant_id; rows without beta, a standard error above 0 or n, and ids that a trait or the scores have twice, are left out and counted.
    Effects of the other allele are turned round. LD scores must be of the scan's ancestry; hundreds of thousands of variants are needed.

    Example:
        {use: ld_score_regression, from: {associations: gwas, ld_scores: scores}, as: heritability}
    """

    roles = ("associations", "ld_scores")
    counts: ClassVar[Mapping[str, Count]] = {
        "without_effect": Count("rows without an effect", always=True),
        "unmatched": Count("rows without an LD score", always=True),
        "twice": Count("rows of an id that is there twice"),
    }

    variants: int | None = Field(
        None, ge=1, description="Variants that heritability is spread over (M); by default those with a score and a frequency above 0.05."
    )
    blocks: int = Field(200, ge=2, le=10_000, description="Blocks of the jackknife.")
    two_step: float | None = Field(
        30.0, gt=0, description="A heritability's intercept is fitted first, to chi-squares below this; null fits it beside the slope."
    )
    confounded: bool = Field(default=True, description="Estimate intercepts; false holds them at 1 and, of two traits, at 0.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a trait; a row per two traits. Raises StageError where it is not said how many variants heritability is of."""
        need_known(schemas["associations"], NEEDED, "associations")
        need_known(schemas["ld_scores"], SCORED, "ld_scores")
        if self.variants is None and "minor_allele_frequency" not in schemas["ld_scores"].columns:
            raise StageError(
                "the table given as 'ld_scores' has no minor_allele_frequency to count common variants by. Say how many there are: "
                "ldsc's .l2.M_5_50 files add up to it",
                key="variants",
            )
        return {"": Schema(pl.Schema(HERITABILITY)), "correlations": Schema(pl.Schema(CORRELATION))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Rows that have a score are picked part by part and gathered; the regressions are one task."""
        session, name = context.session, context.name
        given, scores = (tables[role].named(name) for role in self.roles)
        scored = scores.map(_of_scores).value()
        known = session.submit(self.known, scored, stage=name)
        matched = given.map_parts(_matched, known).value()
        found = session.submit(self.regressed, matched, known, stage=name)
        one, two, counts = (session.submit(itemgetter(place), found, stage=name) for place in range(3))
        return Outcome({"": Table.of(session, name, [one]), "correlations": Table.of(session, name, [two])}, counts=counts)

    def known(self, scored: Part) -> tuple[pl.DataFrame, float]:
        """The variants with an LD score in the order of the genome, their places, and how many heritability is of."""
        frame = scored.frame
        common = self.variants or frame.filter((pl.col("minor_allele_frequency") > COMMON) & pl.col("ld_score").is_not_null()).height
        names = sorted(frame["chromosome"].unique().drop_nulls().to_list(), key=natural_order)
        frame = frame.filter(pl.col("ld_score").is_finite(), pl.col("variant_id").is_not_null()).unique("variant_id", keep="none")
        order = pl.col("chromosome").replace_strict(names, list(range(len(names))), default=None, return_dtype=pl.Int64)
        frame = frame.sort(order, "base_pair_location", "variant_id").with_row_index(_PLACE)
        return frame.select(_PLACE, "variant_id", pl.col("ld_score").cast(pl.Float64)), float(common)

    def regressed(self, matched: Part, known: tuple[pl.DataFrame, float]) -> tuple[Part, Part, dict[str, int]]:
        """Heritabilities, correlations, and what was counted. Raises DataError for a trait with fewer variants than blocks."""
        rows = matched.frame
        once = rows.unique(("trait", "variant_id"), keep="none").sort("trait", _PLACE)
        traits = {str(trait): frame for (trait,), frame in once.group_by("trait", maintain_order=True)}
        if not traits:
            raise DataError("no association has an LD score. Are variant ids (rs numbers, or chromosome:position) written alike in both?")
        one = [self._heritability(trait, frame, known) for trait, frame in traits.items()]
        two = [self._correlation(pair, (traits[pair[0]], traits[pair[1]]), known) for pair in combinations(traits, 2)]
        tables = (pl.DataFrame(one, schema=HERITABILITY, orient="row"), pl.DataFrame(two, schema=CORRELATION, orient="row"))
        first, second = (table.with_columns(pl.selectors.float().fill_nan(None)) for table in tables)
        return Part(first), Part(second), {"twice": rows.height - once.height}

    def _scores(self, what: str, places: pl.Series, known: tuple[pl.DataFrame, float], limit: float | None) -> Scores:
        if len(places) < self.blocks:
            raise DataError(
                f"{what} has {len(places)} variants with an LD score, and {self.blocks} blocks of the jackknife have one each at least. "
                "Are variant ids written alike in both tables?"
            )
        table, common = known
        return Scores(table["ld_score"].gather(places).to_numpy(), common, self.blocks, limit)

    def _heritability(self, trait: str, frame: pl.DataFrame, known: tuple[pl.DataFrame, float]) -> tuple[Any, ...]:
        scores = self._scores(f"trait {trait!r}", frame[_PLACE], known, self.two_step)
        n, chi_square = frame["n"].to_numpy(), frame["z"].to_numpy() ** 2
        try:
            fit = heritability(chi_square, n, scores, None if self.confounded else 1.0)
        except np.linalg.LinAlgError:
            low, high = float(scores.ld.min()), float(scores.ld.max())
            raise DataError(
                f"the regression of trait {trait!r} has no solution: LD scores of its {len(n)} variants are {low:g} to {high:g}, and they "
                "must vary."
            ) from None
        excess = float(chi_square.mean()) - 1
        ratio = ((fit.intercept - 1) / excess, fit.intercept_error / excess) if excess > 0 and self.confounded else (None, None)
        inflation = float(np.median(chi_square)) / MEDIAN_CHI_SQUARE
        return (trait or None, len(n), float(n.mean()), excess + 1, inflation, *_numbers(fit), *ratio)

    def _correlation(
        self, pair: tuple[str, str], frames: tuple[pl.DataFrame, pl.DataFrame], known: tuple[pl.DataFrame, float]
    ) -> tuple[Any, ...]:
        both = frames[0].join(frames[1], on=[_PLACE, "__first__", "__second__"], how="inner", suffix="_other").sort(_PLACE)
        scores = self._scores(f"the pair of traits {pair[0]!r} and {pair[1]!r}", both[_PLACE], known, None)
        z, n = ((both[name].to_numpy(), both[f"{name}_other"].to_numpy()) for name in ("z", "n"))
        held: tuple[float | None, float | None] = (None, None) if self.confounded else (1.0, 0.0)
        fits = heritability(z[0] ** 2, n[0], scores, held[0]), heritability(z[1] ** 2, n[1], scores, held[0])
        covariance = genetic_covariance(z, n, scores, fits, held[1])
        correlation, error = genetic_correlation(covariance, fits)
        p_value = z_test_p_values(np.array([correlation / error]))[0][0]
        return (*pair, both.height, *_numbers(covariance), correlation, error, p_value)


def _numbers(fit: Fit) -> tuple[float, float, float, float]:
    return float(fit.total.value[0]), float(fit.total.standard_error[0]), fit.intercept, fit.intercept_error


def _of_scores(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The columns that are used."""
    there = rows.collect_schema().names()
    return rows.select(name for name in (*SCORED, "minor_allele_frequency") if name in there)


def _matched(part: Part, known: tuple[pl.DataFrame, float]) -> Part:
    """The associations that have an effect and an LD score: place, trait, z of the lesser allele, n."""
    rows = part.frame
    trait = pl.col("trait").cast(pl.String).fill_null("") if "trait" in rows.columns else pl.lit("", pl.String)
    z = (pl.col("beta") / pl.col("standard_error")).cast(pl.Float64)
    turned = pl.col("effect_allele") > pl.col("other_allele")
    usable = pl.col("beta").is_finite() & pl.col("standard_error").is_finite() & (pl.col("standard_error") > 0) & (pl.col("n") > 0)
    effects = rows.filter(usable).select(
        "variant_id",
        trait.alias("trait"),
        pl.min_horizontal("effect_allele", "other_allele").alias("__first__"),
        pl.max_horizontal("effect_allele", "other_allele").alias("__second__"),
        pl.when(turned).then(-z).otherwise(z).alias("z"),
        pl.col("n").cast(pl.Float64),
    )
    found = effects.join(known[0].select(_PLACE, "variant_id"), on="variant_id", how="inner")
    return Part(found, counts={"without_effect": rows.height - effects.height, "unmatched": effects.height - found.height})
