"""matrix_product."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.science.matrix_product import MatrixProduct
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(23, 4)), RNG.normal(size=(4, 3))
LEFT = pl.DataFrame({"row": [f"r{at:02}" for at in range(23)], **{f"x{at}": A[:, at] for at in range(4)}})
RIGHT = pl.DataFrame({"feature": ["x2", "x0", "x3", "x1"], **{f"w{at}": B[[2, 0, 3, 1], at] for at in range(3)}})
STAGE = MatrixProduct(key="row", right_key="feature")
EXAMPLES = [
    StageExample(STAGE, {"left": LEFT, "right": RIGHT}),
    StageExample(MatrixProduct(key="row"), {"left": LEFT}),
    StageExample(MatrixProduct(columns=("x0", "x3"), against="x1"), {"left": LEFT}),
]


def test_a_product__is_numpys_whatever_the_order_of_the_rows_of_right() -> None:
    found = assert_same_for_any_parts(STAGE, {"left": LEFT, "right": RIGHT}, ["row"])
    assert found["row"].to_list() == LEFT["row"].to_list()
    np.testing.assert_allclose(found.select("w0", "w1", "w2").to_numpy(), A @ B, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_products_of_columns__are_numpys(parts: int) -> None:
    found = run_stage(MatrixProduct(key="row"), {"left": LEFT}, parts)[""]
    assert found["column"].to_list() == found.columns[1:] == ["x0", "x1", "x2", "x3"]
    np.testing.assert_allclose(found.drop("column").to_numpy(), A.T @ A, rtol=1e-13, atol=1e-14)
    cross = run_stage(MatrixProduct(columns=("x0", "x3"), against="x1"), {"left": LEFT}, parts)[""]
    assert cross["column"].to_list() == ["x0", "x3"]
    np.testing.assert_allclose(cross["x1"].to_numpy(), A[:, [0, 3]].T @ A[:, 1], rtol=1e-13)


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
def test_very_large_and_small_numbers__are_multiplied_or_refused(size: float) -> None:
    left = LEFT.with_columns(pl.col("^x.$") * size)
    found = run_stage(STAGE, {"left": left, "right": RIGHT}, 2)[""]
    np.testing.assert_allclose(found.drop("row").to_numpy() / size, A @ B, rtol=1e-12, atol=1e-13)
    if size > 1e200:
        with pytest.raises(DataError, match=r"the result is beyond float64 \(about 1.8e308\) in column 'x0'.*Scale"):
            run_stage(MatrixProduct(key="row"), {"left": left}, 2)
    else:
        squares = run_stage(MatrixProduct(key="row"), {"left": left}, 2)[""].drop("column").to_numpy()
        np.testing.assert_allclose(squares, (A * size).T @ (A * size), rtol=1e-10, atol=1e-313)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "a value is missing"), (float("nan"), "a value is nan"), (float("inf"), "a value is inf")]
)
def test_a_value_that_is_no_number__is_refused_with_its_place(value: float | None, text: str) -> None:
    left = LEFT.with_columns(pl.when(pl.col("row") == "r07").then(pl.lit(value, pl.Float64)).otherwise("x2").alias("x2"))
    for tables in ({"left": left}, {"left": left, "right": RIGHT}):
        stage = STAGE if "right" in tables else MatrixProduct(key="row")
        with pytest.raises(DataError, match=f"{text}: column 'x2', row 'r07'.*fill_missing or filter"):
            run_stage(stage, tables, 3)


def test_whole_numbers__are_taken_as_far_as_float64_holds_them() -> None:
    left = pl.DataFrame({"a": [2**53, -(2**53)], "b": [1, None]}, {"a": pl.Int64, "b": pl.Int8})
    assert run_stage(MatrixProduct(columns="a"), {"left": left})[""]["a"].to_list() == [2.0**107]
    with pytest.raises(DataError, match=r"column 'a' has -9007199254740994, and float64 holds whole numbers to 2\^53 alone"):
        run_stage(MatrixProduct(columns="a"), {"left": left.with_columns(pl.col("a") - 2)})
    with pytest.raises(DataError, match="a value is missing: column 'b', row 2 of its part"):
        run_stage(MatrixProduct(), {"left": left})


def test_rows_of_right__are_each_a_column_of_left() -> None:
    for right, text in (
        (RIGHT.filter(pl.col("feature") != "x3"), "right has no row 'x3' in 'feature', which is a column of left.*1 of 4 lack"),
        (pl.concat([RIGHT, RIGHT.head(1)]), "right has a row 'x2' 2 times in 'feature'"),
        (pl.concat([RIGHT, RIGHT.head(1).with_columns(feature=pl.lit("x9"))]), "right's row 'x9' in 'feature' is no column of left"),
    ):
        with pytest.raises(DataError, match=text):
            run_stage(STAGE, {"left": LEFT, "right": right})


def test_parameters_that_do_not_fit__are_refused_before_anything_runs() -> None:
    both = {"left": LEFT, "right": RIGHT}
    for stage, tables, text in (
        (MatrixProduct(key="rows"), {"left": LEFT}, "no column 'rows'. Did you mean 'row'"),
        (MatrixProduct(columns="row"), {"left": LEFT}, "'row' is String, and numbers are needed"),
        (MatrixProduct(columns=("x0", "x1"), key="x0"), {"left": LEFT}, "'x0' names the rows"),
        (MatrixProduct(right_key="feature"), {"left": LEFT}, "no table given as 'right'"),
        (MatrixProduct(), both, "which column of right names its rows"),
        (MatrixProduct(right_key="w0"), both, "'w0' of right is Float64, and names are text"),
        (MatrixProduct(right_key="feature", against="x0"), both, "Leave one out"),
        (MatrixProduct(key="row", right_key="feature"), {"left": LEFT, "right": RIGHT.rename({"w0": "row"})}, "a column 'row' of its own"),
        (MatrixProduct(), {"left": LEFT.select("row")}, "no column of numbers"),
    ):
        with pytest.raises(StageError, match=text):
            plan_stage(stage, tables)
