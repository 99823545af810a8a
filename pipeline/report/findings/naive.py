"""A model beside the naive rule, period by period: outputs with columns model_METRIC and naive_METRIC."""

from __future__ import annotations

from collections.abc import Iterator, Set

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text
from pipeline.report.plots import curves

MODEL, NAIVE = "model_", "naive_"
COUNTS = ("forecasts", "rows")  # columns of whole numbers by which periods are weighed
MOST_ROWS, MOST_METRICS = 40, 3


class Naive(Finding, name="naive"):
    """A table of both with their means, and a drawing of each metric by what the output's first column names."""

    place = 742

    def applies(self, columns: Set[str]) -> bool:
        """Whether there is a metric of both."""
        return bool(_metrics(columns))

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output]
        schema = rows.collect_schema()
        period, metrics = schema.names()[0], [name for name in _metrics(schema) if _numbers(schema, name)]
        section = Section(headline("Model and naive rule", output))
        frame = rows.sort(period, nulls_last=True).collect() if metrics else pl.DataFrame()
        if frame.is_empty():
            section.blocks.append(Note("No period could be compared."))
            yield section
            return
        count = next((name for name in COUNTS if name in schema and schema[name].is_integer()), None)
        both = {name: _means(frame, name, count) for name in metrics}
        section.blocks.append(_table(frame, both, period))
        what = period.replace("_", " ")
        for name in metrics[:MOST_METRICS]:
            known = frame.drop_nulls([period, MODEL + name, NAIVE + name])
            model, naive = (float(value) if value is not None else None for value in both[name])
            if known.height == 0 or model is None or naive is None:
                continue
            if schema[period].is_integer():
                section.blocks.append(_drawn(known, name, period))
            above = int((known[MODEL + name] > known[NAIVE + name]).sum())
            text = f"{_said(name)} of the model, of the naive rule {number_text(naive)}; greater in {above} of {known.height} by {what}"
            section.highlights.append((number_text(model), text))
        yield section


def _metrics(columns: Set[str] | pl.Schema) -> list[str]:
    """The metrics that both have, in the order of the columns."""
    return [name.removeprefix(MODEL) for name in columns if name.startswith(MODEL) and NAIVE + name.removeprefix(MODEL) in columns]


def _numbers(schema: pl.Schema, name: str) -> bool:
    return schema[MODEL + name].is_numeric() and schema[NAIVE + name].is_numeric()


def _said(name: str) -> str:
    return name.replace("_", " ")


def _means(frame: pl.DataFrame, name: str, count: str | None) -> tuple[float | None, float | None]:
    """The mean of a metric over all periods, of the model and of the naive rule, weighed by the counts where there are some."""
    weight = pl.col(count) if count else pl.lit(1)
    known = frame.filter(pl.all_horizontal(pl.col(MODEL + name, NAIVE + name).is_not_null()), weight > 0)
    sums = known.select((pl.col(column).cast(pl.Float64) * weight).sum() / weight.sum() for column in (MODEL + name, NAIVE + name))
    return sums.row(0) if known.height else (None, None)


def _table(frame: pl.DataFrame, both: dict[str, tuple[float | None, float | None]], period: str) -> Grid:
    """A row a period, and one of the means."""
    compared = [column for name in both for column in (MODEL + name, NAIVE + name)]
    others = [name for name in frame.columns if name not in compared and name != period]
    head = [period.replace("_", " "), *map(_said, others), *map(_said, compared)]
    cells = [
        [str(row[period]), *(number_text(row[name]) for name in (*others, *compared))]
        for row in frame.head(MOST_ROWS).iter_rows(named=True)
    ]
    cells.append(["mean", *[""] * len(others), *(number_text(value) for means in both.values() for value in means)])
    caption = "The naive rule knows nothing but what was there last: a model that is no better than it is of no use."
    caption += f" The first {MOST_ROWS} of {frame.height:,} rows, and the mean of all." if frame.height > MOST_ROWS else ""
    return Grid(head, "l" + "r" * (len(head) - 1), cells, caption)


def _drawn(known: pl.DataFrame, name: str, period: str) -> Figure:
    """Both lines of a metric."""
    across = known[period].to_numpy()
    lines = [("s0", MODEL + name, "model"), ("s6", NAIVE + name, "naive rule")]
    caption = f"{_said(name).capitalize()} by {period.replace('_', ' ')}."
    drawn = [(style, across, known[column].cast(pl.Float64).to_numpy()) for style, column, _ in lines]
    figure = curves(drawn, (period.replace("_", " "), _said(name)), caption)
    return Figure(figure, caption, [(style, text) for style, _, text in lines], "medium")
