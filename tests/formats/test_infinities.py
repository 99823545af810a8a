"""Infinities of files are missing, as NaN is, and counted; no stage that learns lets one spread."""

from __future__ import annotations

import gzip
import math
import random
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.formats._csv_text import NEAR_BYTES
from pipeline.formats.csv import CsvInput
from pipeline.formats.parquet import ParquetInput
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.stages.features.standardize import Standardize
from pipeline.testing.stages import run_stage
from tests.small import inside

JOB = """\
job: infinite
results: results
inputs:
  rows: {format: KIND, path: in}
stages:
  - {use: filter, from: rows, as: some, where: "k >= 0 and (x > -1e300 or x is null)"}
  - {use: standardize, from: some, as: scaled, columns: [y]}
outputs:
  all: {from: some}
  scaled: {from: scaled}
"""


def random_floats(chance: random.Random, share: float, most: int = 300) -> list[float | None]:
    odd = [math.inf, -math.inf, math.nan, None]
    return [chance.choice(odd) if chance.random() < share else chance.gauss(0, 1) * 10 ** chance.randrange(-300, most) for _ in range(200)]


def written(folder: Path, kind: str, share: float) -> None:
    chance = random.Random(kind + str(share))
    folder.mkdir()
    for number in range(3):
        frame = pl.DataFrame({"k": range(200), "x": random_floats(chance, share), "y": random_floats(chance, share, 150)})
        if kind == "csv":
            frame.write_csv(folder / f"{number}.csv")
        elif number:
            frame.write_parquet(folder / f"{number}.parquet", row_group_size=50)
        else:  # the other writer, whose footers have bounds where there is NaN
            pq.write_table(frame.to_arrow(), folder / f"{number}.parquet", row_group_size=50)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_run__counts_infinities_and_has_none(tmp_path: Path, kind: str, share: float) -> None:
    written(tmp_path / "in", kind, share)
    (tmp_path / "job.yaml").write_text(JOB.replace("KIND", kind))
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    source = f"read_{kind}('{tmp_path}/in/*.{kind}')"
    query = f"select count(*) filter (isinf(x::double)) + count(*) filter (isinf(y::double)) from {source}"
    assert run.record["inputs"]["rows"]["counts"].get("infinities", 0) == duckdb.sql(query).fetchall()[0][0]
    x = duckdb.sql(f"select count(*) from {source} where isfinite(x::double)").fetchall()[0][0]
    found = run.table("all").to_polars()
    assert found.height == 600  # nothing is above or below all numbers
    assert found["x"].count() == found["x"].is_finite().sum() == x
    assert run.table("scaled").to_polars()["y"].drop_nulls().is_finite().all()
    if share > 0.1:
        assert "infinite values of the files, now missing" in Path(run.report).read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["inf", "-inf", "Infinity", "INF", "1e400", "-1E+999", "9" * 400])
def test_csv_input__counts_whatever_reads_as_an_infinity(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_text("x,t\n1.5,a\n" + f"{text},inf\n" + "2.5,b\n" * 500_000)
    counting = CsvInput.model_validate({"path": str(tmp_path / "x.csv"), "columns": {"x": "float64"}}).infinities()
    assert counting is not None
    assert counting() == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("text", ["inf", "1e400", "-1E+999", "9" * 400])
@pytest.mark.parametrize("before", [0, 1, 2, 3, 5, 150, 299, 399])
def test_csv_input__finds_an_infinity_that_two_blocks_share(tmp_path: Path, text: str, before: int, packed: bool) -> None:
    filler = "2.5\n" * (NEAR_BYTES // 4 - 200)
    data = (filler + "x" * (NEAR_BYTES - len(filler) - before - 1) + "\n" + text + "\n" + filler).encode()
    assert data[NEAR_BYTES - before : NEAR_BYTES - before + len(text)] == text.encode()
    path = tmp_path / "x.csv.gz" if packed else tmp_path / "x.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    given = {"path": str(path), "header": False, "names": ["x"], "columns": {"x": "float64"}, "null_values": ["x" * (800 - before - 1)]}
    counting = CsvInput.model_validate(given).infinities()
    assert counting is not None
    assert counting() == 1


def test_parquet_input__whose_footers_show_finite_bounds_is_not_read_again(tmp_path: Path) -> None:
    pl.DataFrame({"x": [1.0, None, -3.0], "k": [1, 2, 3]}).write_parquet(tmp_path / "x.parquet")
    assert ParquetInput(path=(str(tmp_path / "x.parquet"),)).infinities() is None


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_stages_that_learn__take_what_is_no_number_for_missing(odd: float, parts: int) -> None:
    frame, plain = pl.DataFrame({"x": [1.0, odd, 3.0]}), pl.DataFrame({"x": [1.0, None, 3.0]})
    stages = [Standardize(columns=("x",)), *(FillMissing.model_validate({"columns": ["x"], "method": how}) for how in ("mean", "median"))]
    stages.append(FillMissing.model_validate({"columns": ["x"], "value": 7, "indicator": True}))
    for stage in stages:
        assert run_stage(stage, {"rows": frame}, parts)[""].equals(run_stage(stage, {"rows": plain}, 1)[""])
