"""fft."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
import scipy.signal

from pipeline.errors import DataError, StageError
from pipeline.stages.science.fft import Fft
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

RNG = np.random.default_rng(4)
LENGTHS = {"a": 12, "b": 15, "c": 2}
ROWS = pl.concat(
    pl.DataFrame({"sensor": [name] * n, "second": 3 + np.arange(n) * 0.25, "x": RNG.normal(size=n), "y": RNG.normal(size=n)})
    for name, n in LENGTHS.items()
).sample(fraction=1, shuffle=True, seed=2)
STAGE = Fft(by="sensor", time="second", measure="complex")
EXAMPLES = [
    StageExample(STAGE, {"rows": ROWS}),
    StageExample(Fft(by="sensor", time="second", columns="x", measure="density", window="hann"), {"rows": ROWS}),
    StageExample(Fft(time="second"), {"rows": ROWS.filter(pl.col("sensor") == "a").drop("sensor")}),
]


def signal(name: str, column: str) -> np.ndarray:
    return ROWS.filter(pl.col("sensor") == name).sort("second")[column].to_numpy()


def test_sums__are_numpys_series_by_series() -> None:
    found = assert_same_for_any_parts(STAGE, {"rows": ROWS}, ["sensor", "frequency"])
    for name, samples in LENGTHS.items():
        series = found.filter(pl.col("sensor") == name)
        np.testing.assert_allclose(series["frequency"].to_numpy(), np.fft.rfftfreq(samples, 0.25), rtol=1e-15)
        for column in ("x", "y"):
            ours = series[f"{column}_real"].to_numpy() + 1j * series[f"{column}_imaginary"].to_numpy()
            np.testing.assert_allclose(ours, np.fft.rfft(signal(name, column)), atol=1e-13)


@pytest.mark.parametrize("by", [["sensor"], ["even", "sensor"], ["even", "late"]])
def test_rows_in_order__are_as_rows_in_any_other(by: list[str]) -> None:
    rows = ROWS.with_columns(even=pl.col("sensor") != "b", late=pl.col("sensor") == "c")
    stage = Fft(by=tuple(by), time="second", columns="x")
    expected = run_stage(stage, {"rows": rows})[""]
    for given in (rows.sort(*by, "second"), rows.sort(*by, "second", descending=True), rows.sort("second")):
        assert run_stage(stage, {"rows": given})[""].equals(expected)
    series = rows.sort(*by, "second").vstack(rows.sort(*by, "second").tail(1))
    with pytest.raises(DataError, match="not evenly apart"):
        run_stage(stage, {"rows": series})


@pytest.mark.parametrize("window", ["none", "hann"])
@pytest.mark.parametrize("name", ["a", "b"])
def test_densities_and_amplitudes__are_scipys(name: str, window: str) -> None:
    theirs = {"window": "boxcar" if window == "none" else "hann", "detrend": False, "fs": 4.0}
    for measure, scaling in (("density", "density"), ("amplitude", "spectrum")):
        found = run_stage(Fft(by="sensor", time="second", measure=measure, window=window), {"rows": ROWS}, 2)[""]
        _, expected = scipy.signal.periodogram(signal(name, "x"), scaling=scaling, **theirs)
        if measure == "amplitude":  # scipy's are mean squares of a sine, half the square of its amplitude
            both = np.full(len(expected), 2.0)
            both[0] = 1
            both[-1] = 1 if LENGTHS[name] % 2 == 0 else 2
            expected = np.sqrt(expected * both)
        np.testing.assert_allclose(found.filter(pl.col("sensor") == name)["x"].to_numpy(), expected, rtol=1e-11, atol=1e-14)


def test_a_sine__has_its_amplitude_at_its_frequency_in_hertz() -> None:
    times = [dt.datetime(2026, 1, 1) + dt.timedelta(milliseconds=2 * at) for at in range(500)]
    rows = pl.DataFrame({"time": times, "v": 0.5 + 3 * np.sin(2 * np.pi * 50 * np.arange(500) * 0.002)})
    found = run_stage(Fft(time="time"), {"rows": rows}, 3)[""]
    np.testing.assert_allclose(found["frequency"].to_numpy(), np.arange(251), rtol=1e-12)
    np.testing.assert_allclose(found["v"].to_numpy(), np.where(np.arange(251) == 50, 3, np.where(np.arange(251) == 0, 0.5, 0)), atol=1e-12)
    days = pl.DataFrame({"day": [dt.date(2026, 1, 1) + dt.timedelta(days=7 * at) for at in range(4)], "v": [1.0, -1, 1, -1]})
    assert run_stage(Fft(time="day"), {"rows": days})[""].rows() == [(0, 0), (1 / 28, 0), (2 / 28, 1)]


def test_samples_that_are_not_evenly_apart__are_refused() -> None:
    lacking = ROWS.filter((pl.col("sensor") != "b") | (pl.col("second") != 4.0))
    with pytest.raises(
        DataError, match=r"samples of sensor 'b' are not evenly apart: after second 3.0 comes the next after 0.25, where 0.269"
    ):
        run_stage(STAGE, {"rows": lacking}, 2)
    with pytest.raises(DataError, match=r"are not evenly apart: after second 3.0 comes the next after 0,"):
        run_stage(Fft(time="second"), {"rows": ROWS})
    with pytest.raises(DataError, match="the series of sensor 'c' has one sample"):
        run_stage(STAGE, {"rows": ROWS.filter((pl.col("sensor") != "c") | (pl.col("second") > 3))})
    with pytest.raises(DataError, match="a sample of sensor 'a' has no time"):
        run_stage(STAGE, {"rows": ROWS.with_columns(second=pl.when((pl.col("second") > 3) | (pl.col("sensor") > "a")).then("second"))})
    with pytest.raises(DataError, match=r"a value is missing: column 'x', sensor 'b', second 6.5"):
        run_stage(STAGE, {"rows": ROWS.with_columns(x=pl.when(pl.col("second") < 6.5).then("x"))})


def test_columns_that_do_not_fit__are_refused_before_anything_runs() -> None:
    for stage, text in (
        (Fft(time="sensor"), "'sensor' is String: numbers, timestamps or dates"),
        (Fft(time="x", by="x"), "'x' is Float64, and a fraction is no key"),
        (Fft(time="second", columns="second"), "'second' names the rows"),
        (Fft(time="second", by="hz"), "no column 'hz'"),
    ):
        with pytest.raises(StageError, match=text):
            plan_stage(stage, {"rows": ROWS})
