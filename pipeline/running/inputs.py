"""Inputs as tables: a part a source; on a GPU few large parts, whose pieces the threads of the host read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from pipeline.format import InputFormat
from pipeline.results.full import SPILLED, on_disk_of
from pipeline.tables.budget import Budget, Size
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.sources import Placed
from pipeline.tables.steps import Source
from pipeline.tables.table import Table


def input_table(session: Session, name: str, reader: InputFormat, schema: Schema, size: Size | None = None) -> Table:
    """The table that a reader gives, with the axes of its arrays; in so many parts that a few of them fit into memory.

    Where fewer tasks compute than read (one a GPU), what the session's tasks do not read themselves comes in as many pieces as threads can
    read at once, put together to as many parts as there would be for those that compute: a launch on a GPU costs as much for few rows.
    """
    axes = {array: _axis(session, name, frame) for array, frame in reader.axes().items()}
    parts = session.budget.parts(size) if session.budget else 1
    at_least, free = max(session.workers * session.threads, parts), parts > 1 and reader.parts is None
    sources = reader.sources(at_least)
    finer = _finer(session.budget, reader, len(sources), parts) if session.budget and free else reader
    if session.budget and finer is not reader:
        with on_disk_of(session.budget.folder, SPILLED):
            sources = finer.sources(at_least)
        size = _counted(sources, size)
    table = Table.of(session, name, sources, schema=schema, axes=axes, size=size)
    if session.readers <= session.threads or table.cheap:
        return table
    read = reader.sources(session.workers * session.readers) if finer is reader else sources
    return Table.of(session, name, read, schema=schema, axes=axes).in_parts(len(table.blocks))


def _finer(budget: Budget, reader: InputFormat, sources: int, parts: int) -> InputFormat:
    """The reader in so many parts, where it comes in fewer and they cost little, or the memory does not hold any less."""
    finer = reader.finer(sources, parts, budget.folder) if sources < parts else reader
    return reader.model_copy(update={"parts": parts}) if budget.stated and finer is reader else finer


def _counted(sources: Sequence[Source], size: Size | None) -> Size | None:
    """The size with as many rows as the sources have, where all of them know."""
    counts = [rows for source in sources if isinstance(source, Placed) for _, _, rows in source.places()]
    known = [rows for rows in counts if rows is not None]
    return replace(size, rows=sum(known)) if size and len(known) == len(counts) >= len(sources) else size


def _axis(session: Session, name: str, labels: pl.DataFrame) -> Table:
    """What labels an array: a task's result, for a frame would be sent with every task that takes it, and a cohort is megabytes of ids."""
    return Table.of(session, name, [session.submit(Part, labels, stage=name, on_host=True)], schema=Schema(labels.schema))
