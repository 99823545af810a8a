"""What the outputs of a run show, found by the names of their columns: a scan, axes of ancestry, predictions, a model's features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
import polars.selectors as cs

from pipeline.kernels.metrics import accuracy, auc, r2, rmse
from pipeline.page import plots
from pipeline.page.findings_scan import CHROMOSOME, POSITION, associations
from pipeline.page.pieces import Figure, Grid, Note, Section, headline, number_text

MOST_FEATURES = 20
SPLIT_STYLES = {"train": "s6", "validation": "s3", "test": "s0"}
NO_GROUPS = {"split", "sample_id", "family_id", "father_id", "mother_id", "variant_id", "reason"}
Outputs = Mapping[str, pl.LazyFrame]


def sections(outputs: Outputs) -> Iterator[Section]:
    """A section for every output that has something to show, scans first."""
    names = {output: rows.collect_schema().names() for output, rows in outputs.items()}
    for output, columns in names.items():
        if {CHROMOSOME, POSITION} <= {*columns} and {"p_value", "neg_log_10_p_value"} & {*columns}:
            yield associations(output, outputs[output])
    eigenvalues = next((outputs[output] for output, columns in names.items() if {"component", "eigenvalue"} <= {*columns}), None)
    for output, columns in names.items():
        if {"pc1", "pc2"} <= {*columns}:
            yield ancestry(output, outputs[output], eigenvalues)
    for output, columns in names.items():
        if "prediction" in columns or sum(name.startswith("prediction_") for name in columns) > 1:
            yield from predictions(output, outputs[output])
    for output, columns in names.items():
        if {"feature", "gain"} <= {*columns}:
            yield importance(output, outputs[output])


def ancestry(output: str, rows: pl.LazyFrame, eigenvalues: pl.LazyFrame | None) -> Section:
    """Scatters of the first axes, two by two, coloured by a column of a few texts where there is one."""
    schema = rows.collect_schema()
    axes = [pair for pair in (("pc1", "pc2"), ("pc3", "pc4")) if {*pair} <= {*schema.names()}]
    texts = [name for name, dtype in schema.items() if dtype in (pl.String, pl.Categorical) and name not in NO_GROUPS]
    counts = rows.select(pl.col(texts).n_unique()).collect().row(0) if texts else ()
    fitting = [name for name, count in zip(texts, counts, strict=True) if 2 <= count <= len(plots.GROUP_STYLES)]
    by = next((name for name in fitting if "pop" in name.lower() or "ancestr" in name.lower()), fitting[0] if fitting else None)
    group = pl.col(by).cast(pl.String).fill_null("unknown") if by else pl.lit("")
    frame = rows.select(group.alias("group"), *(pl.col(a).cast(pl.Float64, strict=False) for pair in axes for a in pair)).collect()
    names = sorted(frame["group"].unique().to_list())
    styles = dict(zip(names, plots.GROUP_STYLES, strict=False))
    section = Section(headline("Ancestry", output))
    sizes = _eigenvalues(eigenvalues)
    for pair in axes:
        known = frame.filter(pl.all_horizontal(pl.col(pair).is_finite()))
        groups = [(styles[n], *known.filter(pl.col("group") == n).select(pair).to_numpy().T) for n in names]
        labels = tuple(a.upper() + (f" (eigenvalue {sizes[a]:.4g})" if a in sizes else "") for a in pair)
        legend = [(styles[name], name) for name in names] if by else []
        caption = f"{known.height:,} rows" + (f", coloured by {by}." if by else ".")
        section.blocks.append(Figure(plots.scatter(groups, (labels[0], labels[1])), caption, legend, "medium"))
    return section


def _eigenvalues(rows: pl.LazyFrame | None) -> dict[str, float]:
    if rows is None:
        return {}
    frame = rows.select(pl.col("component").cast(pl.Int64), pl.col("eigenvalue").cast(pl.Float64)).drop_nulls().head(4).collect()
    return {f"pc{component}": value for component, value in frame.iter_rows()}


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
    known = rows.drop_nulls([target, *(classes or ["prediction"])])
    if "prediction" not in schema:
        frame = known.select(split.alias("split"), pl.col(target).cast(pl.String).alias("truth"), *classes).collect()
        yield _several(output, target, frame, classes)
        return
    columns = (pl.col(target).cast(pl.Float64).alias("truth"), pl.col("prediction").cast(pl.Float64).alias("score"))
    frame = known.select(split.alias("split"), *columns).filter(pl.all_horizontal(cs.float().is_finite())).collect()
    binary = frame.height > 0 and frame["truth"].is_in([0.0, 1.0]).all() and frame["score"].is_between(0, 1).all()
    yield (_binary if binary else _regression)(output, target, frame)


def _target(rows: pl.LazyFrame, candidates: list[str]) -> str:
    """The last column of 0 and 1, else the last: a model gives key, split, target and predictions, but an output may order them anew."""
    if len(candidates) == 1:
        return candidates[0]
    two = rows.select(pl.col(candidates).cast(pl.Float64, strict=False).is_in([0.0, 1.0]).all()).collect().row(0)
    return next((name for name, fits in zip(reversed(candidates), reversed(two), strict=True) if fits), candidates[-1])


def _splits(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Rows by split: train, validation, test, then others by name."""
    order = {name: number for number, name in enumerate(SPLIT_STYLES)}
    names = sorted(frame["split"].unique().to_list(), key=lambda name: (order.get(name, len(order)), name))
    return {name: frame.filter(pl.col("split") == name) for name in names}


