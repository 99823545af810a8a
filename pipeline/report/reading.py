"""The files that a run wrote, read back as rows: every output whose format says how."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from pipeline.files import within
from pipeline.job.spec import Output
from pipeline.plan.plan import Plan
from pipeline.results.manifest import Entry


def by_output(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Tables' files by output: the first piece of their paths."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.path.split("/")[0], []).append(entry)
    return found


def opened(plan: Plan, entries: Sequence[Entry], folder: str, notes: list[str]) -> dict[str, pl.LazyFrame]:
    """The rows of every output that can be read back, by output; what should be and cannot gets a note.

    `folder` is the run's folder or URL, which the entries' paths are relative to.
    """
    found = dict[str, pl.LazyFrame]()
    for name, files in by_output(entries).items():
        output = plan.job.outputs[name]
        paths = sorted(f"{folder.rstrip('/')}/{entry.path}" for entry in files)
        try:
            if (whole := _whole(output, paths, plan.tables[output.table].columns)) is not None:
                whole.collect_schema()
                found[name] = whole
        except (OSError, pl.exceptions.PolarsError) as error:
            notes.append(f"output {name} could not be read for this page: {error}")
    return found


def _whole(output: Output, paths: Sequence[str], columns: pl.Schema) -> pl.LazyFrame | None:
    """All rows; None where there are none to be read."""
    if not any("://" in path for path in paths) and (together := output.writer.scan_together(paths)) is not None:
        return together
    rows = list(_rows(output, paths, columns))
    return pl.concat(rows) if rows else None


def _rows(output: Output, paths: Sequence[str], columns: pl.Schema) -> Iterator[pl.LazyFrame]:
    # Text says nothing of its types, and a name such as 1 is no number; the rest (dates, say) is inferred.
    plain = {name: dtype for name, dtype in columns.items() if dtype.is_numeric() or dtype in (pl.String, pl.Boolean)}
    for path in paths:
        rows = output.writer.scan(_source(path), within(path, output.name).removeprefix(output.name), plain)
        if rows is not None:
            yield rows


def _source(path: str) -> Any:
    """The path, or what is at a URL."""
    if "://" not in path:
        return path
    import fsspec

    with fsspec.open(path, "rb") as file:
        return io.BytesIO(file.read())
