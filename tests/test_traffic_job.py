"""jobs/traffic.yaml: what was sown is found, numbers are those made by hand, forecasts beat the naive one and see no future."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import median_abs_deviation

from pipeline import api
from tests.report.pages import Page

ROOT = Path(__file__).parents[1]
TRAFFIC = ROOT / "data" / "traffic"
QUARTER = timedelta(minutes=15)
TEST, NOW = datetime(2026, 4, 27), datetime(2026, 4, 29, 12)
HOLIDAYS = [datetime(2026, 4, 3), datetime(2026, 4, 6), datetime(2026, 5, 1)]


def run(results: Path, data: Path = TRAFFIC, **overrides: Any) -> api.Run:
    """The job as it is shipped, on the readings of a folder, but for overrides."""
    paths = {"inputs__readings__path": str(data / "readings"), "inputs__holidays__path": str(TRAFFIC / "holidays.csv")}
    return api.load(ROOT / "jobs" / "traffic.yaml", results=str(results), cluster__dashboard=False, **paths, **overrides).run()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    return run(tmp_path_factory.mktemp("traffic"))


ORDER = {"flows": ["sensor", "time"], "events": ["sensor", "began"], "forecasts": ["sensor", "made", "step"], "measures": ["split", "step"]}


def table(found: api.Run, name: str) -> pl.DataFrame:
    return found.table(name).to_polars().sort(ORDER[name])


def model(found: api.Run) -> bytes:
    return (Path(found.path) / "models" / "next_hour.ubj").read_bytes()


def sown() -> pl.DataFrame:
    """What the generator sowed: sensor, kind, and the times of its first and last reading."""
    return pl.read_csv(TRAFFIC / "sown.csv", try_parse_dates=True).with_columns(pl.col("first", "last").cast(pl.Datetime("us")))


def found_events(shipped: api.Run) -> pl.DataFrame:
    """Every event that what was sown overlaps, with it."""
    overlap = (pl.col("began") <= pl.col("last")) & (pl.col("ended") > pl.col("first"))
    return sown().with_row_index().join(table(shipped, "events"), on="sensor").filter(overlap)


def test_all_that_was_sown__is_found_as_one_event_of_its_kind(shipped: api.Run) -> None:
    found = found_events(shipped)
    assert found["index"].n_unique() == found.height == sown().height == 80
    states = found.group_by("kind").agg(pl.col("state").unique().sort()).sort("kind")
    expected = [["crowded", "slow"], ["no readings"], ["slow"], ["stuck"]]
    assert dict(states.iter_rows()) == dict(zip(("crowd", "gap", "incident", "stuck"), expected, strict=True))
    off = pl.max_horizontal((pl.col("began") - pl.col("first")).abs(), (pl.col("ended") - pl.col("last")).abs())
    assert found.filter(off <= 2 * QUARTER).height > 0.9 * found.height


def test_the_incidents__are_the_events_of_the_highest_scores(shipped: api.Run) -> None:
    incidents = found_events(shipped).filter(pl.col("kind") == "incident").select("sensor", "began")
    highest = table(shipped, "events").sort("score", descending=True, nulls_last=True).head(incidents.height).select("sensor", "began")
    assert_frame_equal(highest.sort("sensor", "began"), incidents.sort("sensor", "began"))


def test_forecasts__beat_the_naive_one_and_the_usual_at_every_step(shipped: api.Run) -> None:
    measures = table(shipped, "measures")
    test = measures.filter(pl.col("split") == "test")
    assert test["step"].to_list() == [1, 2, 3, 4]
    assert (test["rmse"] < 0.5 * test["naive_rmse"]).all()
    assert (test["rmse"] < 0.95 * test["usual_rmse"]).all()
    assert test["rmse"].is_sorted(), "what is farther ahead is harder to tell"
    assert (measures["rmse"] < measures["naive_rmse"]).all()


def test_measures__are_those_of_the_published_forecasts(shipped: api.Run) -> None:
    known = table(shipped, "forecasts").drop_nulls(["observed", "week_before", "usual"])
    for row in table(shipped, "measures").filter(pl.col("split") == "test").iter_rows(named=True):
        truth, told, naive = known.filter(pl.col("step") == row["step"]).select("observed", "forecast", "week_before").to_numpy().T
        assert row["rows"] == len(truth) > 7_500
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean((truth - told) ** 2)), rel=1e-6)
        assert row["naive_mae"] == pytest.approx(np.abs(truth - naive).mean(), rel=1e-9)
        assert row["gain"] == pytest.approx(1 - row["rmse"] / np.sqrt(np.mean((truth - naive) ** 2)), rel=1e-6)


def test_forecasts__go_beyond_the_last_reading(shipped: api.Run) -> None:
    beyond = table(shipped, "forecasts").filter(pl.col("time") >= datetime(2026, 5, 4))
    assert beyond.group_by("sensor").len()["len"].to_list() == [4 + 3 + 2 + 1] * 12
    assert beyond["observed"].null_count() == beyond.height
    assert (beyond["forecast"] > 0).all()
    assert (beyond["time"] - beyond["made"] == beyond["step"] * QUARTER).all()


def by_hand(sensor: int) -> pl.DataFrame:
    """Flow, usual flow and its robust z of one sensor, made another way: a bin a quarter, NumPy's mean, SciPy's deviation."""
    readings = pl.read_parquet(TRAFFIC / "readings" / "*.parquet").filter(pl.col("sensor") == sensor)
    binned = readings.group_by(pl.col("time").dt.truncate("15m")).agg(pl.col("count").sum(), pl.len()).sort("time")
    day = pl.col("time").dt.truncate("1d")
    frame = binned.with_columns(
        flow=pl.when(pl.col("len") > 1).then(3 * pl.col("count") / pl.col("len")),
        weekday=pl.when(day.is_in(HOLIDAYS)).then(7).otherwise(pl.col("time").dt.weekday()),
        place=pl.col("time").dt.time(),
        train=pl.col("time") < datetime(2026, 4, 20),
    )
    slots = {key: rows["flow"].drop_nulls().to_numpy().mean() for key, rows in frame.filter("train").group_by("weekday", "place")}
    frame = frame.with_columns(usual=pl.Series([round(slots[key], 6) for key in frame.select("weekday", "place").iter_rows()]))
    frame = frame.with_columns(off=((pl.col("flow") + 1) / (pl.col("usual") + 1)).log(), hour=pl.col("time").dt.hour())
    spread = {}
    for (hour,), rows in frame.filter("train").group_by("hour"):
        values = rows["off"].drop_nulls().to_numpy()
        spread[hour] = np.median(values), median_abs_deviation(values, scale=1 / 1.4826)
    z = [None if off is None else (off - spread[hour][0]) / spread[hour][1] for off, hour in frame.select("off", "hour").iter_rows()]
    return frame.select("time", "flow", "usual", z=pl.Series(z))


def test_flows_and_robust_z__are_those_made_by_hand(shipped: api.Run) -> None:
    sensor = 1008  # one that is never stuck
    found, expected = table(shipped, "flows").filter(pl.col("sensor") == sensor), by_hand(sensor)
    both = found.join(expected, on="time", suffix="_hand", validate="1:1").sort("time")
    assert both.height == expected.height < found.height == 56 * 96
    assert_frame_equal(both.select("flow", "usual"), both.select(flow="flow_hand", usual="usual_hand"), abs_tol=2e-6)
    more = both.filter(pl.col("score") > pl.col("z").abs() + 2e-6)  # what was slow by more than the cars were few or many
    assert (both["score"] >= both["z"].abs() - 2e-6).all()
    assert 0.1 < more.height / both.height < 0.6
    silent = found.join(expected, on="time", how="anti")
    assert set(silent["state"]) == {"no readings"}


def test_forecasts_and_flows__see_nothing_of_the_future_and_nothing_of_how_rows_are_divided(shipped: api.Run, tmp_path: Path) -> None:
    (tmp_path / "readings").mkdir()
    later = pl.col("time") >= NOW
    for path in sorted((TRAFFIC / "readings").glob("*.parquet")):
        changed = pl.read_parquet(path).with_columns(count=pl.when(later).then(3 * pl.col("count") + 7).otherwise("count"))
        changed.write_parquet(tmp_path / "readings" / path.name)
    other = run(tmp_path / "results", tmp_path, inputs__readings__parts=7)
    assert [found.record["inputs"]["readings"]["parts"] for found in (shipped, other)] == [1, 7]
    assert model(other) == model(shipped)
    before, told = pl.col("made") < NOW, ["sensor", "made", "step", "forecast", "usual", "week_before"]
    ours, theirs = (table(found, "forecasts").filter(before).select(told) for found in (shipped, other))
    assert ours.height > 12 * 4 * 230
    assert_frame_equal(theirs, ours, check_exact=True)
    earlier = pl.col("time") < NOW
    assert_frame_equal(table(other, "flows").filter(earlier), table(shipped, "flows").filter(earlier), check_exact=True)
    ended = pl.col("ended") < NOW
    assert_frame_equal(table(other, "events").filter(ended), table(shipped, "events").filter(ended), rel_tol=1e-12)
    assert not table(other, "flows")["flow"].equals(table(shipped, "flows")["flow"])


def test_the_page__shows_the_week_the_events_the_errors_and_the_sensors(shipped: api.Run) -> None:
    page = Page((Path(shipped.path) / "report.html").read_text(encoding="utf-8"))
    assert {"Traffic: flows", "Errors of forecasts: measures", "Events", "Anomalies: flows", "Sensors"} <= {*page.headings}
    assert "the last week: " in page.text
    assert "The 4 of 12 sensors that were unusual most often in the last week." in page.text
    assert "less error than the naive forecast, 4 steps ahead, test" in page.text
