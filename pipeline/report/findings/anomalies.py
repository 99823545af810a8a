"""Unusual rows: how scores lie, and the rows of the highest ones."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report import plots
from pipeline.report.drawn import drawn
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text

MOST_ROWS, MOST_COLUMNS = 20, 10


class Anomalies(Finding, name="anomalies"):
    """A histogram of the scores, and a table of the most unusual rows."""

    place = 710
    columns = ("score", "anomaly")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        schema = evidence.outputs[output].collect_schema()
        if not (schema["score"].is_numeric() and (schema["anomaly"] == pl.Boolean or schema["anomaly"].is_numeric())):
            return
        rows = evidence.outputs[output].with_columns(pl.col("score").cast(pl.Float64), pl.col("anomaly").cast(pl.Boolean))
        rows = rows.filter(pl.col("score").is_finite() & pl.col("anomaly").is_not_null())
        section = Section(headline("Anomalies", output))
        seldom = drawn(rows.select("score", "anomaly"))
        scores = seldom.rows.collect(engine="streaming")
        total, count = rows.select(pl.len(), pl.col("anomaly").sum().alias("anomalies")).collect(engine="streaming").row(0)
        if scores.height == 0:
            section.blocks.append(Note("No row has a score."))
            yield section
            return
        flagged = scores["anomaly"]
        groups = [("s0", "other rows", scores.filter(~flagged)["score"]), ("s3", "anomalies", scores.filter(flagged)["score"])]
        legend = [(style, f"{what}: {len(found):,}") for style, what, found in groups]
        caption = f"Scores of {total:,} rows; {count / total:.2%} are anomalies. Each group adds up to 1.{seldom.said}"
        shown = [(style, found.to_numpy()) for style, _, found in groups if len(found)]
        figure = plots.histogram(shown, "Score", f"{caption} {'; '.join(text for _, text in legend)}")
        section.blocks.append(Figure(figure, caption, legend, "medium"))
        section.blocks.append(_top(rows))
        section.highlights.append((f"{count:,}", f"anomalies of {total:,} rows"))
        yield section


def _top(rows: pl.LazyFrame) -> Grid:
    """The rows of the highest scores, in the order of the first column where these are equal."""
    schema = rows.collect_schema()
    names = ["score", *(name for name in schema.names() if name not in ("score", "anomaly"))][:MOST_COLUMNS]
    plain = [name for name in names[1:2] if not schema[name].is_nested()]
    top = rows.select(*names, "anomaly").sort("score", *plain, descending=[True, *(False for _ in plain)], nulls_last=True)
    found = top.head(MOST_ROWS).collect(engine="streaming")
    cells = [[*(_cell(value) for value in row[:-1]), "yes" if row[-1] else ""] for row in found.iter_rows()]
    align = "".join("r" if schema[name].is_numeric() else "l" for name in names) + "l"
    return Grid([*names, "anomaly"], align, cells, f"The {found.height} rows of the highest scores.")


def _cell(value: object) -> str:
    """A value of a row; a whole number may be the name of something, and has no commas."""
    return str(value) if isinstance(value, int) else number_text(value)
