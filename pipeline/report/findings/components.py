"""Where rows lie on the first two components of their features."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report import plots
from pipeline.report.drawn import drawn
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Section, headline

FIRST, SECOND, GROUP = "component_1", "component_2", "__group__"


class Components(Finding, name="components"):
    """A scatter, coloured by the clusters of another output with the same key, or by a column of a few texts."""

    place = 640
    columns = (FIRST, SECOND)

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        yield Section(headline("Components", output), [scatter(output, evidence)])


def scatter(output: str, evidence: Evidence) -> Figure:
    """The rows on the first two components, with what these explain where an output says it."""
    rows, by = _grouped(output, evidence)
    shares = next((evidence.outputs[name] for name, found in evidence.columns.items() if found >= {"component", "explained_share"}), None)
    seldom = drawn(rows, [FIRST, SECOND, GROUP])
    frame = (
        seldom.rows.select(pl.col(FIRST, SECOND).cast(pl.Float64, strict=False), GROUP)
        .filter(pl.col(FIRST).is_finite() & pl.col(SECOND).is_finite())
        .collect()
    )
    names = frame[GROUP].unique().to_list()
    names.sort(key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    styles = dict(zip(names, plots.GROUP_STYLES, strict=False))
    groups = [(styles[name], *frame.filter(pl.col(GROUP) == name).select(FIRST, SECOND).to_numpy().T) for name in names]
    known = dict(shares.select("component", "explained_share").collect().iter_rows()) if shares is not None else {}
    labels = [f"Component {number}" + (f" ({known[number]:.1%} of the variance)" if number in known else "") for number in (1, 2)]
    caption = f"{frame.height:,} rows on their first two components" + (f", coloured by {by}." if by else ".") + seldom.said
    legend = [(styles[name], name) for name in names] if by else []
    return Figure(plots.scatter(groups, (labels[0], labels[1]), caption), caption, legend, "medium")


def _grouped(output: str, evidence: Evidence) -> tuple[pl.LazyFrame, str]:
    """The rows with a text GROUP, and the words for what it is from: clusters of its own or of another output, then a column of texts."""
    rows, most = evidence.outputs[output], len(plots.GROUP_STYLES)
    key = rows.collect_schema().names()[0]
    others = [
        name for name, columns in evidence.columns.items() if name != output and columns >= {key, "cluster"} and "feature" not in columns
    ]
    for name in [output] * ("cluster" in evidence.columns[output]) + others:
        theirs = evidence.outputs[name]
        if theirs.collect_schema()[key] != rows.collect_schema()[key]:
            continue
        if theirs.select(pl.col("cluster").n_unique()).collect().item() <= most - 1:
            clusters = theirs.select(key, pl.col("cluster").cast(pl.String).alias(GROUP)).unique(key, maintain_order=True)
            grouped = rows.join(clusters, on=key, how="left", maintain_order="left")
            return grouped.with_columns(pl.col(GROUP).fill_null("none")), "cluster" + (f" (of output {name})" if name != output else "")
    texts = [name for name, dtype in rows.collect_schema().items() if dtype == pl.String and name not in (key, "split")]
    for name in texts:
        if 2 <= rows.select(pl.col(name).n_unique()).collect().item() <= most - 1:
            return rows.with_columns(pl.col(name).fill_null("none").alias(GROUP)), name
    return rows.with_columns(pl.lit("").alias(GROUP)), ""
