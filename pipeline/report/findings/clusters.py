"""Clusters of rows: how many rows each has, and how near they are to it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.drawn import drawn
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST = 30
SPLITS = ("train", "validation", "test")
WORDS = {"distance": "distance to the center", "log_density": "log density"}


class Clusters(Finding, name="clusters"):
    """A table of clusters with their rows, by split where there is one, and quartiles of what says how well a row fits."""

    place = 620
    columns = ("cluster",)
    any_of = ("distance", "log_density")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        yield clusters(output, evidence.outputs[output])


def clusters(output: str, rows: pl.LazyFrame) -> Section:
    """The clusters of an output, that with the lowest number first."""
    names = rows.collect_schema().names()
    fit = next(name for name in WORDS if name in names)
    value = pl.col(fit).cast(pl.Float64, strict=False)
    seen = (
        rows.select(pl.col("split").cast(pl.String).unique()).collect(engine="streaming").to_series().to_list() if "split" in names else []
    )
    splits = [name for name in SPLITS if name in seen]
    counts = [(pl.col("split") == name).sum().alias(f"split:{name}") for name in splits]
    seldom = drawn(rows, ["cluster", fit])
    spread = [value.quantile(share, "linear").alias(f"quantile:{share}") for share in (0.25, 0.5, 0.75)]
    cluster = pl.col("cluster").cast(pl.String)
    sizes = rows.group_by(cluster).agg(pl.len().alias("rows"), *counts).collect(engine="streaming")
    quartiles = seldom.rows.group_by(cluster).agg(spread).collect()
    found = sizes.join(quartiles, on="cluster", how="left", nulls_equal=True)
    found = found.sort(pl.col("cluster").cast(pl.Int64, strict=False), "cluster", nulls_last=True)
    total = max(int(found["rows"].sum()), 1)
    most = max(found["rows"].to_list(), default=1)
    cells = [
        (
            "none" if cluster is None else cluster,
            f"{size:,}",
            size / most,
            f"{size / total:.1%}",
            *(f"{n:,}" for n in more[: len(splits)]),
            *map(number_text, more[len(splits) :]),
        )
        for cluster, size, *more in found.head(MOST).iter_rows()
    ]
    head = ("cluster", "rows", "", "share", *splits, "lower quartile", f"median {WORDS[fit]}", "upper quartile")
    caption = f"{found.height:,} clusters with rows; {number_text(total)} rows." + (
        f" The first {MOST} are shown." if found.height > MOST else ""
    )
    caption += f" Quartiles are of one row in {seldom.step:,}." if seldom.step > 1 else ""
    section = Section(headline("Clusters", output), [Grid(head, "rrbr" + "r" * (len(splits) + 3), cells, caption)])
    section.highlights.append((f"{found.height:,}", f"clusters of {total:,} rows"))
    return section
