"""Stages that read one another's tables, run as a job runs them: lazily, tables held where several stages read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from pipeline.stage import Context, Stage
from pipeline.tables.part import Schema, concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, cut, even_sizes
from tests.differential.stores import Stored

Given = pl.DataFrame | Stored


@dataclass(frozen=True)
class Link:
    """A stage of a chain: its table's name, the tables that it reads by role, and what it does as SQL on tables of their names."""

    name: str
    stage: Stage
    reads: Mapping[str, str]
    sql: str


@dataclass(frozen=True)
class Chain:
    """Stages in order, of which some read tables of those before."""

    links: tuple[Link, ...]

    @property
    def ends(self) -> list[str]:
        """The tables that no stage reads."""
        read = {table for link in self.links for table in link.reads.values()}
        return [link.name for link in self.links if link.name not in read]

    def sql(self, name: str) -> str:
        """One of the tables as a query on those that the chain is given."""
        tables = ", ".join(f"{link.name} as ({link.sql})" for link in self.links)
        return f"with {tables} select * from {name}"

    def run(self, given: Mapping[str, Given], parts: int, session: Session) -> dict[str, pl.DataFrame]:
        """The tables that no stage reads, from tables cut, or files read, in so many parts."""
        uses = Counter(table for link in self.links for table in link.reads.values())
        tables = {name: self._kept(_opened(session, name, table, parts), name, uses) for name, table in given.items() if uses[name]}
        for link in self.links:
            reads = {role: tables[name] for role, name in link.reads.items()}
            context = Context(link.name, SEED, session)
            planned = link.stage.plan({role: _schema(table) for role, table in reads.items()}, replace(context, session=Session()))
            made = link.stage.run(reads, context).tables[""]
            tables[link.name] = self._kept(replace(made, schema=planned[""]), link.name, uses)
        return {name: _collected(tables[name], session) for name in self.ends}

    def _kept(self, table: Table, name: str, uses: Mapping[str, int]) -> Table:
        table = replace(table, name=name)
        return table.hold() if uses[name] > 1 and not table.cheap else table


def _opened(session: Session, name: str, given: Given, parts: int) -> Table:
    if isinstance(given, pl.DataFrame):
        return Table.of(session, name, cut(given, even_sizes(given.height, parts)), schema=Schema(given.schema))
    reader = given.reader.model_copy(update={"parts": parts})
    return Table.of(session, name, reader.sources(2), schema=reader.table_schema())


def _schema(table: Table) -> Schema:
    assert table.schema is not None
    return table.schema


def _collected(table: Table, session: Session) -> pl.DataFrame:
    parts = [future.result() if session.is_future(future) else future for future in table.futures()]
    frame = concat_parts(parts).frame
    assert frame.schema == _schema(table).columns, f"planned {_schema(table).columns}, given {frame.schema}"
    return frame
