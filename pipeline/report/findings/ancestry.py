"""Axes of ancestry: where the people of a run lie on them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report import plots
from pipeline.report.finding import Evidence, Finding, Outputs
from pipeline.report.people import grouped_people, people_text, text_columns
from pipeline.report.pieces import Figure, Section, headline


class Ancestry(Finding, name="ancestry"):
    """Scatters of the first axes, with the eigenvalues of the first output that has them."""

    place = 400
    columns = ("pc1", "pc2")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        sizes = (evidence.outputs[name] for name, columns in evidence.columns.items() if columns >= {"component", "eigenvalue"})
        yield ancestry(output, evidence.outputs, next(sizes, None))


def ancestry(output: str, outputs: Outputs, eigenvalues: pl.LazyFrame | None) -> Section:
    """Scatters of the first axes, two by two, coloured by a column of a few texts where this or another output of the people has one."""
    has = outputs[output].collect_schema().names()
    axes = [pair for pair in (("pc1", "pc2"), ("pc3", "pc4")) if {*pair} <= {*has}]
    rows, by = grouped_people(output, outputs, text_columns(output, outputs, len(plots.GROUP_STYLES)))
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
        caption = people_text(known.height) + (f", coloured by {by}." if by else ".")
        about = f"{labels[1]} against {labels[0]}: {caption}" + (f" Groups: {', '.join(names)}." if by else "")
        section.blocks.append(Figure(plots.scatter(groups, (labels[0], labels[1]), about), caption, legend, "medium"))
    return section


def _eigenvalues(rows: pl.LazyFrame | None) -> dict[str, float]:
    if rows is None:
        return {}
    frame = rows.select(pl.col("component").cast(pl.Int64), pl.col("eigenvalue").cast(pl.Float64)).drop_nulls().head(4).collect()
    return {f"pc{component}": value for component, value in frame.iter_rows()}
