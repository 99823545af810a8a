"""Arithmetic and comparisons of numbers: cell by cell what DuckDB says in 128 bits, or an error."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import duckdb
import polars as pl
import pytest

from pipeline.errors import DataError, ExpressionError
from pipeline.sql.expression import check_value
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.testing.stages import run_stage
from tests.sql.expression_page import derived

SIGNED = [pl.Int8, pl.Int16, pl.Int32, pl.Int64]
UNSIGNED = [pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
PAIRS = [*((one, one) for one in (*SIGNED, *UNSIGNED)), (pl.Int8, pl.UInt32), (pl.Int64, pl.UInt16), (pl.UInt64, pl.UInt8)]
LARGE = 12345678901234567891


def extremes(dtype: Any) -> list[int | None]:
    low, high = (pl.select(value).item() for value in (dtype.min(), dtype.max()))
    values = {low, low + 1, low // 3, 0, 1, 3, high // 2, high // 3, high - 1, high}
    return [*sorted(values | ({-1} if low < 0 else set())), None]


def every_pair(one: Any, two: Any) -> pl.DataFrame:
    rows = list(product(extremes(one), extremes(two)))
    return pl.DataFrame(rows, schema={"x": one, "y": two}, orient="row")


def duckdb_says(frame: pl.DataFrame, expression: str) -> list[Any]:
    relation = duckdb.connect().from_arrow(frame.to_arrow())
    return [value for (value,) in relation.project(expression).fetchall()]


def whole(op: str, one: Any, two: Any) -> str:
    """The operator in DuckDB's widest integers; products beyond these are null."""
    wide = "uhugeint" if op == "*" and pl.UInt64 in {one, two} else "hugeint"
    if op in {"//", "%"}:  # DuckDB cuts towards 0
        floored = "x::hugeint // nullif(y, 0) - case when x::hugeint % nullif(y, 0) <> 0 and (x < 0) <> (y < 0) then 1 else 0 end"
        return floored if op == "//" else f"x::hugeint - y::hugeint * ({floored})"
    return f"x::{wide} {op} y::{wide}"


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%"])
@pytest.mark.parametrize(("one", "two"), PAIRS, ids=str)
def test_integers__are_those_of_duckdb_or_fail(one: Any, two: Any, op: str) -> None:
    frame = every_pair(one, two)
    expected = duckdb_says(frame, whole(op, one, two))
    low, high = (0, 2**64 - 1) if pl.UInt64 in {one, two} else (-(2**63), 2**63 - 1)
    fits = [value is None or low <= value <= high for value in expected]
    found = derived(f"x {op} y", frame.filter(pl.Series(fits)))
    assert found.dtype == (pl.UInt64 if pl.UInt64 in {one, two} else pl.Int64)
    assert found.to_list() == [value for value, fit in zip(expected, fits, strict=True) if fit]
    for row in frame.filter(~pl.Series(fits)).iter_slices(1):
        with pytest.raises(pl.exceptions.InvalidOperationError, match=r"check failed: .*the result of"):
            derived(f"x {op} y", row)


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(("one", "two"), PAIRS, ids=str)
def test_comparisons_of_integers__are_those_of_duckdb(one: Any, two: Any, op: str) -> None:
    frame = every_pair(one, two)
    assert derived(f"x {op} y", frame).to_list() == duckdb_says(frame, f"x::hugeint {op} y::hugeint")


LISTED = """x % 10; x // 3; x - x; x = 12345678901234567891; x > 9223372036854775807; x in (12345678901234567891, 5); x + 0 = x;
x in (-1, 5); x in (9007199254740993); x between 1 and 12345678901234567891; coalesce(x, 0);
greatest(x, 7); abs(x); case when x > 5 then x else 0 end;
x not in (5, 12345678901234567891); nullif(x, 12345678901234567891)"""


