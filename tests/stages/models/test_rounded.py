"""Features of whole numbers that 32 bits round: a warning with the column's name in run.json and on the display."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pipeline
from pipeline.stages.models._trees.rounded import rounded_features
from pipeline.tables.part import Part
from tests.small import inside, run_main

JOB = """\
job: large
results: results
report: false
inputs:
  rows: {format: parquet, path: rows.parquet}
stages:
  - {use: xgboost, from: rows, as: risk, target: y, key: k, objective: binary, rounds: 3}
outputs:
  risks: {from: risk}
"""


@pytest.mark.parametrize("dtype", [pl.Int32, pl.Int64, pl.UInt64, pl.Float64])
def test_rounded_features__are_those_that_numpy_rounds(dtype: type[pl.DataType]) -> None:
    values = [0, 1, 2**24, 2**24 + 1, 2**24 + 2, 2**25 + 1, 2**30, 2**30 + 1, None]
    part = Part(pl.DataFrame({"x": pl.Series(values, dtype=dtype), "small": pl.Series(range(9), dtype=dtype)}))
    known = sum(int(np.float32(value)) != value for value in values if value is not None)
    found = rounded_features(["x", "small"], part)
    assert list(found) == ["x"]
    assert found["x"][0] == known == 3
    assert found["x"][1].endswith("becomes 16777216")


def test_rounded_features__leave_fractions_and_multiples_alone() -> None:
    frame = pl.DataFrame({"f": [123456789.25, 0.1], "m": [2**40, 2**41], "b": [True, None], "n": pl.Series([None, None], dtype=pl.Int64)})
    assert rounded_features(frame.columns, Part(frame)) == {}


def test_run__warns_of_a_feature_that_is_rounded(tmp_path: Path) -> None:
    rows = pl.DataFrame({"k": range(200)}).with_columns(y=pl.col("k") % 2, id=2_000_000_000 + pl.col("k") % 2, small=pl.col("k") % 7)
    rows = rows.with_columns(split=pl.when(pl.col("k") % 3 > 0).then(pl.lit("train")).otherwise(pl.lit("test")))
    rows.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        ended = run_main("job.yaml")
        record = pipeline.open_run("results").record
    text = "risk: feature 'id' has whole numbers that XGBoost's 32 bits round: 2000000001 becomes 2000000000, in 100 rows so."
    assert ended.code == 0, ended
    assert [warning for warning in record["warnings"] if warning.startswith(text)] == record["warnings"][:1]
    assert f"warning: {text}" in ended.out
    assert "small" not in str(record["warnings"])
