"""How far forecasts are off, step by step, beside the naive forecast."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text
from pipeline.report.plots import curves
from pipeline.report.splits import by_split, judged_split

MORE = {"usual_rmse": "the usual value", "mae": "MAE", "naive_mae": "naive MAE"}
"""Columns that an output may have beside, and what the page calls them."""


class ForecastErrors(Finding, name="forecast_errors"):
    """A table of errors by split and step, and a drawing of those of the split that a model is judged by."""

    place = 693
    columns = ("split", "step", "rmse", "naive_rmse")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where steps are no whole numbers."""
        rows = evidence.outputs[output]
        if not rows.collect_schema()["step"].is_integer():
            return
        more = [name for name in MORE if name in evidence.columns[output]]
        errors = [pl.col("rmse", "naive_rmse", *more).cast(pl.Float64)]
        splits = by_split(rows.select("split", "step", *errors).drop_nulls(["split", "step", "rmse", "naive_rmse"]).sort("step").collect())
        section, judged = Section(headline("Errors of forecasts", output)), judged_split(splits)
        if not judged:
            section.blocks.append(Note("No split has a forecast that could be measured."))
            yield section
            return
        found = splits[judged]
        lines = [("s0", "rmse", "forecast"), ("s6", "naive_rmse", "naive forecast"), ("s4", "usual_rmse", "the usual value")]
        drawn = [line for line in lines if line[1] in found.columns]
        caption = f"Root mean squared error by steps ahead, {judged}."
        points = [(style, found["step"].to_numpy(), found[name].to_numpy()) for style, name, _ in drawn]
        figure = curves(points, ("Steps ahead", "RMSE"), caption)
        section.blocks.append(Figure(figure, caption, [(style, text) for style, _, text in drawn], "medium"))
        cells = [
            (name, str(step), number_text(rmse), number_text(naive), f"{1 - rmse / naive:.1%}" if naive else "", *map(number_text, others))
            for name, frame in splits.items()
            for _, step, rmse, naive, *others in frame.iter_rows()
        ]
        head = ("split", "steps", "RMSE", "naive RMSE", "gain", *(MORE[name] for name in more))
        section.blocks.append(
            Grid(head, "lrrrr" + "r" * len(more), cells, "Gain: the share that a forecast's RMSE is less than the naive one's.")
        )
        step, rmse, naive = found.select("step", "rmse", "naive_rmse").row(-1)
        if naive:
            section.highlights.append((f"{1 - rmse / naive:.0%}", f"less error than the naive forecast, {step} steps ahead, {judged}"))
        yield section
