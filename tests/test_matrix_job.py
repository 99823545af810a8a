"""jobs/matrix.yaml: the shapes, frequencies and deflections that data/make_matrix.py put in come out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline import api

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped, its files found from anywhere."""
    paths = {f"inputs__{name}__path": str(ROOT / "data" / "matrix" / name) for name in ("recordings.parquet", "equations.csv")}
    job = api.load(
        ROOT / "jobs" / "matrix.yaml", results=str(tmp_path_factory.mktemp("matrix")), cluster__dashboard=False,
        **{name.replace(".parquet", "").replace(".csv", ""): path for name, path in paths.items()},
    )  # fmt: skip
    return job.run()


def test_the_shapes__are_sines_along_the_string(shipped: api.Run) -> None:
    shapes = shipped.table("shapes").to_polars()
    place = np.arange(1, 13) / 13
    for number in (1, 2, 3):
        known = np.sin(np.pi * number * place) / np.sqrt(6.5)
        assert abs(shapes[f"component_{number}"].to_numpy() @ known) == pytest.approx(1, abs=2e-5)
    shares = shipped.table("variance").to_polars()["explained_share"].to_list()
    squares = np.array([9, 2.25, 0.36])
    assert shares[:3] == pytest.approx(squares / squares.sum(), abs=2e-3)


def test_the_spectra__have_each_shape_at_its_frequency(shipped: api.Run) -> None:
    spectra = shipped.table("spectra").to_polars()
    for number, amplitude, frequency in ((1, 3.0, 1.5), (2, 1.5, 6.0), (3, 0.6, 13.5)):
        peak = spectra.sort(f"component_{number}", descending=True).row(0, named=True)
        assert peak["frequency"] == frequency
        assert peak[f"component_{number}"] == pytest.approx(amplitude * np.sqrt(6.5), rel=3e-3)


def test_the_deflections__are_those_of_a_string(shipped: api.Run) -> None:
    found = shipped.table("deflections").to_polars()
    x = 12 / 61 * np.arange(1, 61)
    np.testing.assert_allclose(found["even"].to_numpy(), 5 * x * (12 - x) / 800, rtol=1e-12)
    at = 12 / 61 * 21
    np.testing.assert_allclose(found["point"].to_numpy(), 30 / 400 / 12 * np.minimum(x * (12 - at), at * (12 - x)), rtol=1e-12)
    assert shipped.metrics["deflections"]["backward_error"] < 1e-15


def test_the_page__shows_peaks_and_products_are_those_of_the_columns(shipped: api.Run) -> None:
    page = (Path(shipped.path) / "report.html").read_text(encoding="utf-8")
    assert "the greatest value of component_1 at 1.5, component_2 at 6, component_3 at 13.5" in page
    recordings = pl.read_parquet(ROOT / "data" / "matrix" / "recordings.parquet").drop("second").to_numpy()
    np.testing.assert_allclose(shipped.table("products").to_polars().drop("column").to_numpy(), recordings.T @ recordings, rtol=1e-11)
