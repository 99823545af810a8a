"""How well predicted quantiles hold: the share of rows at or below each, and their pinball losses."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np
import polars as pl

from pipeline.kernels.metrics import coverage, pinball_loss
from pipeline.report import plots
from pipeline.report.drawn import drawn
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text
from pipeline.report.splits import by_split, judged_split, split_style

PREFIX = "prediction_"


def quantiles_of(columns: Set[str]) -> dict[float, str]:
    """The columns with predicted quantiles, from low to high; none where a column of predictions is something else."""
    names = [name.removeprefix(PREFIX) for name in columns if name.startswith(PREFIX)]
    found = {float(name): PREFIX + name for name in names if name.replace(".", "", 1).isdecimal() and 0 < float(name) < 1}
    return dict(sorted(found.items())) if len(found) == len(names) else {}


class Quantiles(Finding, name="quantiles"):
    """The curve of observed shares against quantiles, and a table."""

    place = 705

    def applies(self, columns: Set[str]) -> bool:
        """Whether it has quantiles of a target."""
        return bool(quantiles_of(columns))

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where no column could be what was predicted."""
        rows, columns = evidence.outputs[output], quantiles_of(evidence.columns[output])
        schema = rows.collect_schema()
        targets = [name for name in schema.names() if name not in {"split", *columns.values()} and schema[name].is_numeric()]
        if not targets:
            return
        target = targets[-1]  # a model gives key, split, target and predictions
        split = pl.col("split").cast(pl.String).fill_null("") if "split" in schema else pl.lit("all rows")
        known = rows.select(split.alias("split"), pl.col(target).cast(pl.Float64).alias("truth"), *columns.values())
        seldom = drawn(known)
        frame = seldom.rows.drop_nulls().filter(pl.col("truth").is_finite()).collect(engine="streaming")
        section = Section(headline("Predicted quantiles", output))
        if frame.height == 0:
            section.blocks.append(Note(f"No row has both {target} and predictions."))
        else:
            _fill(section, target, by_split(frame), columns, seldom.said)
        yield section


def _fill(section: Section, target: str, splits: dict[str, pl.DataFrame], columns: dict[float, str], said: str) -> None:
    """The figure, the table and the highlight of some rows."""
    curves, body = [], []
    for name, part in splits.items():
        truth = part["truth"].to_numpy()
        predicted = {quantile: part[column].to_numpy() for quantile, column in columns.items()}
        shares = {quantile: coverage(truth, values) for quantile, values in predicted.items()}
        curves.append((split_style(name), np.array([*shares]), np.array([*shares.values()])))
        for quantile, share in shares.items():
            loss = number_text(pinball_loss(truth, predicted[quantile], quantile))
            body.append((name, f"{len(truth):,}", f"{quantile:g}", f"{share:.3f}", loss))
        low, high = min(columns), max(columns)
        if name == judged_split(splits) and low < high:
            inside = float(((truth > predicted[low]) & (truth <= predicted[high])).mean())
            section.highlights.append((f"{inside:.1%}", f"{name} rows between the {low:g} and {high:g} quantiles of {target}"))
    caption = f"Share of rows whose {target} is at or below its predicted quantile, by split; on the line where predictions hold.{said}"
    legend = [(split_style(name), name) for name in splits]
    section.blocks.append(Figure(plots.calibrated_quantiles(curves, f"{caption} Its numbers are in the table."), caption, legend))
    section.blocks.append(Grid(("split", "rows", "quantile", "observed share", "pinball loss"), "lrrrr", body))
