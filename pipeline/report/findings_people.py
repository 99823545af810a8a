"""What is shown of people: axes of ancestry, relatives and polygenic scores, by a column of the same or of another output."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.kernels.metrics import auc
from pipeline.report import plots
from pipeline.report.findings_loci import Outputs
from pipeline.report.findings_predictions import SPLIT_STYLES, auc_interval
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text

NO_GROUPS = {"split", "sample_id", "family_id", "father_id", "mother_id", "variant_id", "reason"}
NO_OUTCOMES = {"sample_id", "sex", "prediction", "score_sum", "score_average", "variants_used"}
MOST_COLUMNS, MOST_COLOURS, MOST_PAIRS = 50, 7, 10
DEGREES = (("duplicates or twins", 0.354), ("first degree", 0.177), ("second degree", 0.0884), ("third degree", 0.0442))
"""Kinship above which KING calls two people relatives of a degree (Manichaikul et al. 2010, Bioinformatics 26:2867-2873)."""


def ancestry(output: str, outputs: Outputs, eigenvalues: pl.LazyFrame | None) -> Section:
    """Scatters of the first axes, two by two, coloured by a column of a few texts where this or another output of the people has one."""
    has = outputs[output].collect_schema().names()
    axes = [pair for pair in (("pc1", "pc2"), ("pc3", "pc4")) if {*pair} <= {*has}]
    rows, by = _grouped(output, outputs, _texts(output, outputs, len(plots.GROUP_STYLES)))
    frame = rows.select("group", *(pl.col(a).cast(pl.Float64, strict=False) for pair in axes for a in pair)).collect()
    names = sorted(frame["group"].unique().to_list())
    styles = dict(zip(names, plots.GROUP_STYLES, strict=False))
    section = Section(headline("Ancestry", output))
    sizes = _eigenvalues(eigenvalues)
    for pair in axes:
        known = frame.filter(pl.all_horizontal(pl.col(pair).is_finite()))
        groups = [(styles[n], *known.filter(pl.col("group") == n).select(pair).to_numpy().T) for n in names]
        labels = [a.upper() + (f" (eigenvalue {sizes[a]:.4g})" if a in sizes else "") for a in pair]
        legend = [(styles[name], name) for name in names] if by else []
        caption = _people(known.height) + (f", coloured by {by}." if by else ".")
        about = f"{labels[1]} against {labels[0]}: {caption}" + (f" Groups: {', '.join(names)}." if by else "")
        section.blocks.append(Figure(plots.scatter(groups, (labels[0], labels[1]), about), caption, legend, "medium"))
    return section


def _eigenvalues(rows: pl.LazyFrame | None) -> dict[str, float]:
    if rows is None:
        return {}
    frame = rows.select(pl.col("component").cast(pl.Int64), pl.col("eigenvalue").cast(pl.Float64)).drop_nulls().head(4).collect()
    return {f"pc{component}": value for component, value in frame.iter_rows()}


def scores(output: str, outputs: Outputs) -> Section:
    """How polygenic scores are spread: by a column of 0 and 1 of this or another output of the people, else by split, else by a group."""
    has = outputs[output].collect_schema().names()
    value = "score_average" if "score_average" in has else "score_sum"
    rows, by = _grouped(output, outputs, _by_score(output, outputs))
    frame = rows.select("group", pl.col(value).cast(pl.Float64, strict=False)).collect()
    known, section = frame.filter(pl.col(value).is_finite()), Section(headline("Polygenic scores", output))
    if known.height < frame.height:
        section.blocks.append(Note(f"{frame.height - known.height:,} of {frame.height:,} people have no score."))
    if known.height == 0:
        return section
    of = {name: known.filter(pl.col("group") == name)[value].to_numpy() for name in sorted(known["group"].unique())}
    colours = {"unknown": "s6", **SPLIT_STYLES}
    styles = {name: colours.get(name, plots.GROUP_STYLES[number % MOST_COLOURS]) for number, name in enumerate(of)}
    named = f"{by.split()[0]} = " if by and {*of} <= {"0", "1", "unknown"} else ""
    legend = [(styles[name], f"{named}{name or 'all'}: {_moments(found)}") for name, found in of.items()]
    caption = (
        f"{value} of {known.height:,} people"
        + (f", by {by}." if by else ".")
        + (_separation(of["0"], of["1"]) if {"0", "1"} <= {*of} else "")
    )
    about = f"Distribution of {caption} {'; '.join(text for _, text in legend)}"
    figure = plots.histogram([(styles[name], found) for name, found in of.items()], value, about)
    section.blocks.append(Figure(figure, caption, legend, "medium"))
    return section


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"


def _moments(found: plots.Floats) -> str:
    spread = f", SD {number_text(float(found.std(ddof=1)))}" if len(found) > 1 else ""
    return f"{_people(len(found))}, mean {number_text(float(found.mean()))}{spread}"


def _separation(controls: plots.Floats, cases: plots.Floats) -> str:
    area = auc(np.repeat([0, 1], [len(controls), len(cases)]), np.concatenate([controls, cases]))
    low, high = auc_interval(area, len(cases), len(controls) + len(cases))
    return f" The AUC of 1 against 0 is {area:.3f} ({low:.3f} to {high:.3f})."


def kinship(output: str, rows: pl.LazyFrame) -> Section:
    """Pairs by degree of their kinship, and the closest pairs."""
    pairs = rows.select(pl.col("sample_id_1", "sample_id_2").cast(pl.String), pl.col("kinship").cast(pl.Float64)).drop_nulls()
    above = pairs.select((pl.col("kinship") > least).sum().alias(name) for name, least in DEGREES).collect(engine="streaming").row(0)
    cells = [
        (name, f"above {least:g}", number_text(count - before))
        for (name, least), count, before in zip(DEGREES, above, (0, *above[:-1]), strict=True)
    ]
    order = pairs.sort("kinship", "sample_id_1", "sample_id_2", descending=[True, False, False]).head(MOST_PAIRS)
    closest = [(first, second, f"{value:.4f}") for first, second, value in order.collect(engine="streaming").iter_rows()]
    section = Section(headline("Relatives", output), [Grid(("degree", "kinship", "pairs"), "llr", cells, "Pairs by KING's degrees.")])
    if closest:
        section.blocks.append(Grid(("person", "person", "kinship"), "llr", closest, f"The {len(closest)} closest pairs."))
    return section


def _by_score(output: str, outputs: Outputs) -> Iterator[tuple[str, str]]:
    """Columns to show scores by, the best first: outcomes of 0 and 1, split, groups."""
    for name, rows in _of_people(output, outputs):
        schema = rows.collect_schema()
        numbers = [c for c, kind in schema.items() if (kind.is_numeric() or kind == pl.Boolean) and c not in NO_OUTCOMES]
        if numbers and len(schema) <= MOST_COLUMNS:
            values = [pl.col(c).cast(pl.Float64).drop_nulls().unique().is_in([0.0, 1.0]) for c in numbers]
            both = rows.select(v.all() & (v.len() == 2) for v in values).collect().row(0)
            yield from ((name, column) for column, fits in zip(numbers, both, strict=True) if fits)
    for name, rows in _of_people(output, outputs):
        if "split" in rows.collect_schema().names():
            yield name, "split"
    yield from _texts(output, outputs, MOST_COLOURS)


def _texts(output: str, outputs: Outputs, most: int) -> list[tuple[str, str]]:
    """Columns of 2 to `most` texts: those named after populations first, then this output's own."""
    found = list[tuple[str, str]]()
    for name, rows in _of_people(output, outputs):
        texts = [c for c, kind in rows.collect_schema().items() if kind in (pl.String, pl.Categorical) and c not in NO_GROUPS]
        counts = rows.select(pl.col(texts).n_unique()).collect().row(0) if texts else ()
        found += [(name, column) for column, count in zip(texts, counts, strict=True) if 2 <= count <= most]
    return sorted(found, key=lambda place: "pop" not in place[1].lower() and "ancestr" not in place[1].lower())


