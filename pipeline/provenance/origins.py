"""Which columns every column of a plan comes from: asked of Polars, which need not read a column that an answer does not depend on.

A stage that is a query is run on empty rows, and the scan below notes what is read of it for one column of the result, and for the number
of rows alone. Kernels and models cannot be asked so: whatever they give depends on all that they read. Nothing is left out: a column
that is not named is one that the result would be the same without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
from polars.io.plugins import register_io_source

from pipeline.backend.engines import collect
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.stage import Context, FittedRows, Keyed, Rows, Whole
from pipeline.tables.part import Schema
from pipeline.tables.session import Session
from pipeline.tables.steps import Step, lazy_of
from pipeline.tables.table import Table
from pipeline.tables.told import TellsOrigins

IDENTITY, MADE, INDIRECT = "IDENTITY", "TRANSFORMATION", "INDIRECT"
_STRENGTH = (IDENTITY, MADE, INDIRECT)

Column = tuple[str, str]
"""A table and a column of it."""


@dataclass(frozen=True)
class Origins:
    """What a table comes from: for each of its columns others, and how (the same value, made of it, or not of its value alone);
    `rows` are those that say which rows there are."""

    columns: Mapping[str, Mapping[Column, str]]
    rows: frozenset[Column]


@dataclass(frozen=True)
class _Probe:
    """A source without rows that notes what is read of it."""

    schema: pl.Schema
    table: str
    read: set[str] = field(default_factory=set)

    @property
    def cheap(self) -> bool:
        """It has no rows to read."""
        return True

    def load(self) -> pl.LazyFrame:
        """A scan that Polars asks for the columns that it needs."""
        return register_io_source(self._frames, schema=self.schema, is_pure=False)

    def interval(self, column: str) -> None:
        """Nothing is known of values."""

    def _frames(
        self, columns: list[str] | None, predicate: pl.Expr | None, _rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        self.read.update(self.schema.names() if columns is None else columns)
        frame = self.schema.to_frame()
        if predicate is not None:
            self.read.update(predicate.meta.root_names())
            frame = frame.filter(predicate)
        yield frame if columns is None else frame.select(columns)


def of_plan(plan: Plan) -> dict[str, Origins]:
    """The origins of every table that a stage gives, among the tables that the stage reads."""
    return {name: found for stage in plan.stages for name, found in of_stage(stage, plan.job.seed).items()}


def of_stage(stage: PlannedStage, seed: int = 0) -> dict[str, Origins]:
    """The origins of a stage's tables."""
    found = {name: _all_of(stage, schema) for name, schema in stage.gives.items()}
    if (own := _told(stage) or _asked(stage, seed)) is not None:
        known = {name: own.columns.get(name, read) for name, read in found[stage.spec.name].columns.items()}
        found[stage.spec.name] = Origins(known, own.rows)
    return found


def through(origins: Mapping[str, Origins]) -> dict[str, Origins]:
    """The origins of the same tables among columns of inputs, through all stages before; tables come after those that they are made of."""
    found: dict[str, Origins] = {}
    for table, own in origins.items():
        before = {of for columns in own.columns.values() for of, _ in columns} | {of for of, _ in own.rows}
        rows = {origin for column in own.rows for origin in _inputs_of(found, column)}
        rows.update(*(found[of].rows for of in before if of in found))
        made: dict[int, dict[Column, str]] = {}  # of what many columns share, once
        for columns in own.columns.values():
            if id(columns) not in made:
                made[id(columns)] = _composed(found, columns)
        found[table] = Origins({name: made[id(columns)] for name, columns in own.columns.items()}, frozenset(rows))
    return found


def _composed(found: Mapping[str, Origins], columns: Mapping[Column, str]) -> dict[Column, str]:
    composed: dict[Column, str] = {}
    for column, how in columns.items():
        for origin, first in _inputs_of(found, column).items():
            _add(composed, origin, max(how, first, key=_STRENGTH.index))
    return composed


