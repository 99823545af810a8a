"""Learned rows in order, in several parts on disk, and those of them that rows want: one part is read at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from pipeline.tables.laid import Laid

BESIDE = "__beside__"  # whether a learned row is of no value


def looked_up(wanted: Mapping[str, pl.DataFrame], places: pl.DataFrame, parts: Sequence[Laid]) -> pl.DataFrame:
    """The learned rows that are wanted of each column. A part whose values are all less or greater than these is not read."""
    values = {name: keys.drop_nulls("value").sort("value") for name, keys in wanted.items()}
    missing = {name: keys.filter(pl.col("value").is_null()) for name, keys in wanted.items()}
    found = [shown(pl.scan_ipc(parts[0].path)).head(0).collect()]
    for (number,), here in places.group_by("number", maintain_order=True):
        asked = {}
        for name, least, greatest, none in here.select("column", "least", "greatest", "missing").iter_rows():
            some = values[name].clear() if least is None else _between(values[name], least, greatest)
            asked[name] = pl.concat([some, missing[name]]) if none else some
        if any(map(len, asked.values())):
            learned = parts[int(number)].read([*found[0].drop("column").columns, BESIDE]).frame
            slices = zip(asked.items(), here["start"], here["rows"], strict=True)
            found += [_asked(learned.slice(start, rows), *of).select(found[0].columns) for of, start, rows in slices if len(of[1])]
    return pl.concat(found)


def _between(keys: pl.DataFrame, least: str, greatest: str) -> pl.DataFrame:
    first, last = keys["value"].search_sorted(least, "left"), keys["value"].search_sorted(greatest, "right")
    return keys[first:last]


def _asked(learned: pl.DataFrame, column: str, keys: pl.DataFrame) -> pl.DataFrame:
    """Of a column's learned rows those with these keys."""
    found = learned.join(keys, on=keys.columns, how="semi", nulls_equal=True).filter(~pl.col(BESIDE))
    return found.with_columns(pl.lit(column).alias("column"))


def shown(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The rows without what stands beside them meanwhile."""
    return rows.select(name for name in rows.collect_schema().names() if not name.startswith("__"))
