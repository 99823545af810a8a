"""How well predictions fit: ROC, calibration and Brier score of binary ones, confusion of classes, observed against predicted values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import numpy as np
import polars as pl
import polars.selectors as cs

from pipeline.kernels.metrics import accuracy, auc, r2, rmse
from pipeline.report import plots
from pipeline.report.drawn import Drawn, drawn
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text
from pipeline.report.splits import auc_interval, by_split, judged_split, split_style


class Predictions(Finding, name="predictions"):
    """Figures of an output with a prediction, or with one for each of several classes."""

    place = 700

    def applies(self, columns: Set[str]) -> bool:
        """Whether it has predictions: of a value, or of classes, which are not named like quantiles."""
        several = [name.removeprefix("prediction_") for name in columns if name.startswith("prediction_")]
        return "prediction" in columns or (len(several) > 1 and not all(_is_quantile(name) for name in several))

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where no column could be what was predicted."""
        yield from predictions(output, evidence.outputs[output])


def _is_quantile(name: str) -> bool:
    return name.replace(".", "", 1).isdecimal() and 0 < float(name) < 1


def predictions(output: str, rows: pl.LazyFrame) -> Iterator[Section]:
    """How well a model predicts, split by split; nothing where no column could be its target."""
    schema = rows.collect_schema()
    classes = [name for name in schema.names() if name.startswith("prediction_")]
    others = [name for name in schema.names() if name not in {"split", "prediction", *classes}]
    numbers = others if "prediction" not in schema else [n for n in others if schema[n].is_numeric() or schema[n] == pl.Boolean]
    if not numbers:
        return
    target = _target(rows, numbers)
    split = pl.col("split").cast(pl.String).fill_null("") if "split" in schema else pl.lit("all rows")
    seldom = drawn(rows, [name for name in schema.names() if name in {"split", "prediction", target, *classes}])
    known = seldom.rows.drop_nulls([target, *(classes or ["prediction"])])
    if "prediction" not in schema:
        frame = known.select(split.alias("split"), pl.col(target).cast(pl.String).alias("truth"), *classes).collect(engine="streaming")
        yield _told(_several(output, target, frame, classes), seldom)
        return
    columns = (pl.col(target).cast(pl.Float64).alias("truth"), pl.col("prediction").cast(pl.Float64).alias("score"))
    frame = known.select(split.alias("split"), *columns).filter(pl.all_horizontal(cs.float().is_finite())).collect(engine="streaming")
    binary = frame.height > 0 and frame["truth"].is_in([0.0, 1.0]).all() and frame["score"].is_between(0, 1).all()
    yield _told((_binary if binary else _regression)(output, target, frame), seldom)


def _told(section: Section, seldom: Drawn) -> Section:
    if seldom.said:
        section.blocks.insert(0, Note(seldom.said.strip()))
    return section


def _target(rows: pl.LazyFrame, candidates: list[str]) -> str:
    """The last column of 0 and 1, else the last: a model gives key, split, target and predictions, but an output may order them anew."""
    if len(candidates) == 1:
        return candidates[0]
    two = rows.select(pl.col(candidates).cast(pl.Float64, strict=False).is_in([0.0, 1.0]).all()).collect(engine="streaming").row(0)
    return next((name for name, fits in zip(reversed(candidates), reversed(two), strict=True) if fits), candidates[-1])


def _binary(output: str, target: str, frame: pl.DataFrame) -> Section:
    section = Section(headline("Predictions", output))
    splits = by_split(frame)
    if frame.height == 0:
        section.blocks.append(Note(f"No row has both {target} and a prediction."))
        return section
    in_order = {name: part.select("truth", "score").sort("score", maintain_order=True) for name, part in splits.items()}  # for every figure
    pairs = {name: (part["truth"].to_numpy(), part["score"].to_numpy()) for name, part in in_order.items()}
    judged = judged_split(splits)
    curves, legend = [], []
    for name, (truth, score) in pairs.items():
        area = auc(truth, score)
        if not np.isnan(area):
            low, high = auc_interval(area, int(truth.sum()), len(truth))
            curves.append((split_style(name), truth, score))
            legend.append((split_style(name), f"{name}: {area:.3f} ({low:.3f} to {high:.3f}), {int(truth.sum()):,} / {len(truth):,}"))
            if name == judged:
                section.highlights.append((f"{area:.3f}", f"{name} AUC of {target}"))
    if curves:
        caption = f"ROC curves of {target}: area under each with its 95 % interval, and cases / rows."
        about = f"{caption} {'; '.join(text for _, text in legend)}"
        section.blocks.append(Figure(plots.receiver_operating(curves, about), caption, legend))
    else:
        section.blocks.append(Note(f"No split has both classes of {target}, so there is no ROC curve."))
    section.blocks += _calibration(pairs, judged, target)
    truth, score = pairs[judged]
    classes = [("s0", score[truth == 0]), ("s1", score[truth == 1])]
    key = [(style, f"{target} = {value}: {len(scores):,}") for value, (style, scores) in enumerate(classes)]
    caption = f"Predictions, {judged}, by class."
    span = 0.0, min(1.0, 1.02 * float(score.max()) + 1e-9)
    section.blocks.insert(
        2, Figure(plots.histogram(classes, "Prediction", f"{caption} {'; '.join(t for _, t in key)}", span), caption, key)
    )
    return section


