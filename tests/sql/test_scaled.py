"""Decimals that an expression multiplies as whole numbers on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sql.expression import check_filter, value_of
from pipeline.sql.scaled import for_a_cpu, of_units

EXACT = Context(prec=100)
SCHEMA = pl.Schema({"p": pl.Decimal(15, 2), "d": pl.Decimal(12, 5), "n": pl.Int32(), "k": pl.Int8()})


def _made(text: str, rows: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """An expression's values, as any engine works them out and as Polars on a CPU does."""
    anywhere = value_of(text, rows.schema)
    with for_a_cpu(yes=True):
        here = value_of(text, rows.schema)
    assert here.dtype == anywhere.dtype
    both = rows.lazy().select(anywhere=anywhere.expr, here=here.expr).collect(engine="streaming")
    return both["anywhere"], both["here"]


def _numbers(digits: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    return st.none() | st.integers(1 - 10**digits, 10**digits - 1).map(lambda units: EXACT.scaleb(Decimal(units), -scale))


class Row(NamedTuple):
    """Values of one row."""

    p: Any = None
    d: Any = None
    n: Any = None
    k: Any = None


ROWS = st.lists(st.builds(Row, _numbers(15, 2), _numbers(12, 5), _numbers(6, 0), st.none() | st.integers(-100, 100)), max_size=20)


def _frame(rows: Sequence[Row]) -> pl.DataFrame:
    columns = {name: [getattr(row, name) for row in rows] for name in SCHEMA}
    return pl.DataFrame(columns | {"n": [None if row.n is None else int(row.n) for row in rows]}, schema=SCHEMA)


@given(ROWS)
@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("p * d", lambda row: EXACT.multiply(row.p, row.d)),
        ("p * (1 - d)", lambda row: EXACT.multiply(row.p, EXACT.subtract(Decimal(1), row.d))),
        ("(n - p) * d", lambda row: EXACT.multiply(EXACT.subtract(row.n, row.p), row.d)),
        ("p * d - p * k", lambda row: EXACT.subtract(EXACT.multiply(row.p, row.d), EXACT.multiply(row.p, Decimal(row.k)))),
        ("-p * d + 7", lambda row: EXACT.add(EXACT.multiply(-row.p, row.d), Decimal(7))),
        ("d * k * k * k", lambda row: EXACT.multiply(row.d, Decimal(row.k**3))),
    ],
)
def test_products__are_pythons_own(text: str, exact: Callable[[Row], Decimal], rows: list[Row]) -> None:
    def made(row: Row) -> Decimal | None:
        try:
            return exact(row)
        except TypeError:  # of a value that is missing
            return None

    anywhere, here = _made(text, _frame(rows))
    assert here.to_list() == [made(row) for row in rows]
    assert here.equals(anywhere)


def test_a_product_of_38_digits__is_exact() -> None:
    least, most = Decimal("-" + "9" * 19), Decimal("9" * 19)
    rows = pl.DataFrame({"a": [least, most, most], "b": [most, most, least]}, schema={"a": pl.Decimal(19, 0), "b": pl.Decimal(19, 0)})
    anywhere, here = _made("a * b", rows)
    assert here.to_list() == [EXACT.multiply(a, b) for a, b in rows.rows()]
    assert here.equals(anywhere)


@pytest.mark.parametrize(
    "text",
    [
        "case when p * d > 1 then p * d else 0 end",
        "coalesce(p * d, p)",
        "p * d > p",
        "round(p * d, 2)",
        "abs(p * d)",
        "p * d * p",
        "p * d / n",
    ],
)
def test_what_is_made_of_products__is_the_same_on_any_engine(text: str) -> None:
    rows = _frame([Row(Decimal("12.34"), Decimal("0.05"), 3, 1), Row(Decimal("-7.5"), Decimal(2), -4, 2), Row()])
    anywhere, here = _made(text, rows)
    assert anywhere.null_count() < 3
    assert here.equals(anywhere)


def test_products_of_pieces_and_of_no_rows__keep_their_rows() -> None:
    rows = _frame([Row(Decimal(number), Decimal(number), number, 1) for number in range(10)])
    pieces = pl.concat([rows[3:5], rows[9:], rows[:2]], rechunk=False)
    assert _made("p * d", pieces)[1].to_list() == [9, 16, 81, 0, 1]
    assert _made("p * d", pieces[1:4])[1].to_list() == [16, 81, 0]
    assert _made("p * d", rows[:0])[1].to_list() == []


def test_a_filter_by_a_product__keeps_the_same_rows() -> None:
    rows = _frame([Row(Decimal(number), Decimal(2), 0, 1) for number in range(10)])
    with for_a_cpu(yes=True):
        condition = check_filter("p * d >= 12 and k = 1", rows.schema)
    assert rows.lazy().filter(condition).select("p").collect(engine="streaming")["p"].to_list() == [6, 7, 8, 9]


def test_products__are_of_whole_numbers_on_a_cpu_alone() -> None:
    with for_a_cpu(yes=True):
        assert "to_physical" in str(value_of("p * d", SCHEMA).expr)
        assert "to_physical" not in str(value_of("p - d", SCHEMA).expr)
    assert "to_physical" not in str(value_of("p * d", SCHEMA).expr)


def test_units_of_more_digits__are_refused() -> None:
    with pytest.raises(pl.exceptions.InvalidOperationError):
        of_units(2, pl.Series([10**38], dtype=pl.Int128))
