"""svd."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.science.svd import Svd
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

RNG = np.random.default_rng(12)


def matrix(rows: int, singular: np.ndarray, columns: int | None = None) -> np.ndarray:
    """A matrix of these singular values."""
    left = np.linalg.qr(RNG.normal(size=(rows, len(singular))))[0]
    right = np.linalg.qr(RNG.normal(size=(columns or len(singular), len(singular))))[0]
    found: np.ndarray = (left * singular) @ right.T
    return found


def table(values: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"row": np.arange(len(values)), **{f"x{at:03}": values[:, at] for at in range(values.shape[1])}})


def pieces(stage: Svd, values: np.ndarray, parts: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """U, s, V and residuals."""
    found = run_stage(stage, {"rows": table(values)}, parts)
    told = found["values"]
    assert found["right"]["column"].to_list() == [f"x{at:03}" for at in range(values.shape[1])]
    left, right = (found[name].drop(named).to_numpy() for name, named in (("", "row"), ("right", "column")))
    return left, told["singular_value"].to_numpy(), right, told["residual"].to_numpy()


FALLING = matrix(41, 2.0 ** -np.arange(7))
EXAMPLES = [
    StageExample(Svd(key="row", components=3), {"rows": table(FALLING)}, tolerances={"residual": 1e-9}),
    StageExample(Svd(key="row", components=2, method="randomized", passes=3), {"rows": table(FALLING)}),
]


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("shape", [(60, 9), (9, 60), (20, 20), (200, 1)])
def test_exact__has_numpys_values_and_vectors(shape: tuple[int, int], parts: int) -> None:
    values, most = RNG.normal(size=shape), min(shape)
    left, singular, right, residual = pieces(Svd(key="row", components=most), values, parts)
    theirs = np.linalg.svd(values, full_matrices=False)
    np.testing.assert_allclose(singular, theirs.S, rtol=1e-12)
    np.testing.assert_allclose((left * singular) @ right.T, values, atol=1e-12)
    np.testing.assert_allclose(left.T @ left, np.eye(most), atol=1e-13)
    assert (np.take_along_axis(right, abs(right).argmax(axis=0)[None], axis=0) > 0).all()
    assert residual.max() < 1e-13


def test_randomized__finds_the_leading_values_of_many_columns() -> None:
    values = matrix(300, 0.8 ** np.arange(120.0), 150)
    left, singular, right, residual = pieces(Svd(key="row", components=12, method="randomized"), values)
    np.testing.assert_allclose(singular, 0.8 ** np.arange(12.0), rtol=1e-9)
    np.testing.assert_allclose(left.T @ left, np.eye(12), atol=1e-13)
    np.testing.assert_allclose(right.T @ right, np.eye(12), atol=1e-13)
    assert residual.max() < 1e-6
    assert residual.max() < 1e-2 * pieces(Svd(key="row", components=12, method="randomized", passes=1), values)[3].max()


def test_parts_and_the_order_of_rows__do_not_show() -> None:
    for method in ("exact", "randomized"):
        assert_same_for_any_parts(Svd(key="row", components=4, method=method, passes=8), {"rows": table(FALLING)}, ["row"])


def test_small_values__keep_the_digits_that_products_of_columns_would_lose() -> None:
    known = 10.0 ** -np.arange(0, 13, 2)
    left, singular, _, _ = pieces(Svd(key="row", components=7), matrix(500, known))
    np.testing.assert_allclose(singular, known, rtol=0, atol=1e-15)
    np.testing.assert_allclose(left.T @ left, np.eye(7), atol=1e-13)


@pytest.mark.parametrize("method", ["exact", "randomized"])
def test_components_beyond_the_rank__are_0(method: str) -> None:
    values = matrix(50, np.array([3.0, 1.0]), 6)
    left, singular, right, residual = pieces(Svd(key="row", components=4, method=method), values)
    np.testing.assert_allclose(singular, [3, 1, 0, 0], rtol=1e-12)
    assert (singular[2:] == 0).all()
    assert (left[:, 2:] == 0).all()
    assert (right[:, 2:] == 0).all()
    np.testing.assert_allclose((left * singular) @ right.T, values, atol=1e-13)
    assert residual.max() < 1e-13
    _, none, _, _ = pieces(Svd(key="row", components=2, method=method), np.zeros((5, 3)))
    assert none.tolist() == [0, 0]


@pytest.mark.parametrize("method", ["exact", "randomized"])
@pytest.mark.parametrize("power", [-990, 990])
def test_very_large_and_small_numbers__are_scaled(method: str, power: int) -> None:
    values = matrix(40, np.array([1.0, 0.5, 0.1]), 5)
    left, singular, _, _ = pieces(Svd(key="row", components=3, method=method), np.ldexp(values, power))
    np.testing.assert_allclose(np.ldexp(singular, -power), [1, 0.5, 0.1], rtol=1e-12)
    np.testing.assert_allclose(left.T @ left, np.eye(3), atol=1e-13)


def test_what_does_not_fit__is_refused() -> None:
    with pytest.raises(StageError, match="8 components of 7 columns"):
        plan_stage(Svd(key="row", components=8), {"rows": table(FALLING)})
    with pytest.raises(StageError, match="a column 'component_1' of its own"):
        plan_stage(Svd(key="component_1", components=2), {"rows": table(FALLING).rename({"row": "component_1"})})
    with pytest.raises(DataError, match="a value is missing: column 'x001', row 3"):
        run_stage(Svd(key="row", components=2), {"rows": table(FALLING).with_columns(x001=pl.when(pl.col("row") != 3).then("x001"))}, 2)