def _calibration(pairs: Mapping[str, tuple[plots.Floats, plots.Floats]], judged: str, target: str) -> Iterator[Figure | Grid]:
    """The curve of every split, the Brier scores (1950), and the bins of the split that the model is judged by."""
    order = [*(name for name in pairs if name != judged), judged]
    found = {name: plots.deciles(*pairs[name]) for name in order}
    caption = f"Calibration by split in ten bins of equal size by prediction; dots with 95 % intervals: {judged}."
    legend = [(split_style(name), name) for name in pairs]
    yield Figure(
        plots.calibration([(split_style(name), found[name]) for name in order], f"{caption} Its numbers are in the table."), caption, legend
    )
    rows = []
    for name, (truth, score) in pairs.items():
        brier, constant = float(((score - truth) ** 2).mean()), float(truth.var())
        gain = f"{1 - brier / constant:.3f}" if constant > 0 else ""
        rows.append((name, f"{len(truth):,}", f"{int(truth.sum()):,}", f"{truth.mean():.4f}", f"{score.mean():.4f}", f"{brier:.4f}", gain))
    skill = "Brier score: mean squared difference of prediction and outcome. Gain: its share less than that of always predicting the rate."
    yield Grid(("split", "rows", "cases", "rate", "mean prediction", "Brier score", "gain"), "lrrrrrr", rows, skill)
    bins, (low, high) = found[judged], found[judged].interval
    cells = [
        (str(number + 1), f"{n:,}", f"{cases:,}", f"{mean:.4f}", f"{share:.4f}", f"{low[number]:.3f} to {high[number]:.3f}")
        for number, (n, cases, mean, share) in enumerate(zip(bins.rows, bins.cases, bins.mean, bins.share, strict=True))
    ]
    head = ("bin", "rows", "cases", "mean prediction", "observed share", "95 % interval")
    yield Grid(head, "rrrrrr", cells, f"Calibration of {target}, {judged}, bins from the lowest predictions to the highest.")


def _regression(output: str, target: str, frame: pl.DataFrame) -> Section:
    section, splits = Section(headline("Predictions", output)), by_split(frame)
    name = judged_split(splits)
    if frame.height == 0:
        section.blocks.append(Note(f"No row has both {target} and a prediction."))
        return section
    truth, score = splits[name]["truth"].to_numpy(), splits[name]["score"].to_numpy()
    fit = f"R² {r2(truth, score):.3f}, RMSE {number_text(rmse(truth, score))}"
    section.blocks.append(
        Figure(
            plots.observed_against(score, truth, target, f"Observed against predicted {target}, {name}: {fit}"),
            f"{name}, {len(truth):,} rows: {fit}.",
        )
    )
    section.highlights.append((f"{r2(truth, score):.3f}", f"{name} R² of {target}"))
    return section


def _several(output: str, target: str, frame: pl.DataFrame, classes: list[str]) -> Section:
    section, splits = Section(headline("Predictions", output)), by_split(frame)
    if frame.height == 0:
        section.blocks.append(Note(f"No row has both {target} and predictions."))
        return section
    name, names = judged_split(splits), [column.removeprefix("prediction_") for column in classes]
    best = splits[name].select(classes).to_numpy().argmax(axis=1)
    told, truth = np.array(names)[best], splits[name]["truth"].to_numpy()
    right = accuracy(truth, told)
    rows = []
    for true in names:
        of = told[truth == true]
        counts = [int((of == guess).sum()) for guess in names]
        rows.append([true, *((f"{count:,}", count / max(len(of), 1)) for count in counts), f"{len(of):,}"])
    caption = f"Confusion, {name}: rows by true {target}, columns by the likeliest class; {right:.1%} of {len(truth):,} are right."
    section.blocks.append(Grid([f"true {target}", *names, "rows"], "l" + "h" * len(names) + "r", rows, caption))
    section.highlights.append((f"{right:.3f}", f"{name} accuracy of {target}"))
    return section
