"""target_encode."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages._keys import FRACTION, STEP, with_fraction
from pipeline.stages.features.target_encode import OWN_START, TargetEncode
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, assert_same_for_any_parts, plan_stage, run_stage, table_schemas
from tests import example_tables as examples
from tests.stages.features.learned import FRAME, TRAIN

NAMES = ("city", "flag")
EXAMPLES = [
    StageExample(TargetEncode(columns=("key", "flag"), target="x", key=("id",), folds=2, smoothing=1), {"rows": examples.MIXED}),
    StageExample(TargetEncode(columns=("key",), target="n", key=("text",), fit_where="id < 5"), {"rows": examples.MIXED}),
]


def folds(frame: pl.DataFrame, number: int) -> pl.Series:
    """The fold of every row, by the hash that `split` is by."""
    session = Session()
    table = Table.of(session, "t", [Part(frame)], schema=table_schemas({"t": frame})["t"])
    part: Part
    (part,) = with_fraction(table, ["id"], STEP * (SEED + 1) + OWN_START).futures()
    return (part.frame[FRACTION] * number).floor().cast(pl.Int32)


def encoded(learned: pl.DataFrame, rows: pl.DataFrame, target: str, smoothing: float) -> np.ndarray[Any, Any]:
    """What scikit-learn makes of rows from others."""
    from sklearn.preprocessing import TargetEncoder

    kind = "continuous"  # whose formula is that of a binary target
    given = (frame.select(pl.col(NAMES).cast(pl.String).fill_null("none")).to_numpy().astype(object) for frame in (learned, rows))
    fitted, asked = given
    return np.asarray(TargetEncoder(target_type=kind, smooth=smoothing).fit(fitted, learned[target].to_numpy()).transform(asked))


@pytest.mark.parametrize(("target", "smoothing"), [("y", 5.0), ("id", 0.5)])
def test_target_encode__is_what_scikit_learn_says_of_the_other_folds(target: str, smoothing: float) -> None:
    stage = TargetEncode(columns=NAMES, target=target, key=("id",), folds=4, smoothing=smoothing, fit_where=TRAIN)
    found = assert_same_for_any_parts(stage, {"rows": FRAME}, ["id"])
    fold = folds(FRAME, 4)
    learns = FRAME["split"] == "train"
    for number in range(4):
        mine = learns & (fold == number)
        expected = encoded(FRAME.filter(learns & (fold != number)), FRAME.filter(mine), target, smoothing)
        np.testing.assert_allclose(found.filter(mine).select(NAMES).to_numpy(), expected, rtol=1e-10)
    expected = encoded(FRAME.filter(learns), FRAME.filter(~learns), target, smoothing)
    np.testing.assert_allclose(found.filter(~learns).select(NAMES).to_numpy(), expected, rtol=1e-10)


def test_target_encode__gives_the_mean_to_what_it_did_not_learn() -> None:
    frame = pl.DataFrame(
        {"id": range(6), "c": ["a", "a", "b", "b", "new", None], "y": [1, 0, 1, None, 1, 1], "split": ["train"] * 4 + ["t"] * 2}
    )
    found = run_stage(TargetEncode(columns=("c",), target="y", key=("id",), smoothing=0, fit_where=TRAIN), {"rows": frame}, 2)
    assert found[""]["c"].to_list()[3:] == pytest.approx([1, 2 / 3, 2 / 3])
    whole = found["fitted"].filter(pl.col("fold").is_null())
    assert whole.rows() == [("c", False, None, None, 3, 0.666666666667), ("c", True, "a", None, 2, 0.5), ("c", True, "b", None, 1, 1.0)]


def test_target_encode__repeats_what_all_folds_say() -> None:
    stage = TargetEncode(columns=NAMES, target="y", key=("id",), fit_where=TRAIN)
    found = run_stage(stage, {"rows": FRAME}, 2)
    again = stage.apply(FRAME.drop("split", "y").lazy(), found["fitted"]).collect()
    test = FRAME["split"] == "test"
    assert again.filter(test).select(NAMES).equals(found[""].filter(test).select(NAMES))
    assert not again.filter(~test).select(NAMES).equals(found[""].filter(~test).select(NAMES))


def test_target_encode__without_a_target_anywhere_is_missing() -> None:
    frame = pl.DataFrame({"id": [1, 2], "c": ["a", "b"], "y": pl.Series([None, None], dtype=pl.Int8)})
    assert run_stage(TargetEncode(columns=("c",), target="y", key=("id",)), {"rows": frame})[""]["c"].to_list() == [None, None]


def test_target_encode__refuses_what_does_not_fit() -> None:
    for given, message in (
        ({"columns": "x"}, "'x' is Float64, and categories are text"),
        ({"target": "city"}, "'city' is String, and numbers are needed"),
        ({"columns": "y"}, "'y' is the target"),
        ({"key": "x"}, "key 'x' is Float64"),
    ):
        stage = TargetEncode.model_validate({"columns": "city", "target": "y", "key": "id", **given})
        with pytest.raises(StageError, match=message):
            plan_stage(stage, {"rows": FRAME})
