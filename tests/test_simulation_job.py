"""jobs/simulation.yaml: the plate cools as its closed form, the planets keep to their periods, and the page has pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.fft import dstn, idstn

from pipeline import api

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data" / "simulation"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped, its files found from anywhere."""
    job = api.load(
        ROOT / "jobs" / "simulation.yaml", results=str(tmp_path_factory.mktemp("simulation")), cluster__dashboard=False,
        inputs__plate__path=str(DATA / "plate.parquet"), inputs__planets__path=str(DATA / "bodies.csv"),
    )  # fmt: skip
    return job.run()


def test_the_plate__cools_as_its_closed_form(shipped: api.Run) -> None:
    cells = shipped.table("plate").to_polars()
    times = cells["time"].unique().sort()
    assert times.to_list() == pytest.approx([0, 300 / 8.8, 600 / 8.8, 900 / 8.8])
    first, last = (cells.filter(pl.col("time") == time).sort("y", "x")["temperature"].to_numpy().reshape(64, 96) for time in times[[0, 3]])
    # a dt / dx^2 is an eighth
    k, j = np.mgrid[1:63, 1:95]
    factor = (1 - 0.5 * np.sin(np.pi * k / 63 / 2) ** 2 - 0.5 * np.sin(np.pi * j / 95 / 2) ** 2) ** 900
    known = 20 + np.pad(idstn(dstn(first[1:-1, 1:-1] - 20, type=1) * factor, type=1), 1)
    np.testing.assert_allclose(last, known, rtol=1e-12)


def test_the_planets__come_round_after_their_periods(shipped: api.Run) -> None:
    orbits = shipped.table("orbits").to_polars()
    sun = orbits.filter(pl.col("name") == "Sun").select("time", "x", "y")
    for name, axis in (("Venus", 0.7233), ("Earth", 1.0), ("Mars", 1.5237)):
        apart = orbits.filter(pl.col("name") == name).join(sun, on="time", suffix="_sun").sort("time")
        x, y = (apart[way].to_numpy() - apart[f"{way}_sun"].to_numpy() for way in ("x", "y"))
        turned = np.unwrap(np.arctan2(y, x))
        assert (turned[-1] - turned[0]) / 2 / np.pi == pytest.approx(12 / axis**1.5, rel=3e-4)
    assert shipped.metrics["orbits"]["energy_error"] < 1e-8
    assert shipped.metrics["orbits"]["momentum_error"] < 1e-13


def test_the_page__has_pictures_and_what_is_conserved(shipped: api.Run) -> None:
    page = (Path(shipped.path) / "report.html").read_text(encoding="utf-8")
    assert "Temperatures from 20 (dark) to 100 (bright) at 4 of 4 times" in page
    assert page.count("data:image/png;base64,") == 4
    assert "The ways of 9 bodies from time 0 to 12" in page
    assert f"The total energy beside its first value, {shipped.metrics['orbits']['energy']:.4g}" in page