def _inputs_of(found: Mapping[str, Origins], column: Column) -> Mapping[Column, str]:
    table, name = column
    return found[table].columns[name] if table in found else {column: IDENTITY}


def _add(found: dict[Column, str], origin: Column, how: str) -> None:
    """The nearest of several ways counts."""
    found[origin] = min(how, found.get(origin, how), key=_STRENGTH.index)


def _all_of(stage: PlannedStage, schema: Schema) -> Origins:
    """Everything that a stage reads, for each of its columns."""
    read = [(table, column) for role, table in stage.spec.inputs.items() for column in stage.reads[role].columns]
    shared = dict.fromkeys(read, INDIRECT)
    return Origins(dict.fromkeys(schema.columns, shared), frozenset(read))


def _told(stage: PlannedStage) -> Origins | None:
    """What a stage says itself of its columns."""
    if not isinstance(stage.spec.stage, TellsOrigins):
        return None
    columns, rows = stage.spec.stage.origins(stage.reads)
    tables = stage.spec.inputs
    named = {name: [(tables[role], column) for role, column in each] for name, each in columns.items()}
    return Origins(
        {name: dict.fromkeys(each, IDENTITY if len(each) == 1 else MADE) for name, each in named.items()},
        frozenset((tables[role], column) for role, column in rows),
    )


def _asked(stage: PlannedStage, seed: int) -> Origins | None:
    """What Polars reads for each column of a stage that is a query; None for others."""
    of_frames = isinstance(stage.spec.stage, Rows | FittedRows | Keyed)
    if isinstance(stage.spec.stage, Whole) or (not of_frames and any(schema.arrays for schema in stage.reads.values())):
        return None
    probes = {role: _Probe(schema.columns, stage.spec.inputs[role]) for role, schema in stage.reads.items()}
    session = Session()
    tables = {role: Table.of(session, stage.spec.name, [probe], schema=Schema(probe.schema)) for role, probe in probes.items()}
    outcome = stage.spec.stage.run(tables, Context(stage.spec.name, seed, session)).tables[""]
    query = _Query(tuple(probes.values()), outcome.written, _noted(probes.values()))
    if _is_query(outcome.blocks):
        return query.origins(pl.concat([lazy_of(block, "cpu").query for block in outcome.blocks]))
    if not isinstance(stage.spec.stage, Keyed):
        return None
    (probe,) = probes.values()
    found = query.origins(stage.spec.stage.apply(probe.load()))
    return Origins(found.columns, found.rows.union(*found.columns.values()))  # the steps after it may look at any result


@dataclass(frozen=True)
class _Query:
    """The query of a stage: the scans below it, the columns that it may change (None: any), and what was read before, to learn of."""

    probes: Sequence[_Probe]
    written: frozenset[str] | None
    learned: frozenset[Column]

    def origins(self, query: pl.LazyFrame) -> Origins:
        """What is read for each column, and for the number of rows."""
        rows, columns = self._read(query.select(pl.len())), dict[str, Mapping[Column, str]]()
        for name in query.collect_schema().names():
            read = self._read(query.select(name))
            same = frozenset((probe.table, name) for probe in self.probes if name in probe.schema)
            if same and self.written is not None and name not in self.written:
                columns[name], rows = dict.fromkeys(same, IDENTITY), rows | (read - same)
            else:
                columns[name] = dict.fromkeys(self.learned, INDIRECT) | dict.fromkeys(read - rows or read, MADE)
        return Origins(columns, rows)

    def _read(self, query: pl.LazyFrame) -> frozenset[Column]:
        collect(query, "cpu")
        return _noted(self.probes)


def _noted(probes: Iterable[_Probe]) -> frozenset[Column]:
    """What was read since it was last asked."""
    found = frozenset((probe.table, column) for probe in probes for column in probe.read)
    for probe in probes:
        probe.read.clear()
    return found


def _is_query(blocks: Sequence[Step]) -> bool:
    """Whether these trees are queries on the probes alone."""
    return all(block.is_query and all(isinstance(source, _Probe) for source in block.sources) for block in blocks)
