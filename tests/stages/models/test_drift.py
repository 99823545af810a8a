"""drift: figures of SciPy and of the definitions, for any parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp

import pipeline
from pipeline.errors import StageError
from pipeline.stage import Context
from pipeline.stages.models.drift import MOST_VALUES, Drift
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests.small import inside


def table(rows: int, shift: float, seed: int) -> pl.DataFrame:
    """Numbers that moved by `shift`, whole ones and texts that did not, and a key."""
    random = np.random.default_rng(seed)
    moved = pl.Series(random.normal(shift, 1, rows))
    return pl.DataFrame(
        {
            "id": [f"r{number}" for number in range(rows)],
            "moved": pl.select(pl.when(pl.Series(random.random(rows) < 0.1)).then(None).otherwise(moved)).to_series(),
            "whole": random.integers(0, 5, rows),
            "town": np.array(["Aachen", "Bonn", "Celle"])[random.integers(0, 3, rows)],
            "day": pl.Series(random.integers(0, 100, rows), dtype=pl.Int32).cast(pl.Date),
            "flag": random.random(rows) < 0.5,
        }
    )


BEFORE, NOW = table(2000, 0, 1), table(1500, 0.8, 2)
SIDES = {"rows": NOW, "reference": BEFORE}
EXAMPLES = [StageExample(Drift(exclude=("id",)), {"rows": NOW[:300], "reference": BEFORE[:400]})]


def found(rows: pl.DataFrame, reference: pl.DataFrame, **more: Any) -> dict[str, dict[str, Any]]:
    """What the stage gives, by column."""
    lines = run_stage(Drift(**more), {"rows": rows, "reference": reference}, 3)[""]
    return {line["column"]: line for line in lines.iter_rows(named=True)}


def test_drift__orders_the_columns_by_how_far_they_moved() -> None:
    lines = run_stage(Drift(exclude=("id",)), {"rows": NOW, "reference": BEFORE}, 4)[""]
    assert lines["column"][0] == "moved"
    assert lines["psi"][0] > 0.4 > 0.05 > lines["psi"][1]
    assert lines["psi"].to_list() == sorted(lines["psi"], reverse=True)


def test_drift__has_scipys_figures() -> None:
    lines = found(NOW, BEFORE, exclude=("id",))
    whole = [np.bincount(rows["whole"], minlength=5) for rows in (BEFORE, NOW)]
    assert lines["whole"]["jensen_shannon"] == pytest.approx(jensenshannon(*whole, base=2), rel=1e-9)
    assert lines["whole"]["ks"] == pytest.approx(ks_2samp(BEFORE["whole"], NOW["whole"]).statistic, rel=1e-12)
    assert lines["moved"]["ks"] == pytest.approx(ks_2samp(BEFORE["moved"].drop_nulls(), NOW["moved"].drop_nulls()).statistic, abs=0.003)
    assert lines["day"]["ks"] == pytest.approx(ks_2samp(BEFORE["day"].to_physical(), NOW["day"].to_physical()).statistic, rel=1e-12)
    towns = [[rows.filter(town=name).height for name in ("Aachen", "Bonn", "Celle")] for rows in (BEFORE, NOW)]
    assert lines["town"]["jensen_shannon"] == pytest.approx(jensenshannon(*towns, base=2), rel=1e-9)
    assert lines["town"]["ks"] is None
    assert lines["moved"]["missing"] == NOW["moved"].null_count() / 1500
    assert lines["moved"]["reference_missing"] == BEFORE["moved"].null_count() / 2000


def test_drift__has_the_index_of_its_definition() -> None:
    lines = found(NOW, BEFORE, exclude=("id",), bins=4)
    edges = np.quantile(BEFORE["moved"].drop_nulls(), [0.25, 0.5, 0.75], method="inverted_cdf")
    shares = []
    for rows in (BEFORE, NOW):
        counts = np.bincount(np.searchsorted(edges, rows["moved"].drop_nulls()), minlength=4)
        more = np.append(counts, rows["moved"].null_count()) + 0.5
        shares.append(more / more.sum())
    assert lines["moved"]["psi"] == pytest.approx(((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum(), rel=0.02)


def test_drift__of_the_same_rows_is_none() -> None:
    for line in found(NOW, NOW, exclude=("id",)).values():
        assert line["psi"] == pytest.approx(0, abs=1e-12)
        assert line["jensen_shannon"] == pytest.approx(0, abs=1e-7)
        assert line["ks"] in {0, None}


def test_drift__has_no_figures_of_names_and_of_nothing() -> None:
    names = pl.DataFrame({"name": [f"n{number}" for number in range(MOST_VALUES + 1)], "empty": [None] * (MOST_VALUES + 1)})
    lines = found(names, names.with_columns(pl.col("empty").cast(pl.Float64)), columns=("name",))
    assert lines["name"]["psi"] is None
    assert lines["name"]["missing"] == 0
    nothing = pl.DataFrame({"x": []}, schema={"x": pl.Float64})
    assert found(nothing, BEFORE.select(x="moved"))["x"]["ks"] is None
    lost = found(pl.DataFrame({"x": [None] * 900}, schema={"x": pl.Float64}), BEFORE.select(x="moved"))["x"]
    assert lost["missing"] == 1
    assert lost["psi"] > 5


def test_drift__is_the_same_for_any_parts_and_extremes() -> None:
    wild = pl.DataFrame({"x": [1e300, -1e300, 5e-324, -0.0, 0.0, float("inf"), float("nan"), None, 2.0**53]})
    assert_same_for_any_parts(Drift(), {"rows": wild, "reference": wild[:5]}, ["column"])
    lines = found(wild, wild)
    assert lines["x"]["missing"] == pytest.approx(2 / 9)
    assert lines["x"]["psi"] == pytest.approx(0)


def test_drift__warns_and_counts() -> None:
    tables = {role: Table.of(Session(), role, [Part(frame)], schema=Schema(frame.schema)) for role, frame in SIDES.items()}
    outcome = Drift(exclude=("id",)).run(tables, Context("moved", 1, Session()))
    assert outcome.counts == {"columns_compared": 5, "columns_drifted": 1}
    assert outcome.metrics["psi_max"] > 0.4
    assert [line.split(" has moved")[0] for line in outcome.warnings] == ["column 'moved'"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"columns": ("nosuch",)}, "no column 'nosuch'"),
        ({"exclude": tuple(BEFORE.columns)}, "no column in common"),
        ({"columns": ("town",)}, r"column 'town' is Int64 and String, which cannot be compared\. Cast it"),
    ],
)
def test_drift__refuses_at_plan_time(more: dict[str, Any], message: str) -> None:
    rows = NOW.with_columns(town=pl.lit(1, pl.Int64)) if more.get("columns") == ("town",) else NOW
    with pytest.raises(StageError, match=message):
        plan_stage(Drift(**more), {"rows": rows, "reference": BEFORE})


JOB = """\
job: moved
results: moved
inputs: {before: {format: parquet, path: before.parquet}, now: {format: parquet, path: now.parquet, parts: 2}}
stages:
  - {use: drift, from: {rows: now, reference: before}, as: moved, exclude: [id]}
outputs: {moved: {from: moved}}
"""


def test_drift__is_shown_in_the_report_with_its_warning(tmp_path: Path) -> None:
    BEFORE.write_parquet(tmp_path / "before.parquet")
    NOW.write_parquet(tmp_path / "now.parquet")
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    assert any("column 'moved' has moved" in line for line in run.record["warnings"])
    page = (tmp_path / "moved" / "current" / "report.html").read_text()
    assert "Jensen-Shannon" in page
    assert "steady" in page
