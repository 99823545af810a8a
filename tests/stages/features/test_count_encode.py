"""count_encode."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.features.count_encode import CountEncode
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage
from tests import example_tables as examples
from tests.stages.features.learned import FRAME, TRAIN, train

EXAMPLES = [
    StageExample(CountEncode(columns=("key", "flag", "n")), {"rows": examples.MIXED}, ordered=True),
    StageExample(CountEncode(columns=("key",), share=True, fit_where="id < 5"), {"rows": examples.MIXED}),
]


@pytest.mark.parametrize("share", [False, True])
def test_count_encode__counts_what_pandas_does(share: bool) -> None:
    stage = CountEncode(columns=("city", "i", "flag"), share=share, fit_where=TRAIN)
    found = assert_same_for_any_parts(stage, {"rows": FRAME}, ["id"])
    for name in ("city", "i", "flag"):
        counts = dict(train()[name].drop_nulls().to_pandas().value_counts(normalize=share))
        expected = [None if value is None else counts.get(value, 0) for value in FRAME[name]]
        assert found[name].cast(pl.Float64).to_list() == pytest.approx(expected)
        assert found.schema[name] == (pl.Float64 if share else pl.Int64)


def test_count_encode__refuses_floats() -> None:
    with pytest.raises(StageError, match="'x' is Float64, and categories are text"):
        plan_stage(CountEncode(columns=("x",)), {"rows": FRAME})
