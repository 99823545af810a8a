"""The coefficients of a linear model: how far each moves its answer, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text, p_text
from pipeline.report.plots_forest import Effect, forest

MOST_COLUMNS, MOST_CLASSES = 25, 6
WITHIN = 1.959964  # standard errors of a 95 % interval


class Coefficients(Finding, name="coefficients"):
    """A forest plot of the largest effects, and their numbers; one for each class of several."""

    place = 795
    columns = ("feature", "code", "value", "coefficient", "standard_error", "p_value", "scale")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows, section = evidence.outputs[output], Section(headline("Coefficients", output))
        named = pl.col("class").cast(pl.String) if "class" in evidence.columns[output] else pl.lit("")
        meant = pl.coalesce(pl.col("value").cast(pl.String), pl.lit("code ") + pl.col("code").cast(pl.String))
        frame = rows.select(
            named.alias("of"),
            pl.concat_str(pl.col("feature").cast(pl.String), pl.lit(" = ") + meant, ignore_nulls=True).alias("name"),
            pl.col("coefficient", "standard_error", "p_value", "scale").cast(pl.Float64),
        ).collect()
        known = frame.drop_nulls(["coefficient", "scale"]).with_columns(effect=pl.col("coefficient") * pl.col("scale"))
        for of in known["of"].unique(maintain_order=True).head(MOST_CLASSES).to_list():
            section.blocks += _shown(known.filter(pl.col("of") == of), of)
        if known.is_empty():
            section.blocks.append(Note("No column has a coefficient."))
        yield section


def _shown(rows: pl.DataFrame, of: str) -> Iterator[Figure | Grid]:
    """The figure and the table of one class, or of all there is."""
    top = rows.sort(pl.col("effect").abs(), "name", descending=[True, False]).head(MOST_COLUMNS)
    sure = top["standard_error"].null_count() < top.height
    lines = "lines are 95 % intervals, grey where they reach 0" if sure else "without intervals, which a penalty takes"
    caption = (
        f"{of + ': the' if of else 'The'} {top.height} of {rows.height:,} columns that move the linear predictor most, "
        f"by one standard deviation; {lines}."
    )
    half = WITHIN * pl.col("standard_error").fill_null(0.0) * pl.col("scale")
    effects = [Effect(*row) for row in top.select("name", "effect", low=pl.col("effect") - half, high=pl.col("effect") + half).iter_rows()]
    yield Figure(forest(effects, "Coefficient × standard deviation", f"{caption} Its numbers are in the table."), caption, size="medium")
    cells = [_cells(**row) for row in top.iter_rows(named=True)]
    yield Grid(
        ("feature", "coefficient", "95 % interval", "p", "standard deviation"), "lrrrr", cells, "Coefficients are of one unit of a feature."
    )


def _cells(name: str, coefficient: float, standard_error: float | None, p_value: float | None, scale: float, **_: object) -> list[str]:
    half = WITHIN * (standard_error or 0.0)
    reach = "" if standard_error is None else f"{number_text(coefficient - half)} to {number_text(coefficient + half)}"
    strength = None if p_value is None else -math.log10(p_value) if p_value > 0 else math.inf
    return [name, number_text(coefficient), reach, p_text(strength), number_text(scale)]
