"""A genome scan of any length, reduced to what its figures need: lazy queries over its rows, whose answers have the size of a page.

Every function takes the rows that `scan_rows` gives. Queries stream, read only the columns they name and hold no row longer than they must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.genome.chromosomes import natural_order
from pipeline.kernels.p_values import genomic_inflation
from pipeline.report.svg import Panel

CHROMOSOME, POSITION = "chromosome", "base_pair_location"

P_VALUES = ("p_value", "neg_log_10_p_value")
LINKED, CLUMPED = ("index_variant_id", "r2"), ("variant_id", "members")
"""Columns that make a table of p-values one of linkage around index variants, or one of clumps."""

GENOME_WIDE_STRENGTH, SUGGESTIVE_STRENGTH = float(-np.log10(5e-8)), float(-np.log10(1e-5))
"""-log10 of a scan's two lines: 0.05 over a million independent common variants (Pe'er et al. 2008), and the customary second."""

STRONG = 3.0
"""-log10 p from which a scan draws every point; below, points are binned on a grid of `COARSE` half pixels."""

COARSE, COARSER = 3, 5
MANY_PLACES = 20_000
"""A trait's dots beyond which its strong ones are binned too, on a grid of `COARSER` half pixels: less than a dot is wide."""

BINS = 1_000
"""Bins of a QQ plot in each unit of -log10 p."""

FEW, HALF = 20, 0.30103
"""From `FEW` results on, none with a p-value above 0.5 (`HALF` is its -log10) means that a scan was cut off at some p-value."""


def scan_rows(rows: pl.LazyFrame) -> pl.LazyFrame:
    """A scan's rows with `trait` ('' where there is none), `chromosome` as text, Int64 positions, and `strength`.

    `strength` is -log10 p: its own column where there is one, else from the p-value; null where a row has no result or no place.
    """
    columns = rows.collect_schema().names()
    known = []
    if "neg_log_10_p_value" in columns:
        own = pl.col("neg_log_10_p_value").cast(pl.Float64, strict=False).fill_nan(None)
        known.append(pl.when(own >= 0).then(own))
    if "p_value" in columns:
        p_value = pl.col("p_value").cast(pl.Float64, strict=False)
        known.append(pl.when(p_value.is_between(0, 1)).then(0.0 - p_value.log10()))
    placed = pl.col(CHROMOSOME).is_not_null() & pl.col(POSITION).is_not_null()
    trait = pl.col("trait").cast(pl.String).fill_null("") if "trait" in columns else pl.lit("")
    texts = rows.with_columns(
        pl.col(CHROMOSOME).cast(pl.String), pl.col(POSITION).cast(pl.Int64, strict=False), strength=pl.coalesce(known), trait=trait
    )
    return texts.with_columns(strength=pl.when(placed).then(pl.col("strength")))


def extents(rows: pl.LazyFrame) -> pl.DataFrame:
    """A row a trait and chromosome: `tested` rows, those with a result (`known`), `hits`, the `best` and `weakest` strength, `low`, `high`.

    low and high are the first and last position with a result.
    """
    strength, place = pl.col("strength"), pl.when(pl.col("strength").is_not_null()).then(pl.col(POSITION))
    counts = rows.group_by("trait", CHROMOSOME).agg(
        tested=pl.len(),
        known=strength.count(),
        hits=(strength > GENOME_WIDE_STRENGTH).sum(),
        best=strength.max(),
        weakest=strength.min(),
        low=place.min(),
        high=place.max(),
    )
    return counts.collect(engine="streaming")


def trait_counts(extents: pl.DataFrame) -> pl.DataFrame:
    """A row a trait, the strongest first; `cut` says that only small p-values were kept, so that chance cannot be judged."""
    sums, ends = pl.col("tested", "known", "hits").cast(pl.Int64).sum(), (pl.col("best").max(), pl.col("weakest").min())
    cut = (pl.col("known") >= FEW) & (pl.col("weakest") > HALF).fill_null(False)
    found = extents.group_by("trait").agg(sums, *ends).with_columns(cut=cut)
    return found.sort("best", "hits", "trait", descending=[True, True, False], nulls_last=True)


def genome_of(extents: pl.DataFrame) -> pl.DataFrame:
    """Per chromosome in natural order: its number from 0, its first and last position (low, high), and where it starts on the axis."""
    ends = pl.col("low").min().cast(pl.Float64), pl.col("high").max().cast(pl.Float64) + 1
    found = extents.filter(pl.col("known") > 0).group_by(CHROMOSOME).agg(*ends)
    order = pl.DataFrame({CHROMOSOME: sorted(found[CHROMOSOME].to_list(), key=natural_order)}, schema={CHROMOSOME: pl.String})
    length = pl.col("high") - pl.col("low")
    gap = 0.006 * length.sum()
    genome = order.join(found, on=CHROMOSOME, maintain_order="left")
    return genome.with_row_index("number").with_columns(start=(length + gap).cum_sum() - length - gap)


