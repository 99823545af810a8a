"""A format's files read and written as a run does it, in any number of parts, with what a reader promises checked on the way."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

from pipeline.format import InputFormat, JoinedOutput, OutputFormat, Piece
from pipeline.running.writing import need_all
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.steps import Step, evaluate
from pipeline.testing.stages import Data, cut, even_sizes, height

PARTS = (None, 1, 2, 7)


def read_table(reader: InputFormat, parallel: int = 2) -> Part:
    """All rows of a reader, one part below the other, as tasks read them; `parallel` is how many tasks can run at once.

    Asserts what a reader promises: sources that pickle, parts of the schema that it states, and as many rows as it says, where it does.
    """
    schema = reader.table_schema()
    sources = [pickle.loads(pickle.dumps(source)) for source in reader.sources(parallel)]
    assert sources, "a reader gives a source at least, with no rows where there are none"
    parts = [evaluate(Step("read", "tested", source=source), "cpu") for source in sources]
    for part in parts:
        assert part.frame.schema == schema.columns, f"a part's schema is not the stated one: {part.frame.schema}, not {schema.columns}"
        assert set(part.arrays) == set(schema.arrays) == set(reader.axes()), f"arrays differ: {set(part.arrays)}, not {set(schema.arrays)}"
    whole = concat_parts(parts)
    assert reader.rows() in (None, whole.frame.height), f"the reader says {reader.rows()} rows, and there are {whole.frame.height}"
    return whole


def assert_reads(reader: InputFormat, expected: pl.DataFrame) -> None:
    """Assert that a reader gives these rows, in this order, cut by itself and into 1, 2 and 7 parts."""
    for parts in PARTS:
        found = read_table(reader.model_copy(update={"parts": parts})).frame
        try:
            assert_frame_equal(found, expected)
        except AssertionError as error:
            raise AssertionError(f"parts: {parts}: {error}") from error


def write_table(
    writer: OutputFormat, table: Data, folder: Path, parts: int = 1, axes: Mapping[str, pl.DataFrame] | None = None
) -> list[Path]:
    """The files that a writer makes of a table in so many parts, in a folder that is made; in the order of the rows.

    Raises what the writer's `check` does, JobError for a table that it cannot hold; RunError where rows were lost on the way.
    """
    whole, axes = table if isinstance(table, Part) else Part(table), axes or {}
    schema = Schema(whole.frame.schema, {name: axes[name].schema for name in whole.arrays})
    writer.check(schema, schema.columns.names())
    folder.mkdir(parents=True)
    pieces = cut(whole, even_sizes(height(table), parts))
    paths = [folder / f"part-{number:05d}{writer.suffix}" for number in range(parts)]
    if isinstance(writer, JoinedOutput):
        written = [Piece(str(path), writer.write_piece(part, axes, str(path))) for part, path in zip(pieces, paths, strict=True)]
        endings = writer.join(written, axes, str(folder / "whole"))
        need_all(str(folder / "whole"), written, endings)
        return [folder / f"whole{ending}" for ending in endings]
    for part, path in zip(pieces, paths, strict=True):
        writer.write(part, axes, str(path))
    return paths


def assert_round_trip(writer: OutputFormat, reader: type[InputFormat], table: pl.DataFrame, folder: Path, **keys: Any) -> None:
    """Assert that a table comes back as it was, written in 1, 2 and 7 parts and read from the folder of their files.

    `keys` are what else the reader is told: `columns={"age": "float64"}`, where a file does not say its types.
    """
    for parts in (1, 2, 7):
        write_table(writer, table, folder / str(parts), parts)
        assert_reads(reader.model_validate({"path": str(folder / str(parts)), **keys}), table)
