"""standardize."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.features.standardize import Standardize
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

EXAMPLES = [
    StageExample(Standardize(columns=["x", "n"]), {"rows": examples.MIXED}),
]

RANDOM = random.Random(11)
FRAME = pl.DataFrame(
    {
        "id": range(150),
        "x": [RANDOM.choice([None, RANDOM.gauss(3, 2)]) for _ in range(150)],
        "far": [1e9 + RANDOM.gauss(0, 1) for _ in range(150)],
        "i": [RANDOM.choice([None, 1, 2, 30]) for _ in range(150)],
        "split": [RANDOM.choice(["train", "test"]) for _ in range(150)],
    }
)
COLUMNS = ("x", "far", "i")


@pytest.mark.parametrize("where", [None, "split = 'train'"])
def test_standardize__equals_scikit_learn(where: str | None) -> None:
    from sklearn.preprocessing import StandardScaler

    found = run_stage(Standardize(columns=COLUMNS, fit_where=where), {"rows": FRAME}, 5)[""]
    learned = FRAME if where is None else FRAME.filter(pl.col("split") == "train")
    scaler = StandardScaler().fit(learned.select(COLUMNS).cast(pl.Float64).fill_null(float("nan")).to_numpy())
    expected = scaler.transform(FRAME.select(COLUMNS).cast(pl.Float64).fill_null(float("nan")).to_numpy())
    ours = found.select(COLUMNS).fill_null(float("nan")).to_numpy()
    np.testing.assert_allclose(ours[:, [0, 2]], expected[:, [0, 2]], rtol=1e-12)
    np.testing.assert_allclose(ours[:, 1], expected[:, 1], atol=1e-6)  # doubles near 1e9 are 1e-7 apart


def test_standardize__is_the_same_for_any_parts() -> None:
    assert_same_for_any_parts(Standardize(columns=("x", "i")), {"rows": FRAME}, ["id"])


def test_standardize__does_not_cancel_far_from_zero() -> None:
    """The sd of 1e9 + noise, against exact rational arithmetic; sums of squares in doubles would lose it."""
    from fractions import Fraction

    values = [Fraction(value) for value in FRAME["far"]]
    mean = sum(values) / len(values)
    exact = float(sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    for parts in (1, 7):
        assert run_stage(Standardize(columns=("far",)), {"rows": FRAME}, parts)["fitted"]["sd"].item() == pytest.approx(exact, rel=1e-9)


def test_standardize__a_constant_becomes_zero_and_no_values_stay_missing() -> None:
    frame = pl.DataFrame({"c": [0.1, None, 0.1], "n": pl.Series([None] * 3, dtype=pl.Float64)})
    found = run_stage(Standardize(columns=("c", "n")), {"rows": frame}, 2)[""]
    assert found.to_dict(as_series=False) == {"c": [0.0, None, 0.0], "n": [None, None, None]}


def test_standardize__over_workers_is_the_same(workers: ClusterSession) -> None:
    stage = Standardize(columns=COLUMNS)
    assert run_stage(stage, {"rows": FRAME}, 3, workers)[""].equals(run_stage(stage, {"rows": FRAME}, 3)[""])


def test_standardize__refuses_text() -> None:
    with pytest.raises(StageError, match="'s' is String, and numbers are needed"):
        plan_stage(Standardize(columns=("s",)), {"rows": pl.DataFrame({"s": ["a"]})})
