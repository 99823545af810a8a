"""hash(x, ...): the hash of keys that split has, of values of one row. A step on the host, as FNV-1a goes through a text byte by byte."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import polars as pl

from pipeline.errors import ExpressionError
from pipeline.kernels.key_hash import fnv1a, splitmix
from pipeline.sql.arguments import need_arguments
from pipeline.sql.casts import filled
from pipeline.sql.tree import Node, cast, integer, shown

START = 0x9E3779B97F4A7C15
HOLES = 16


def hashed(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """The hash of values, UInt64: the same on any machine and in any version; null where one of them is."""
    need_arguments("hash(x, y)", nodes, 1, HOLES)
    words = [_word(node, dtype) for node, dtype in zip(nodes, dtypes, strict=True)]
    holes = [f"value {i} that is hashed" for i in range(len(words))]
    made = pl.map_batches([pl.col(hole) for hole in holes], _hashes, return_dtype=pl.UInt64(), is_elementwise=True)
    return filled(json.loads(made.meta.serialize(format="json")), dict(zip(holes, words, strict=True)))


def _word(node: Node, dtype: pl.DataType) -> Node:
    """Text as it is; whole numbers, conditions, days and microseconds since 1970 as Int64 or UInt64."""
    if dtype in {pl.String, pl.Null, pl.UInt64, pl.Int64}:
        return integer(node)
    if dtype.is_integer() or dtype == pl.Boolean:
        return cast(integer(node), "Int64")
    if dtype == pl.Date:
        return cast(cast(node, "Int32"), "Int64")
    if isinstance(dtype, pl.Datetime) and dtype.time_unit == "us":
        return cast(node, "Int64")
    raise ExpressionError(
        f"hash takes texts, whole numbers, conditions, dates and timestamps of microseconds, and {shown(node)} is {dtype}: cast it, as in "
        "cast(x as bigint) or cast(s as timestamp)"
    )


def _hashes(values: Sequence[pl.Series]) -> pl.Series:
    """The hashes of values; of one length, but those that stand in the expression."""
    rows = max((len(series) for series in values if len(series) != 1), default=min(len(series) for series in values))
    columns = [series.new_from_index(0, rows) if len(series) == 1 != rows and len(series) else series for series in values]
    found = pl.Series("", splitmix([_words(series) for series in columns], START), dtype=pl.UInt64)
    there = pl.DataFrame([series.is_not_null().alias(str(i)) for i, series in enumerate(columns)]).fold(lambda a, b: a & b)
    return found.set(~there, None)


def _words(values: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    if values.dtype == pl.Null:
        return np.zeros(len(values), np.uint64)
    if values.dtype != pl.String:
        return values.fill_null(0).to_numpy().astype(np.uint64)
    array = values.fill_null("").rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return fnv1a(np.frombuffer(data or b"", np.uint8), bounds)