@pytest.mark.parametrize("expression", LISTED.replace("\n", " ").split("; "))
def test_uint64__goes_through_no_float(expression: str) -> None:
    frame = pl.DataFrame({"x": pl.Series([0, 5, 2**53, 2**53 + 1, 2**63, LARGE, 2**64 - 1, None], dtype=pl.UInt64)})
    assert derived(expression, frame).to_list() == duckdb_says(frame, expression)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *(
            (f"u {op} i", r"would mix the column 'u' \(UInt64\) and the column 'i' \(Int64\).*cast one of them")
            for op in ("+", "%", "<", "=")
        ),
        ("u + small", r"the column 'small' \(Int8\)"),
        ("u - -5", r"would mix the column 'u' \(UInt64\) and -5"),
        ("coalesce(u, i)", "the values of coalesce, ifnull, greatest or least would mix"),
        ("case when i > 0 then u else i end", "the values of case, if or nullif would mix"),
        ("u = 18446744073709551616", "the number 18446744073709551616 is beyond every integer"),
        ("p % 2", "`%` is not there for decimals"),
        ("2 // p", "`//` is not there for decimals"),
    ],
)
def test_numbers_that_no_type_holds__are_refused(text: str, reason: str) -> None:
    schema = pl.Schema({"u": pl.UInt64(), "i": pl.Int64(), "small": pl.Int8(), "p": pl.Decimal(9, 2)})
    with pytest.raises(ExpressionError, match=reason):
        check_value(text, schema)


@pytest.mark.parametrize("column", ["u", "(u + 0)", "i", "small"])
def test_a_number_that_no_value_of_a_type_reaches__is_compared_rightly(column: str) -> None:
    values = {"u": [0, 2**64 - 2, None], "i": [-(2**63), 2**63 - 1, None], "small": [-128, 127, None]}
    types = {"u": pl.UInt64(), "i": pl.Int64(), "small": pl.Int8()}
    frame = pl.DataFrame({name: pl.Series(of, dtype=types[name]) for name, of in values.items()})
    number, wide = "-7" if "u" in column else str(2**63), f"cast({column} as hugeint)"
    signs = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "<=>"]
    ours = {f"{column} {sign} {number}": f"{wide} {sign.replace('<=>', 'is not distinct from')} {number}" for sign in signs}
    ours |= {f"{number} {sign} {column}": f"{number} {sign.replace('<=>', 'is not distinct from')} {wide}" for sign in signs}
    theirs = duckdb_says(frame, f"[{', '.join(ours.values())}]")
    assert [[derived(text, frame)[row] for text in ours] for row in range(3)] == theirs


def test_numbers__at_the_ends_of_int64_can_be_written() -> None:
    frame = pl.DataFrame({"i": [-(2**63), 2**63 - 1]})
    assert derived("i = -9223372036854775808", frame).to_list() == [True, False]
    assert derived("-9223372036854775808", frame).dtype == pl.Int64
    assert derived("18446744073709551615", frame).dtype == pl.UInt64


def test_long_chains__are_checked_once() -> None:
    """A sum of forty columns of Int64, and a product that outgrows Float64's exact numbers by far."""
    frame = pl.DataFrame({"x": [2**57, 1], "y": [7, 11]})
    assert derived(" + ".join(["x"] * 40), frame).to_list() == [40 * 2**57, 40]
    assert derived("y * y * y * y * y * y", frame).to_list() == [7**6, 11**6]
    for text in (" + ".join(["4 * x"] * 20), "x * x * x * x", "x * 60 * 60 * 24 * 1000", "x * x * x - x * x * x"):
        with pytest.raises(pl.exceptions.InvalidOperationError, match="check failed"):
            derived(text, frame)


def test_abs__of_the_least_integer() -> None:
    assert derived("abs(x)", pl.DataFrame({"x": pl.Series([-128, 127], dtype=pl.Int8)})).to_list() == [128, 127]
    with pytest.raises(pl.exceptions.InvalidOperationError, match=r"check failed: .*the result of `abs`"):
        derived("abs(x)", pl.DataFrame({"x": [-(2**63)]}))


