"""Random tables: one row number, keys that repeat, and every type of column with its extremes.

Within a stage null is the only missing value, as reading makes it so; what reading makes of NaN and infinities is a test of its own. Of a
table hypothesis draws the number of rows and a number that all values follow from, which costs a twentieth of drawing them one by one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import polars as pl
from hypothesis import strategies as st

ZONE = "Europe/Berlin"
INTEGERS = {f"{sign}int{bits}": getattr(pl, f"{sign.upper()}Int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
UNICODE = ["", "a", "A", "b ", " ab", "10", "9", "Zürich", "äöü", "Ωmega", "日本", "🧬x", "e\u0301", "a'b", 'q"r', "%_", "x-y-z", "null"]
UNICODE += ["a.7é.b", "007", "+5", "-0", "1e5", "a,b;c\td|", "x\ny", '"', "127", "-129"]
CODES = ["7", "10", "007", "0", "00", "-3", "123456789012345678"]
FLOATS = [0.0, -0.0, 0.1, -2.5, 1 / 3, 2.0**53 + 2, 1e-300, -1e15, 123456.789, 7.0, 127.0, -128.0, 255.0, 2.0**31]
DATES = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29), dt.date(2021, 1, 1), dt.date(2021, 6, 1), dt.date(9999, 12, 31)]
MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2021, 3, 28, 1, 30), dt.datetime(2021, 5, 31, 22, 30)]
MOMENTS += [dt.datetime(2021, 10, 31, 0, 30), dt.datetime(2021, 10, 31, 1, 30), dt.datetime(2020, 2, 29, 12, 0, 0, 1)]
DECIMALS = [Decimal(text) for text in ("0.00", "19.99", "-0.01", "0.19", "100.00", "123456789.10", "-7.25")]
HUGE = [1e300, -1e300, 1.0, -0.5, 3.4028234663852886e38, 3.5e38, -3.5e38]
WIDE = [Decimal(2**53 + 1), Decimal(-(2**53) - 1), Decimal(2**63 - 1), Decimal(2**63), Decimal(1), Decimal(2**31 - 1), Decimal(2**31)]
SKEWED = [1, 1, 1, 1, 1, 2, 2, 3, -4, 7]
LETTERS = "abzAZ019 -_%'é日🧬"
HEIGHTS = (1, 5, 12, 24, 40, 60)


@dataclass(frozen=True)
class Column:
    """A type, values of it that something may go wrong with, and any other value."""

    dtype: pl.DataType
    listed: Sequence[Any]
    other: Callable[[Random], Any]

    def values(self, random: Random, rows: int) -> list[Any]:
        """So many values: of the listed and others, of a few alone, all one, or all null; about one in eight is null, or none."""
        kind = random.choices(("listed", "both", "few", "one", "null"), (8, 5, 3, 2, 1))[0]
        if kind == "null":
            return [None] * rows
        pool = list(self.listed) if kind in {"listed", "both"} else random.sample(list(self.listed), 1 if kind == "one" else 2)
        missing = random.choice((0.0, 0.12, 0.12, 0.4))
        any_other = 0.4 if kind == "both" else 0.0
        return [self._value(random, pool, missing, any_other) for _ in range(rows)]

    def _value(self, random: Random, pool: list[Any], missing: float, any_other: float) -> Any:
        if random.random() < missing:
            return None
        return self.other(random) if random.random() < any_other else random.choice(pool)


def _moment(random: Random) -> dt.datetime:
    return dt.datetime(1980, 1, 1) + dt.timedelta(seconds=random.randrange(50 * 365 * 86400), microseconds=random.choice((0, 250_000, 7)))


def _integers(dtype: Any) -> Column:
    """Whole numbers: the ends of the type, twice as often as the ends of every narrower one, and what is just beyond those."""
    low, high = _ends(dtype)
    near = {end + beyond for other in INTEGERS.values() for end in _ends(other) for beyond in (-1, 0, 1)}
    narrower = sorted(value for value in near if low < value < high and abs(value) > 2)
    listed = [low, low + 1, 0, 1, 2, 77, high - 1, high] * (1 + len(narrower) // 8)
    return Column(dtype(), [*listed, *narrower], lambda random: random.randint(low, high))


def _ends(dtype: Any) -> tuple[int, int]:
    low, high = (pl.select(bound).item() for bound in (dtype.min(), dtype.max()))
    return low, high


COLUMNS: dict[str, Column] = {
    "key": Column(pl.Int64(), SKEWED, lambda random: random.randint(-9, 30)),
    "word": Column(pl.String(), UNICODE, lambda random: "".join(random.choices(LETTERS, k=random.randint(0, 4)))),
    "flag": Column(pl.Boolean(), [True, False], lambda random: random.random() < 0.5),
    "ratio": Column(pl.Float64(), FLOATS, lambda random: round(random.gauss(0, 1) * 10 ** random.randint(0, 5), 3)),
    "share": Column(pl.Float32(), [0.0, 0.5, -1.25, 3.0, 1e10], lambda random: random.randint(-(2**20), 2**20) / 8),
    "day": Column(pl.Date(), DATES, lambda random: dt.date.fromordinal(random.randint(693_000, 766_000))),
    "clock": Column(pl.Datetime("us"), MOMENTS, _moment),
    "moment": Column(pl.Datetime("us", ZONE), MOMENTS, _moment),
    "price": Column(pl.Decimal(12, 2), DECIMALS, lambda random: Decimal(random.randint(-(10**6), 10**6)).scaleb(-2)),
    "code": Column(pl.String(), CODES, lambda random: str(random.randint(0, 99))),
    "small": Column(pl.Int32(), [0, 1, -1, 2, 5, 10, -7, 100], lambda random: random.randint(-200, 200)),
}
COLUMNS |= {name: _integers(dtype) for name, dtype in INTEGERS.items()}
ANY = tuple(COLUMNS)
COLUMNS |= {
    "wide": Column(pl.Decimal(20, 0), WIDE, lambda random: Decimal(random.randint(-(10**19), 10**19))),
    "huge": Column(pl.Float64(), HUGE, lambda random: random.gauss(0, 1) * 10.0 ** random.randint(-50, 50)),
}


def frame(names: Sequence[str], rows: int, random: Random) -> pl.DataFrame:
    """Columns of that many random values, the rows numbered in `row`; wall times of the zone are those of UTC."""
    found = {"row": pl.Series(range(rows), dtype=pl.Int64)}
    for name in names:
        dtype, values = COLUMNS[name].dtype, COLUMNS[name].values(random, rows)
        if isinstance(dtype, pl.Datetime) and dtype.time_zone:
            found[name] = pl.Series(values, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
        else:
            found[name] = pl.Series(values, dtype=dtype)
    return pl.DataFrame(found)


@st.composite
def tables(draw: st.DrawFn, names: Sequence[str] = ANY, most: int = HEIGHTS[-1], least: int = 0) -> pl.DataFrame:
    """A table of these columns."""
    random = Random(draw(st.integers(0, 2**64)))
    return frame(names, random.choice([least, *(rows for rows in HEIGHTS if least < rows <= most)]), random)


def some(names: Sequence[str], least: int = 1, most: int = 3) -> st.SearchStrategy[list[str]]:
    """Different names out of these."""
    return st.lists(st.sampled_from(list(names)), min_size=least, max_size=most, unique=True)
