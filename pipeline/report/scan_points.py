"""The results of a scan that its page can tell of one by one: the strongest of every trait, with their numbers and genes, as texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from pipeline.report.genes import gene_names
from pipeline.report.locus_table import ALLELES, GENES, NUMBERS
from pipeline.report.scan_data import BINS, CHROMOSOME, GENOME_WIDE_STRENGTH, POSITION
from pipeline.report.svg import Panel

MOST_POINTS = 12_000
"""Results of all traits of a page together that it can tell of: with six columns of numbers about 0.7 MB."""
MANY_LETTERS = 40  # of a name or an allele, beyond which it is cut off


def told_from(bins: pl.DataFrame, most: int) -> float:
    """The strength (-log10 p) from which at most so many results of a trait's bins (see `strength_bins`) are; infinite for none."""
    whole = bins.filter(pl.col("count").cum_sum() <= most)
    return float(whole["bin"][-1]) / BINS if whole.height else float("inf")


def points_of(rows: pl.LazyFrame, told: Mapping[str, float], genes: pl.DataFrame | None) -> dict[str, pl.DataFrame]:
    """Each trait's results from a strength up, with the columns of the table of loci; where they name no gene, those of `genes`."""
    has = rows.collect_schema().names()
    columns = ["variant_id", *ALLELES, *NUMBERS, *GENES]
    least = pl.LazyFrame({"trait": [*told], "least": [*told.values()]}, schema={"trait": pl.String, "least": pl.Float64})
    chosen = rows.filter(pl.col("strength") >= min(told.values())).join(least, on="trait").filter(pl.col("strength") >= pl.col("least"))
    found = chosen.select("trait", CHROMOSOME, POSITION, "strength", *(name for name in columns if name in has)).collect(engine="streaming")
    if genes is not None and not {*GENES} & {*has}:
        found = found.with_columns(gene_names(found, genes))
    return {trait: found.filter(pl.col("trait") == trait).sort(CHROMOSOME, POSITION) for trait in told}


def data_of(points: pl.DataFrame, genome: pl.DataFrame, panel: Panel) -> dict[str, str]:
    """What the page's script reads: the panel, chromosomes and points, a line each with tabs between; numbers as the page writes them."""
    fields, cells = _about(points)
    numbers = genome.select(CHROMOSOME, pl.col("number").cast(pl.String))
    strength = pl.col("strength").round_sig_figs(7).cast(pl.String).replace("inf", "Infinity")
    name = _text("variant_id") if "variant_id" in points.columns else pl.lit("")
    lines = points.join(numbers, on=CHROMOSOME, how="left", maintain_order="left").select(
        pl.concat_str(name, "number", pl.col(POSITION).cast(pl.String), strength, *cells, separator="\t")
    )
    axis = genome.select(pl.concat_str(_text(CHROMOSOME), *(pl.col(at).cast(pl.String) for at in ("start", "low", "high")), separator="\t"))
    frame = (panel.left, panel.right, panel.top, panel.bottom, panel.width, panel.height, *panel.x_range, panel.y_range[1])
    return {
        "frame": " ".join(f"{value:.12g}" for value in frame),
        "strong": repr(GENOME_WIDE_STRENGTH),
        "chromosomes": "\n".join(axis.to_series()),
        "fields": "\t".join(fields),
        "points": "\n".join(lines.to_series()),
    }


def _about(points: pl.DataFrame) -> tuple[list[str], list[pl.Expr]]:
    """Names of what is told of points beside their place, and their texts."""
    has, found = {*points.columns}, dict[str, Any]()
    if {*ALLELES} <= has:
        found["alleles"] = pl.concat_str(*map(_text, ALLELES), separator="/")
    for name, what in NUMBERS.items():
        if name in has:
            number = pl.col(name).cast(pl.Float64, strict=False)
            whole = number.cast(pl.Int64, strict=False).cast(pl.String)
            found[what] = (whole if what == "n" else number.round_sig_figs(3).cast(pl.String)).fill_null("")
    named = [_text(name) for name in GENES if name in has]
    if named:
        over = named[0] if len(named) == 1 else pl.when(named[0] != "").then(named[0]).otherwise(named[1])
        found["gene"] = over
    return [*found], [*found.values()]


def _text(name: str) -> pl.Expr:
    """A column of names in one line, none of them long."""
    text = pl.col(name).cast(pl.String).fill_null("").str.replace_all(r"[\t\r\n]", " ")
    return pl.when(text.str.len_chars() > MANY_LETTERS).then(text.str.slice(0, MANY_LETTERS) + "…").otherwise(text)