def _of_people(output: str, outputs: Outputs) -> Iterator[tuple[str, pl.LazyFrame]]:
    """The output itself, then those that name people as it does; those of predictions before the rest, as they hold an outcome."""
    yield output, outputs[output]
    columns = {name: rows.collect_schema().names() for name, rows in outputs.items()}
    if "sample_id" in columns[output]:
        others = [name for name, found in columns.items() if name != output and "sample_id" in found]
        yield from ((name, outputs[name]) for name in sorted(others, key=lambda name: "prediction" not in columns[name]))


def _grouped(output: str, outputs: Outputs, candidates: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> tuple[pl.LazyFrame, str]:
    """The output's rows with a text `group`, and the words for the column it is from: the first that parts these people in two at least."""
    rows = outputs[output]
    for name, column in candidates:
        kind = outputs[name].collect_schema()[column]
        value = pl.col(column) if kind in (pl.String, pl.Categorical) else pl.col(column).cast(pl.Int64)
        text = value.cast(pl.String).alias("group")
        if name == output:
            grouped = rows.with_columns(text)
        else:
            sheet = outputs[name].select(pl.col("sample_id").cast(pl.String), text).group_by("sample_id").agg(pl.col("group").min())
            people = rows.drop("group", strict=False).with_columns(pl.col("sample_id").cast(pl.String))
            grouped = people.join(sheet, on="sample_id", how="left", maintain_order="left")
        if grouped.select(pl.col("group").drop_nulls().n_unique()).collect().item() >= 2:
            return grouped.with_columns(pl.col("group").fill_null("unknown")), column if name == output else f"{column} (of output {name})"
    return rows.with_columns(group=pl.lit("")), ""