PRICES = pl.DataFrame(
    {
        "price": pl.Series(["19.99", "-0.07", "9999999999999.99", None]).cast(pl.Decimal(15, 2)),
        "tax": pl.Series(["0.19", "3.10", "0.08", "1.00"]).cast(pl.Decimal(15, 2)),
        "fine": pl.Series(["0.12345", "-9.99999", "1.00001", "2.00000"]).cast(pl.Decimal(12, 5)),
        "n": [3, -7, 2**40, 5],
    }
)

DUCKDB_SCALES = {"price": 2, "tax": 2, "fine": 5, "n": 0}


@pytest.mark.parametrize(
    ("expression", "scale"),
    [
        *(("price * tax", 4), ("price + tax", 2), ("price - fine", 5), ("price * fine", 7), ("price * 3", 2), ("3 - price", 2)),
        *(("price * (1 - tax)", 4), ("price * n", 2), ("n + price", 2), ("-price", 2), ("n * fine - tax", 5)),
    ],
)
def test_decimals__are_exact(expression: str, scale: int) -> None:
    found = derived(expression, PRICES)
    assert found.dtype == pl.Decimal(38, scale)
    exact = re.sub(r"\b(price|tax|fine|n)\b", lambda name: f"{name[0]}::decimal(19, {DUCKDB_SCALES[name[0]]})", expression)
    assert found.to_list() == duckdb_says(PRICES, exact)


def test_decimals__are_compared_as_they_are() -> None:
    listed = "price > tax; price = 19.99; n < price; price <= fine; tax between 0.05 and 0.19; tax in (0.19, 1); price = 3; abs(price); "
    listed += "coalesce(price, 0); coalesce(price, n); case when n > 0 then price else fine end; greatest(price, fine)"
    for expression in listed.split("; "):
        assert derived(expression, PRICES).to_list() == duckdb_says(PRICES, expression), expression


def test_decimals__become_floats_where_they_are_divided_or_do_not_fit() -> None:
    for expression in ("price / 3", "price / tax", "3 / tax", "price * 1.5", "price * tax * fine * price", "price / n"):
        found = derived(expression, PRICES.drop_nulls())
        assert found.dtype == pl.Float64
        expected = duckdb_says(PRICES.drop_nulls(), expression.replace("price", "price::double").replace("fine", "fine::double"))
        assert found.to_list() == pytest.approx(expected, rel=1e-15), expression


def test_stages__name_the_overflow() -> None:
    frame = pl.DataFrame({"key": [1, 1], "q": pl.Series([90_000, 90_000], dtype=pl.Int32), "p": pl.Series([100_000] * 2, dtype=pl.Int32)})
    total = Aggregate.model_validate({"by": ["key"], "compute": {"total": "sum(q * p)"}})
    assert run_stage(total, {"rows": frame})[""]["total"].to_list() == [18_000_000_000]
    wide = pl.DataFrame({"key": [1], "q": [2**62], "p": [2]})
    for stage in (total, Derive(columns={"z": "q * p"}), Filter(where="q * p > 0")):
        with pytest.raises(
            DataError, match=r"the result of `\*` is beyond Int64, first in row 1 of its part, where q is 4611686018427387904, p is 2\. "
        ) as caught:
            run_stage(stage, {"rows": wide})
        assert "\n" not in str(caught.value)


def test_a_sum_of_products_of_decimals__is_exact() -> None:
    frame = PRICES.with_columns(key=pl.lit(1))
    revenue = Aggregate.model_validate({"by": ["key"], "compute": {"revenue": "sum(price * (1 - tax))"}})
    found = run_stage(revenue, {"rows": frame}, 2)[""]["revenue"]
    assert found.dtype == pl.Decimal(38, 4)
    rows = [(price, tax) for price, tax in zip(frame["price"], frame["tax"], strict=True) if price is not None]
    assert found.item() == sum(price * (1 - tax) for price, tax in rows)
