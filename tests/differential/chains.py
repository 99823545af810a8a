"""Random chains of stages: two to four, of which some read a table that another has read, on tables or on files of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
from hypothesis import strategies as st

from pipeline.testing.stages import plan_stage
from tests.differential import keyed_links, row_links
from tests.differential.cases import Case
from tests.differential.chain import Chain, Link
from tests.differential.known import Known, Linked
from tests.differential.stores import IN_TEXT, Store, csv_stores, hive_stores, parquet_stores
from tests.differential.tables import ANY, tables

LINKS: list[Linked] = [
    row_links.filtered,
    row_links.derived,
    row_links.selected,
    row_links.renamed,
    row_links.cast,
    row_links.sample,
    row_links.fill_numbers,
    row_links.standardize,
    row_links.categorify,
    *[keyed_links.joined] * 3,
    *[keyed_links.aggregated] * 3,
    keyed_links.ordered,
    keyed_links.deduplicated,
    keyed_links.united,
]
FEW = ("key", "word", "flag", "price", "day", "small")


@st.composite
def _link(draw: st.DrawFn, name: str, known: Sequence[Known]) -> tuple[Link, Known]:
    """One more stage, mostly on the table made last, which may read any other beside it."""
    rows = known[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(list(known)))
    fit = [strategy for link in LINKS if (strategy := link(rows, known)) is not None]
    said = draw(draw(st.sampled_from(fit)))
    schemas = {table.name: table.schema for table in known}
    planned = plan_stage(said.stage, {role: pl.DataFrame(schema=schemas[table]) for role, table in said.reads.items()})[""]
    link = Link(name, said.stage, said.reads, said.sql)
    return link, replace(said.known, name=name, schema=planned.columns, drawn=said.known.drawn & {*planned.columns})


@st.composite
def chains(draw: st.DrawFn, stored: bool = False) -> Case:
    """A chain of two to four stages; on files where `stored`, else on tables."""
    text = stored and draw(st.booleans())
    few = [name for name in FEW if name in IN_TEXT] if text else FEW
    given = {"other": draw(tables(few, most=12, least=1)), "base": draw(tables(IN_TEXT if text else ANY, most=40, least=1))}
    ways: list[st.SearchStrategy[Store]] = (
        [csv_stores(), hive_stores(keys=few[:4])] if text else [parquet_stores(), parquet_stores(), hive_stores(["parquet"], few[:3])]
    )
    stores: dict[str, Store] = {name: draw(st.one_of(ways)) for name in given} if stored else {}
    cut_by = ""
    if stored and not text and draw(st.booleans()):
        cut_by, holes = "key", draw(st.booleans())
        given = {name: _ordered(table, holes) for name, table in given.items()}
        stores = {name: draw(parquet_stores([""], ["polars", "pyarrow"])) for name in given}
    known = [_opened(name, table, stores.get(name), cut_by) for name, table in given.items()]
    links: list[Link] = []
    for number in range(draw(st.integers(2, 4))):
        link, made = draw(_link(f"t{number}", known))
        links.append(link)
        known.append(made)
    chain = Chain(tuple(links))
    ends = {name: chain.sql(name) for name in chain.ends}
    return Case(chain, given, ends.pop(links[-1].name), result=links[-1].name, also=ends, stores=stores)


def _opened(name: str, table: pl.DataFrame, store: Store | None, cut_by: str) -> Known:
    schema = table.schema if store is None else store.schema(table)
    drawn = frozenset(column for column in schema if schema[column] == table.schema[column])
    return Known(name, schema, ("row",), drawn, ordered_by=cut_by)


def _ordered(table: pl.DataFrame, holes: bool) -> pl.DataFrame:
    """The rows in the order of their keys, none of them missing, or some in the midst of others."""
    keyed = table.with_columns(pl.col("key").fill_null(pl.col("row") % 5)).sort("key")
    every = pl.int_range(pl.len()) % 4 == 1
    return keyed.with_columns(pl.when(every).then(None).otherwise(pl.col("key")).alias("key")) if holes else keyed
