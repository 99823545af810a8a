"""People of an output, grouped by a column of this or of another output of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from pipeline.report.finding import Outputs

NO_GROUPS = {"split", "sample_id", "family_id", "father_id", "mother_id", "variant_id", "reason"}


def people_text(count: int) -> str:
    """How many people, in words."""
    return "1 person" if count == 1 else f"{count:,} people"


def text_columns(output: str, outputs: Outputs, most: int) -> list[tuple[str, str]]:
    """Columns of 2 to `most` texts: those named after populations first, then this output's own."""
    found = list[tuple[str, str]]()
    for name, rows in outputs_of_people(output, outputs):
        texts = [c for c, kind in rows.collect_schema().items() if kind in (pl.String, pl.Categorical) and c not in NO_GROUPS]
        counts = rows.select(pl.col(texts).n_unique()).collect().row(0) if texts else ()
        found += [(name, column) for column, count in zip(texts, counts, strict=True) if 2 <= count <= most]
    return sorted(found, key=lambda place: "pop" not in place[1].lower() and "ancestr" not in place[1].lower())


def outputs_of_people(output: str, outputs: Outputs) -> Iterator[tuple[str, pl.LazyFrame]]:
    """The output itself, then those that name people as it does; those of predictions before the rest, as they hold an outcome."""
    yield output, outputs[output]
    columns = {name: rows.collect_schema().names() for name, rows in outputs.items()}
    if "sample_id" in columns[output]:
        others = [name for name, found in columns.items() if name != output and "sample_id" in found]
        yield from ((name, outputs[name]) for name in sorted(others, key=lambda name: "prediction" not in columns[name]))


def grouped_people(output: str, outputs: Outputs, candidates: Iterable[tuple[str, str]]) -> tuple[pl.LazyFrame, str]:
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
