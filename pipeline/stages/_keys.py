"""A number in [0, 1) from key columns: the same on every machine, backend and division into parts. For split and sample; not a stage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from pipeline.errors import StageError
from pipeline.kernels.key_hash import fnv1a
from pipeline.stage import need_columns
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

STEP = 0x9E3779B97F4A7C15  # splitmix64 (Steele, Lea & Flood, OOPSLA 2014): its step, and below its two multipliers
FRACTION, HASHED = "__fraction__", "__hashed__"


def need_hashable(schema: Schema, keys: Sequence[str], *, key: str = "") -> None:
    """Raise StageError for a key that is missing, or is not text, an integer or a boolean; `key` is the parameter that names them."""
    need_columns(schema, keys, key=key)
    for name in keys:
        dtype = schema.columns[name]
        if not (dtype.is_integer() or dtype in {pl.String, pl.Boolean}):
            raise StageError(f"key {name!r} is {dtype}, and a key is text, an integer or a boolean. Cast it before.", key=key)


def with_fraction(rows: Table, keys: Sequence[str], start: int) -> Table:
    """The table with the column FRACTION, made of its keys. Integers stay one lazy query; text is hashed in a step on parts before it."""
    assert rows.schema is not None
    texts = [key for key in keys if rows.schema.columns[key] == pl.String]
    if texts:
        rows = rows.map_parts(_with_hashed, texts, writes=frozenset())
    words = [HASHED + key if key in texts else key for key in keys]
    return rows.map(_with_fraction, words, start, writes=frozenset())


def fraction(words: Sequence[pl.Expr], start: int) -> pl.Expr:
    """The mix of UInt64 words as a fraction, its upper 53 bits over 2^53; of one word z it is splitmix64's output for z + start.

    Of several words each is added to the mix of those before it. Sums and products wrap at 64 bits.
    """
    z = _word(start)
    for word in words:
        z = word + z
        z = (z ^ (z // _word(2**30))) * _word(0xBF58476D1CE4E5B9)
        z = (z ^ (z // _word(2**27))) * _word(0x94D049BB133111EB)
        z = z ^ (z // _word(2**31))
    return (z // _word(2**11)).cast(pl.Float64) * 2.0**-53


def as_word(column: str, dtype: pl.DataType) -> pl.Expr:
    """A key as UInt64, two's complement where it is negative; a missing one counts as 0."""
    key = pl.col(column)
    if dtype == pl.Boolean or dtype.is_unsigned_integer():
        return key.cast(pl.UInt64).fill_null(_word(0))
    wide = key.cast(pl.Int64)
    below = _word(2**64 - 1) - pl.when(wide < 0).then(-(wide + 1)).otherwise(None).cast(pl.UInt64)
    return pl.when(wide >= 0).then(wide).otherwise(None).cast(pl.UInt64).fill_null(below).fill_null(_word(0))


def _word(value: int) -> pl.Expr:
    return pl.lit(value % 2**64, dtype=pl.UInt64)


def _with_fraction(rows: pl.LazyFrame, words: list[str], start: int) -> pl.LazyFrame:
    schema = rows.collect_schema()
    value = fraction([as_word(word, schema[word]) for word in words], start)
    return rows.with_columns(value.alias(FRACTION)).drop([word for word in words if word.startswith(HASHED)])


def _with_hashed(part: Part, texts: list[str]) -> Part:
    return part.replaced(part.frame.with_columns(pl.Series(HASHED + key, text_hashes(part.frame[key])) for key in texts))


def text_hashes(texts: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """FNV-1a of every text's UTF-8 bytes; a missing text counts as ''."""
    array = texts.fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return fnv1a(np.frombuffer(data or b"", np.uint8), bounds)
