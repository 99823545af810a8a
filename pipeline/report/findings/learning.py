"""How a model's metrics went while it was trained, round by round."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report import plots
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Note, Section, headline, number_text
from pipeline.report.splits import by_split, split_style

GREATER_IS_BETTER = ("auc", "aucpr", "accuracy", "r2", "ndcg", "map", "pre")


class Learning(Finding, name="learning"):
    """A figure a metric, with a curve a split."""

    place = 750
    columns = ("split", "metric", "value")
    any_of = ("round", "epoch")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        names = evidence.columns[output]
        step = "round" if "round" in names else "epoch"
        rows = evidence.outputs[output].select(
            pl.col(step).cast(pl.Float64).alias("step"),
            pl.col("split", "metric").cast(pl.String).fill_null(""),
            pl.col("value").cast(pl.Float64),
        )
        frame = rows.drop_nulls().filter(pl.col("value").is_finite()).sort("step", maintain_order=True).collect()
        section = Section(headline("Training", output))
        for metric in frame["metric"].unique(maintain_order=True).to_list():
            figure, highlight = _curves(frame.filter(pl.col("metric") == metric), metric, step)
            section.blocks.append(figure)
            section.highlights.append(highlight)
        yield section if section.blocks else Section(section.title, [Note(f"No {step} has a value.")])


def _curves(frame: pl.DataFrame, metric: str, step: str) -> tuple[Figure, tuple[str, str]]:
    """The figure of one metric, and its best value on the last of its splits (validation, where there is one)."""
    splits, greater = by_split(frame), metric.partition("@")[0] in GREATER_IS_BETTER
    best = {name: part.sort("value", descending=greater, maintain_order=True).row(0, named=True) for name, part in splits.items()}
    legend = [
        (
            split_style(name),
            f"{name}: best {number_text(at['value'])} at {step} {at['step']:g}, last {number_text(splits[name]['value'][-1])}",
        )
        for name, at in best.items()
    ]
    caption = f"{metric} by {step}; the {'greater' if greater else 'smaller'} the better."
    curves = [(split_style(name), part["step"].to_numpy(), part["value"].to_numpy()) for name, part in splits.items()]
    judged = "validation" if "validation" in splits else next(iter(splits))
    about = f"{caption} {'; '.join(text for _, text in legend)}"
    highlight = number_text(best[judged]["value"]), f"best {judged} {metric}, {step} {best[judged]['step']:g}"
    return Figure(plots.curves(curves, (step.capitalize(), metric), about), caption, legend), highlight
