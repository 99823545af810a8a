"""Whether a model holds over time: what it said, what came, and how far its predictions have moved, period by period."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import LARGE_CHANGE, SOME_CHANGE, Figure, Grid, Section, headline, number_text, psi_word
from pipeline.report.plots import curves

VALUES = ("predicted", "observed", "auc", "psi")


class Stability(Finding, name="stability"):
    """A table and a drawing by period, which the output's first column names."""

    place = 704
    columns = ("loans", *VALUES)

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where the first column is no time and no whole number."""
        rows = evidence.outputs[output]
        schema = rows.collect_schema()
        period = schema.names()[0]
        if period in self.columns or not (schema[period].is_temporal() or schema[period].is_integer()):
            return
        floats = [pl.col(*VALUES).cast(pl.Float64)]
        found = rows.select(period, "loans", *floats).sort(period, nulls_last=True).collect()
        section, name = Section(headline("Stability", output)), period.replace("_", " ")
        known = found.drop_nulls([period, "predicted", "observed"])
        if known.height:
            across = known[period].to_physical().cast(pl.Float64).to_numpy()
            lines = [("s0", "predicted", "predicted"), ("s6", "observed", "observed")]
            caption = f"Shares of late loans by {name}, of loans that the model was not trained on."
            drawn = [(style, across, known[column].to_numpy()) for style, column, _ in lines]
            figure = curves(drawn, (name, "Share"), caption) if np.ptp(across) else ""
            section.blocks += [Figure(figure, caption, [(style, text) for style, _, text in lines], "medium")] * bool(figure)
        most = max(*(float(value) for value in found["psi"].drop_nulls()), LARGE_CHANGE, 0.0)
        cells = [
            (
                str(at),
                f"{loans:,}",
                *(_share(value) for value in (said, came)),
                number_text(auc),
                (psi or 0.0) / most,
                number_text(psi),
                psi_word(psi),
            )
            for at, loans, said, came, auc, psi in found.iter_rows()
        ]
        head = (name, "loans", "predicted", "observed", "AUC", "", "psi", "")
        caption = (
            "psi: how far the grades of a period's loans are from those of all periods; read as some change from "
            f"{SOME_CHANGE} and as a large one from {LARGE_CHANGE}."
        )
        section.blocks.append(Grid(head, "lrrrrbrl", cells, caption))
        yield section


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"