def _judged(splits: Mapping[str, pl.DataFrame]) -> str:
    """The split that a model is judged by: test where there is one, else the last."""
    return "test" if "test" in splits else next(reversed([*splits]), "")


def _binary(output: str, target: str, frame: pl.DataFrame) -> Section:
    section, splits = Section(headline("Predictions", output)), _splits(frame)
    curves, legend = [], []
    for name, part in splits.items():
        truth, score = part["truth"].to_numpy(), part["score"].to_numpy()
        area, style = auc(truth, score), SPLIT_STYLES.get(name, "s4")
        if not np.isnan(area):
            low, high = _auc_interval(area, int(truth.sum()), len(truth))
            curves.append((style, truth, score))
            legend.append((style, f"{name}: {area:.3f} ({low:.3f} to {high:.3f}), {int(truth.sum()):,} / {len(truth):,}"))
            if name == _judged(splits):
                section.highlights.append((f"{area:.3f}", f"{name} AUC of {target}"))
    if curves:
        section.blocks.append(
            Figure(
                plots.receiver_operating(curves),
                f"ROC curves of {target}: area under each with its 95 % interval, and cases / rows.",
                legend,
            )
        )
    else:
        section.blocks.append(Note(f"No split has both classes of {target}, so there is no ROC curve."))
    name = _judged(splits)
    truth, score = splits[name]["truth"].to_numpy(), splits[name]["score"].to_numpy()
    caption = f"Calibration, {name}: ten bins of equal size by prediction, with 95 % intervals."
    section.blocks.append(Figure(plots.calibration(truth, score), caption))
    classes = [("s0", score[truth == 0]), ("s1", score[truth == 1])]
    key = [(style, f"{target} = {value}: {len(scores):,}") for value, (style, scores) in enumerate(classes)]
    section.blocks.append(Figure(plots.histogram(classes, "Prediction"), f"Predictions, {name}, by class.", key))
    return section


def _auc_interval(area: float, cases: int, rows: int) -> tuple[float, float]:
    """A 95 % interval of an AUC by its standard error of Hanley & McNeil (1982), Radiology 143:29-36."""
    first, second = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    controls = rows - cases
    error = np.sqrt((area * (1 - area) + (cases - 1) * first + (controls - 1) * second) / (cases * controls))
    return max(area - 1.96 * float(error), 0.0), min(area + 1.96 * float(error), 1.0)


def _regression(output: str, target: str, frame: pl.DataFrame) -> Section:
    section, splits = Section(headline("Predictions", output)), _splits(frame)
    name = _judged(splits)
    if frame.height == 0:
        section.blocks.append(Note(f"No row has both {target} and a prediction."))
        return section
    truth, score = splits[name]["truth"].to_numpy(), splits[name]["score"].to_numpy()
    fit = f"R² {r2(truth, score):.3f}, RMSE {number_text(rmse(truth, score))}"
    section.blocks.append(Figure(plots.observed_against(score, truth, target), f"{name}, {len(truth):,} rows: {fit}."))
    section.highlights.append((f"{r2(truth, score):.3f}", f"{name} R² of {target}"))
    return section


def _several(output: str, target: str, frame: pl.DataFrame, classes: list[str]) -> Section:
    section, splits = Section(headline("Predictions", output)), _splits(frame)
    if frame.height == 0:
        section.blocks.append(Note(f"No row has both {target} and predictions."))
        return section
    name, names = _judged(splits), [column.removeprefix("prediction_") for column in classes]
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


def importance(output: str, rows: pl.LazyFrame) -> Section:
    """The features that helped most."""
    ordered = rows.select("feature", pl.col("gain").cast(pl.Float64)).drop_nulls().sort("gain", "feature", descending=[True, False])
    top, total = ordered.head(MOST_FEATURES).collect(), ordered.select(pl.len()).collect().item()
    most = max(float(top["gain"][0]), 1e-300) if top.height else 1.0
    cells = [(feature, gain / most, number_text(gain)) for feature, gain in top.iter_rows()]
    caption = f"The {top.height} of {total:,} features with the greatest mean gain a split."
    return Section(headline("Feature importance", output), [Grid(("feature", "", "gain"), "lbr", cells, caption)])
