"""What stages learned is kept with a model as data: read again, it gives new rows what the stage itself gave them."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.registry import stage_class
from pipeline.stage import Context
from pipeline.stages.models._learning import described
from pipeline.stages.models._published import _step
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import cut
from tests.stages.features.learned import FRAME, TRAIN

STAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "standardize": ("standardize", {"columns": ["x", "i"]}),
    "robust": ("rescale", {"columns": ["x", "i"], "method": "robust"}),
    "min_max": ("rescale", {"columns": ["x", "i"], "method": "min_max"}),
    "clip": ("clip", {"columns": ["x"], "quantiles": [0.1, 0.9]}),
    "buckets": ("bucketize", {"columns": ["x"], "buckets": 4}),
    "ranks": ("rank_to_normal", {"columns": ["x", "i"], "quantiles": 20}),
    "counts": ("count_encode", {"columns": ["city", "flag"]}),
    "targets": ("target_encode", {"columns": ["city", "i"], "target": "y", "key": "id"}),
    "one_hot": ("one_hot", {"columns": ["city", "i"], "most": 2}),
    "bucket": ("categorify", {"columns": ["city", "i"], "min_count": 10, "rare": "bucket"}),
    "groups": ("fill_missing", {"columns": ["x"], "method": "median", "by": ["city", "flag"]}),
    "dropped": ("drop_low_variance", {"columns": ["x", "i"]}),
    "words": ("text_features", {"column": "city", "buckets": 3}),
}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_that_learned__is_repeated_from_a_file_on_rows_without_a_split_or_target(name: str) -> None:
    use, given = STAGES[name]
    stage = stage_class(use).model_validate({**given, "fit_where": TRAIN})
    frame = FRAME.with_columns(city=pl.col("city") + " bb")
    rows = Table.of(Session(), "rows", cut(frame, [50, 70]), schema=Schema(frame.schema))
    (table,) = (table for what, table in stage.run({"rows": rows}, Context(name, 1, Session())).tables.items() if not what)
    (told,) = json.loads(json.dumps(described(table.fitted)))
    step = _step("model.json", told, stage_class)
    parts: list[Part] = table.futures()
    expected = pl.concat([part.frame for part in parts]).filter(pl.col("split") == "test").drop("split", "y")
    found = step.apply(frame.filter(pl.col("split") == "test").drop("split", "y").lazy()).collect()
    assert_frame_equal(found, expected, check_column_order=False)
