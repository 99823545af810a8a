"""drop_low_variance."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.features.drop_low_variance import DropLowVariance
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests.stages.features.learned import FRAME, TRAIN, numbers, train

ROWS = FRAME.with_columns(
    c=pl.lit(0.1),
    none=pl.lit(None, dtype=pl.Float64),
    late=pl.when(pl.col("split") == "train").then(5).otherwise("id"),
    w=pl.col("y") / 100,
)
NAMES = ("x", "c", "none", "late", "w", "y")
EXAMPLES = [
    StageExample(DropLowVariance(columns=NAMES, dropped=("c", "none", "late"), fit_where=TRAIN), {"rows": ROWS}, ordered=True),
]


def test_drop_low_variance__has_scikit_learn_s_variances_and_drops_what_it_does() -> None:
    from sklearn.feature_selection import VarianceThreshold

    stage = DropLowVariance(columns=NAMES, dropped=("c", "none", "late", "w"), threshold=0.001, fit_where=TRAIN)
    found = assert_same_for_any_parts(stage, {"rows": ROWS}, ["id"])
    assert found.columns == [name for name in ROWS.columns if name not in stage.dropped]
    there = ("x", "c", "late", "w", "y")
    selector = VarianceThreshold(0.001).fit(numbers(ROWS.filter(pl.col("split") == "train"), *there))
    assert [name for name, kept in zip(there, selector.get_support(), strict=True) if not kept] == ["c", "late", "w"]
    fitted = run_stage(stage, {"rows": ROWS}, 3)["fitted"]
    variances = dict(fitted.select("column", "variance").iter_rows())
    assert [variances[name] for name in there] == pytest.approx(selector.variances_.tolist(), rel=1e-9, abs=1e-30)
    assert fitted.row(2) == ("none", train().height, 0, None)


def test_drop_low_variance__names_what_to_write() -> None:
    with pytest.raises(DataError, match=r"dropped: 'c', 'none' vary by no more than 0\. Write dropped: \[c, none\]"):
        run_stage(DropLowVariance(columns=NAMES), {"rows": ROWS}, 2)
    kept = run_stage(DropLowVariance(columns=NAMES, dropped=("c",), strict=False), {"rows": ROWS}, 2)[""]
    assert kept.columns == [name for name in ROWS.columns if name != "c"]


def test_drop_low_variance__knows_what_varies_where_its_squares_do_not_say_it() -> None:
    frame = pl.DataFrame({"huge": [1e300, -1e300], "tiny": [0.0, 1e-300]})
    found = run_stage(DropLowVariance(columns=("huge", "tiny"), threshold=0), {"rows": frame}, 2)
    assert found["fitted"]["variance"].to_list() == [None, 5e-324]
    with pytest.raises(DataError, match=r"Write dropped: \[tiny\]"):
        run_stage(DropLowVariance(columns=("huge", "tiny"), threshold=1), {"rows": frame})


def test_drop_low_variance__drops_nothing_that_varies() -> None:
    with pytest.raises(DataError, match=r"column 'y' has a variance of 0.2.*, above 0, and would be dropped"):
        run_stage(DropLowVariance(columns=NAMES, dropped=("y",), strict=False), {"rows": ROWS})


def test_drop_low_variance__refuses_what_is_not_looked_at() -> None:
    with pytest.raises(StageError, match="'id' is not one of columns"):
        plan_stage(DropLowVariance(columns=("x",), dropped=("id",)), {"rows": ROWS})
    with pytest.raises(StageError, match="'city' is String"):
        plan_stage(DropLowVariance(columns=("city",)), {"rows": ROWS})