def strength_bins(rows: pl.LazyFrame, traits: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Each trait's results, strongest first, in bins of a `BINS`-th of -log10 p: bin, `strength` (the bin's greatest) and `count`."""
    grouped = _known(rows, traits).group_by("trait", bin=_bin()).agg(strength=pl.col("strength").max(), count=pl.len())
    bins = grouped.collect(engine="streaming").sort("bin", descending=True)
    return {trait: bins.filter(pl.col("trait") == trait).drop("trait") for trait in traits}


def inflations(rows: pl.LazyFrame, bins: Mapping[str, pl.DataFrame]) -> dict[str, float]:
    """Genomic inflation of every trait, exact: the bins say where the median lies, and only that bin's results are read."""
    wanted, ranks = list[tuple[str, int]](), dict[str, NDArray[np.int64]]()
    for trait, found in bins.items():
        if found.height:
            counts = found["count"].to_numpy().astype(np.int64)
            ends = np.cumsum(counts)
            middle = np.array([(ends[-1] - 1) // 2, ends[-1] // 2])
            at = np.searchsorted(ends, middle, side="right")
            wanted += [(trait, bin_) for bin_ in {*found["bin"].gather(at).to_list()}]
            ranks[trait] = middle - (ends[at[0]] - counts[at[0]])
    keys = pl.LazyFrame(wanted, schema={"trait": pl.String, "bin": pl.Int64}, orient="row")
    inside = _known(rows, [*ranks]).with_columns(bin=_bin()).join(keys, on=["trait", "bin"], how="semi")
    found = inside.select("trait", "strength").collect(engine="streaming").sort("strength", descending=True)
    values = {trait: found.filter(pl.col("trait") == trait)["strength"].to_numpy() for trait in ranks}
    return {trait: genomic_inflation(10.0 ** -values[trait][place]) for trait, place in ranks.items()}


def places_of(rows: pl.LazyFrame, genome: pl.DataFrame, panels: Mapping[str, Panel], told: Mapping[str, float]) -> dict[str, pl.DataFrame]:
    """Where each trait's dots are drawn, in half pixels (x, y), and in which series: 0 and 1 for alternating chromosomes, 2 genome-wide.

    `panels` of the traits differ in the upper edge of y (-log10 p) alone, and begin at 0; what is beyond it stands at the edge. From
    `STRONG` up every point has a dot at its own place, and points that share a place share the dot; below, points move to the middle of
    their grid cell. `weak` are those below a trait's strength in `told`, which the page cannot tell of one by one.
    """
    edges = pl.LazyFrame(
        {"trait": [*panels], "edge": [panel.y_range[1] for panel in panels.values()], "told": [told[trait] for trait in panels]},
        schema={"trait": pl.String, "edge": pl.Float64, "told": pl.Float64},
    )
    on_axis = genome.lazy().select(CHROMOSOME, "low", "start", "number")
    placed = _known(rows, [*panels]).join(on_axis, on=CHROMOSOME).join(edges, on="trait")
    strength, edge = pl.col("strength"), pl.col("edge")
    # The share of a panel's height is the same scale for every trait.
    panel = next(iter(panels.values()))
    y = panel.down(panel.y_range[1] * (pl.min_horizontal(strength, edge) / edge))
    x = panel.across(pl.col("start") + (pl.col(POSITION) - pl.col("low")))
    series = pl.when(strength > GENOME_WIDE_STRENGTH).then(2).otherwise(pl.col("number") % 2).cast(pl.Int64)
    weak = strength < pl.col("told")
    half_pixels = placed.select(
        "trait", series=series, weak=weak, coarse=strength < STRONG, x=x.round().cast(pl.Int64), y=y.round().cast(pl.Int64)
    )
    cells = [pl.when("coarse").then(_cell(name, COARSE)).otherwise(name).alias(name) for name in ("x", "y")]
    found = half_pixels.select("trait", "series", "weak", *cells).unique().collect(engine="streaming").sort("series", "weak", "x", "y")
    places = {trait: found.filter(pl.col("trait") == trait).drop("trait") for trait in panels}
    return {trait: dots if dots.height <= MANY_PLACES else _fewer(dots) for trait, dots in places.items()}


def _fewer(dots: pl.DataFrame) -> pl.DataFrame:
    return dots.select("series", "weak", _cell("x", COARSER), _cell("y", COARSER)).unique().sort("series", "weak", "x", "y")


def _cell(name: str, size: int) -> pl.Expr:
    return (pl.col(name) // size * size + size // 2).alias(name)


def _known(rows: pl.LazyFrame, traits: Sequence[str]) -> pl.LazyFrame:
    return rows.filter(pl.col("trait").is_in(traits), pl.col("strength").is_not_null())


def _bin() -> pl.Expr:
    return (pl.col("strength").clip(0, 1e9) * BINS).floor().cast(pl.Int64)
