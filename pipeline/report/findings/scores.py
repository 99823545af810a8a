"""Polygenic scores: how they are spread among the people of a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.kernels.metrics import auc
from pipeline.report import plots
from pipeline.report.finding import Evidence, Finding, Outputs
from pipeline.report.people import grouped_people, outputs_of_people, people_text, text_columns
from pipeline.report.pieces import Figure, Note, Section, headline, number_text
from pipeline.report.splits import SPLIT_STYLES, auc_interval

NO_OUTCOMES = {"sample_id", "sex", "prediction", "score_sum", "score_average", "variants_used"}
MOST_COLUMNS, MOST_COLOURS = 50, 7


class Scores(Finding, name="scores"):
    """Distributions of scores, by an outcome, a split or a group where the people have one."""

    place = 600
    any_of = ("score_sum", "score_average")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        yield scores(output, evidence.outputs)


def scores(output: str, outputs: Outputs) -> Section:
    """How polygenic scores are spread: by a column of 0 and 1 of this or another output of the people, else by split, else by a group."""
    has = outputs[output].collect_schema().names()
    value = "score_average" if "score_average" in has else "score_sum"
    rows, by = grouped_people(output, outputs, _by_score(output, outputs))
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


def _moments(found: plots.Floats) -> str:
    spread = f", SD {number_text(float(found.std(ddof=1)))}" if len(found) > 1 else ""
    return f"{people_text(len(found))}, mean {number_text(float(found.mean()))}{spread}"


def _separation(controls: plots.Floats, cases: plots.Floats) -> str:
    area = auc(np.repeat([0, 1], [len(controls), len(cases)]), np.concatenate([controls, cases]))
    low, high = auc_interval(area, len(cases), len(controls) + len(cases))
    return f" The AUC of 1 against 0 is {area:.3f} ({low:.3f} to {high:.3f})."


def _by_score(output: str, outputs: Outputs) -> Iterator[tuple[str, str]]:
    """Columns to show scores by, the best first: outcomes of 0 and 1, split, groups."""
    for name, rows in outputs_of_people(output, outputs):
        schema = rows.collect_schema()
        numbers = [c for c, kind in schema.items() if (kind.is_numeric() or kind == pl.Boolean) and c not in NO_OUTCOMES]
        if numbers and len(schema) <= MOST_COLUMNS:
            values = [pl.col(c).cast(pl.Float64).drop_nulls().unique().is_in([0.0, 1.0]) for c in numbers]
            both = rows.select(v.all() & (v.len() == 2) for v in values).collect().row(0)
            yield from ((name, column) for column, fits in zip(numbers, both, strict=True) if fits)
    for name, rows in outputs_of_people(output, outputs):
        if "split" in rows.collect_schema().names():
            yield name, "split"
    yield from text_columns(output, outputs, MOST_COLOURS)
