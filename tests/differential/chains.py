"""Random chains of stages: two to four, of which some read a table that another has read, on tables or on files of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
from hypothesis import strategies as st

from pipeline.testing.stages import plan_stage
from tests.differential import keyed_links, row_links, window_links
from tests.differential.cases import Case
from tests.differential.chain import Chain, Link
from tests.differential.known import Known, Linked
from tests.differential.stores import IN_TEXT, Store, csv_stores, hive_stores, parquet_in_groups, parquet_stores
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
    window_links.windowed,
    window_links.topped,
]
BY_KEYS: list[Linked] = [
    row_links.derived,
    row_links.derived,
    keyed_links.joined,
    keyed_links.joined,
    keyed_links.aggregated,
    keyed_links.deduplicated,
    window_links.windowed,
]
FEW = ("key", "word", "flag", "price", "day", "small")


@st.composite
def _link(draw: st.DrawFn, name: str, known: Sequence[Known], links: Sequence[Linked]) -> tuple[Link, Known]:
    """One more stage, mostly on the table made last, which may read any other beside it."""
    rows = known[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(list(known)))
    fit = [strategy for link in links if (strategy := link(rows, known)) is not None]
    said = draw(draw(st.sampled_from(fit)))
    schemas = {table.name: table.schema for table in known}
    planned = plan_stage(said.stage, {role: pl.DataFrame(schema=schemas[table]) for role, table in said.reads.items()})[""]
    link = Link(name, said.stage, said.reads, said.sql)
    return link, replace(said.known, name=name, schema=planned.columns, drawn=said.known.drawn & {*planned.columns})


@st.composite
def chains(draw: st.DrawFn, of: str = "tables") -> Case:
    """A chain of two to four stages on one of GIVEN; of two or three that bring keys together where files are cut by them."""
    given, stores = draw(GIVEN[of])
    cut_by, links, made = ("key", BY_KEYS, list[Link]()) if of == "files cut by keys" else ("", LINKS, list[Link]())
    known = [_opened(name, table, stores.get(name), cut_by) for name, table in given.items()]
    for number in range(draw(st.integers(2, 3 if cut_by else 4))):
        link, table = draw(_link(f"t{number}", known, links))
        made.append(link)
        known.append(table)
    chain = Chain(tuple(made))
    ends = {name: chain.sql(name) for name in chain.ends}
    return Case(chain, given, ends.pop(made[-1].name), result=made[-1].name, also=ends, stores=stores)


Tables = tuple[dict[str, pl.DataFrame], dict[str, Store]]


@st.composite
def _tables(draw: st.DrawFn, names: Sequence[str], ways: Sequence[st.SearchStrategy[Store]] = ()) -> Tables:
    """Two tables, of which one is small and of a few columns, and the ways to write them."""
    few = [name for name in FEW if name in names]
    given = {"other": draw(tables(few, most=12, least=1)), "base": draw(tables(names, most=40, least=1))}
    return given, {name: draw(st.one_of(ways)) for name in given if ways}


@st.composite
def _cut_by_keys(draw: st.DrawFn) -> Tables:
    """The same in Parquet files whose rows are in the order of their keys; none of them missing, or some in the midst of others.

    Keys of their own, in steps, are apart from one part to the next; those that repeat may be in two parts.
    """
    given, stores = draw(_tables(ANY, [parquet_in_groups()]))
    holes = draw(st.sampled_from([False, False, True]))
    for name, table in given.items():
        step, first = draw(st.sampled_from([0, 0.5, 1, 1, 1, 1, 2])), draw(st.integers(0, 9))
        spaced = (pl.col("row") * step).floor().cast(pl.Int64) + first
        keys = spaced if step else pl.col("key").fill_null(pl.col("row") % 5)
        given[name] = _with_holes(table.with_columns(keys.alias("key")).sort("key"), holes)
    return given, stores


GIVEN: dict[str, st.SearchStrategy[Tables]] = {
    "tables": _tables(ANY),
    "files": _tables(ANY, [parquet_stores(), parquet_stores(), hive_stores(["parquet"], ["key", "word", "flag"])])
    | _tables(IN_TEXT, [csv_stores(), hive_stores(keys=["key", "word", "flag", "day"])]),
    "files cut by keys": _cut_by_keys(),
}


def _opened(name: str, table: pl.DataFrame, store: Store | None, cut_by: str) -> Known:
    schema = table.schema if store is None else store.schema(table)
    drawn = frozenset(column for column in schema if schema[column] == table.schema[column])
    return Known(name, schema, ("row",), drawn, ordered_by=cut_by)


def _with_holes(table: pl.DataFrame, holes: bool) -> pl.DataFrame:
    every = pl.int_range(pl.len()) % 4 == 1
    return table.with_columns(pl.when(every).then(None).otherwise(pl.col("key")).alias("key")) if holes else table
