"""The sections of the page that traffic made necessary: flows, events, errors of forecasts, sensors."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from tests.report.pages import Page, page_of

START = datetime(2026, 3, 2)


def flows_of(sensors: int, days: int = 9) -> pl.DataFrame:
    """Flows of an hour; the higher a sensor's number the more of its rows are unusual, and four have no flow."""
    hours = np.arange(24 * days)
    pieces = []
    for sensor in range(sensors):
        flow = [None if 150 <= hour < 154 else float(100 + hour % 24) for hour in hours]
        state = ["no readings" if value is None else "slow" if hour >= len(hours) - sensor else None for hour, value in enumerate(flow)]
        times = [START + timedelta(hours=int(hour)) for hour in hours]
        columns = {"time": times, "flow": flow, "usual": 90.0, "forecast": 95.0, "state": pl.Series(state, dtype=pl.String)}
        pieces.append(pl.DataFrame({"sensor": sensor, **columns}))
    return pl.concat(pieces)


EVENTS = pl.DataFrame(
    {
        "sensor": [1, 2, 2, 3],
        "state": ["slow", "slow", "stuck", "slow"],
        "began": [START + timedelta(hours=hour) for hour in (0, 5, 9, 20)],
        "ended": [START + timedelta(hours=hour) for hour in (2, 9, 12, 21)],
        "score": [40.0, 9.0, None, 55.0],
    }
)
ERRORS = pl.DataFrame({"split": ["train", "test", "test"], "step": [1, 1, 2], "rmse": [1.0, 2.0, 3.0], "naive_rmse": [4.0, 4.0, 4.0]})
SENSORS = pl.DataFrame(
    {
        "sensor": [7, 8, 9],
        "cars_a_day": [900.0, 12_345.0, None],
        "quarters": [200, 200, 0],
        "silent": [4, 0, 0],
        "stuck": [0, 2, 0],
        "unusual": [1, 30, 0],
    }
)


def cells(html: str) -> str:
    """The texts of a page's cells, one space between two."""
    return " ".join(re.sub("<[^>]*>", " ", html.split("<main>")[1]).split())


def test_flows__are_drawn_for_the_last_week_of_the_sensors_that_were_unusual_most(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"flows": flows_of(6)})
    page = Page(html)
    assert "Traffic: flows" in page.headings
    assert "Sensor 5, the last week: 9 of 168 rows are unusual (ringed) or lost (shaded)." in page.text
    assert "Sensor 1, the last week" not in page.text
    assert "The 4 of 6 sensors that were unusual most often in the last week." in page.text
    assert html.count('class="area band"') == 4
    assert html.count('class="lead"') == 5 + 4 + 3 + 2
    assert html.count("2026-03-10 23:00:00: slow") == 4
    assert "Wed 04 Mar" in page.text


def test_flows__of_one_row_of_none_and_without_timestamps_are_no_failure(tmp_path: Path) -> None:
    assert "1 of 1 rows" not in Page(page_of(tmp_path / "one", {"flows": flows_of(1).head(1)})).text
    assert "No row has a time." in Page(page_of(tmp_path / "none", {"flows": flows_of(1).clear()})).text
    numbered = flows_of(1).with_columns(pl.col("time").dt.epoch("s"))
    assert "Traffic: flows" not in Page(page_of(tmp_path / "numbers", {"flows": numbered})).headings


def test_events__are_counted_by_state_and_the_most_striking_listed(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"events": EVENTS})
    text = cells(html)
    assert "Events" in Page(html).headings
    assert "4 events." in text
    assert "slow 3 2 7 stuck 1 3 3" in text
    assert "The 3 events of the highest scores." in text
    assert text.index("2026-03-02 20:00") < text.index("2026-03-02 00:00") < text.index("2026-03-02 05:00")


def test_events__of_none_or_of_other_types_are_no_failure(tmp_path: Path) -> None:
    assert "0 events." in Page(page_of(tmp_path / "none", {"events": EVENTS.clear()})).text
    numbered = EVENTS.with_columns(began=1)
    assert "Events" not in Page(page_of(tmp_path / "numbers", {"events": numbered})).headings


def test_errors_of_forecasts__are_those_of_the_test_beside_the_naive_ones(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"measures": ERRORS})
    text = cells(html)
    assert "Errors of forecasts: measures" in Page(html).headings
    assert "Root mean squared error by steps ahead, test." in text
    assert "train 1 1 4 75.0% test 1 2 4 50.0% test 2 3 4 25.0%" in text
    assert "25%less error than the naive forecast, 2 steps ahead, test" in Page(html).text


def test_errors_of_forecasts__of_none_or_without_more_columns_are_no_failure(tmp_path: Path) -> None:
    assert "No split has a forecast" in Page(page_of(tmp_path / "none", {"measures": ERRORS.clear()})).text
    perfect = ERRORS.with_columns(naive_rmse=0.0, usual_rmse=2.5)
    assert "the usual value" in Page(page_of(tmp_path / "perfect", {"measures": perfect})).text
    named = ERRORS.with_columns(step=pl.lit("first"))
    assert "Errors of forecasts: measures" not in Page(page_of(tmp_path / "named", {"measures": named})).headings


def test_sensors__are_listed_from_the_most_cars_on_with_shares_and_a_day(tmp_path: Path) -> None:
    html = page_of(tmp_path / "plain", {"sensors": SENSORS})
    text = cells(html)
    assert "8 12,345 0.0% 1.0% 15.0% 7 900 2.0% 0.0% 0.5% 9 0.0% 0.0% 0.0%" in text
    assert "The 3 of 3 sensors that most cars pass" in text
    days = SENSORS.with_columns(profile=pl.Series([[1.0, None, 3.0], [], None], dtype=pl.List(pl.Float64)), mae=1.5)
    html = page_of(tmp_path / "days", {"sensors": days})
    assert html.count("mean of each hour") == 1
    assert "forecast MAE" in html
    assert "The 0 of 0 sensors" in Page(page_of(tmp_path / "none", {"sensors": SENSORS.clear()})).text
