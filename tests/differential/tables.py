"""Random tables: one row number, keys that repeat, and every type of column with its extremes.

Within a stage null is the only missing value, as reading makes it so; what reading makes of NaN and infinities is a test of its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import strategies as st

ZONE = "Europe/Berlin"
INTEGERS = {f"{sign}int{bits}": getattr(pl, f"{sign.upper()}Int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
UNICODE = ["", "a", "A", "b ", " ab", "10", "9", "Zürich", "äöü", "Ωmega", "日本", "🧬x", "e\u0301", "a'b", 'q"r', "%_", "x-y-z", "null"]
FLOATS = [0.0, -0.0, 0.1, -2.5, 1 / 3, 2.0**53 + 2, 1e-300, -1e15, 123456.789, 7.0]
DATES = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29), dt.date(2021, 1, 1), dt.date(2021, 6, 1), dt.date(9999, 12, 31)]
MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2021, 3, 28, 1, 30), dt.datetime(2021, 5, 31, 22, 30)]
MOMENTS += [dt.datetime(2021, 10, 31, 0, 30), dt.datetime(2021, 10, 31, 1, 30), dt.datetime(2020, 2, 29, 12, 0, 0, 1)]
DECIMALS = [Decimal(text) for text in ("0.00", "19.99", "-0.01", "0.19", "100.00", "123456789.10", "-7.25")]
SKEWED = [1, 1, 1, 1, 1, 2, 2, 3, -4, 7]

COLUMNS: dict[str, tuple[pl.DataType, Sequence[Any]]] = {
    "key": (pl.Int64(), SKEWED),
    "word": (pl.String(), UNICODE),
    "flag": (pl.Boolean(), [True, False]),
    "ratio": (pl.Float64(), FLOATS),
    "share": (pl.Float32(), [0.0, 0.5, -1.25, 3.0, 1e10]),
    "day": (pl.Date(), DATES),
    "clock": (pl.Datetime("us"), MOMENTS),
    "moment": (pl.Datetime("us", ZONE), MOMENTS),
    "price": (pl.Decimal(12, 2), DECIMALS),
    "small": (pl.Int32(), [0, 1, -1, 2, 5, 10, -7, 100]),
}


def _limits(dtype: Any) -> list[int]:
    low, high = (pl.select(bound).item() for bound in (dtype.min(), dtype.max()))
    return [low, low + 1, 0, 1, 2, 77, high - 1, high]


COLUMNS |= {name: (dtype(), _limits(dtype)) for name, dtype in INTEGERS.items()}
ANY = tuple(COLUMNS)
COLUMNS |= {
    "wide": (pl.Decimal(20, 0), [Decimal(2**53 + 1), Decimal(-(2**53) - 1), Decimal(2**63 - 1), Decimal(2**63), Decimal(1)]),
    "huge": (pl.Float64(), [1e300, -1e300, 1.0, -0.5]),
}


def frame(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> pl.DataFrame:
    """The rows, numbered in the column `row`; wall times of the zone's column are those of UTC."""
    found = {"row": pl.Series(range(len(rows)), dtype=pl.Int64)}
    for place, name in enumerate(names):
        dtype, values = COLUMNS[name][0], [row[place] for row in rows]
        if isinstance(dtype, pl.Datetime) and dtype.time_zone:
            found[name] = pl.Series(values, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
        else:
            found[name] = pl.Series(values, dtype=dtype)
    return pl.DataFrame(found)


@st.composite
def tables(draw: st.DrawFn, names: Sequence[str] = ANY, most: int = 24, least: int = 0) -> pl.DataFrame:
    """A table of these columns, mostly of as many rows as it may have; about one value in eight is null."""
    row = st.tuples(*(st.sampled_from([*COLUMNS[name][1], *[None] * (1 + len(COLUMNS[name][1]) // 8)]) for name in names))
    height = draw(st.sampled_from([least, least + 1, most, most // 2, most]))
    return frame(draw(st.lists(row, min_size=height, max_size=height)), names)


def some(names: Sequence[str], least: int = 1, most: int = 3) -> st.SearchStrategy[list[str]]:
    """Different names out of these."""
    return st.lists(st.sampled_from(list(names)), min_size=least, max_size=most, unique=True)
