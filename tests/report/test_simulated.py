"""The sections on simulations: temperatures, orbits and what is conserved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from pipeline.stages.science.heat import Heat
from pipeline.stages.science.n_body import NBody
from pipeline.testing.stages import run_stage
from tests.report.pages import Page, page_of

Y, X = np.indices((70, 300))
CELLS = pl.DataFrame({"x": X.ravel(), "y": Y.ravel(), "temperature": (X + Y).ravel() * 1.0})
BODIES = pl.DataFrame({"name": ["a", "b"], "mass": [1.0, 1.0], "x": [0.0, 1.0], "y": 0.0, "z": 0.0, "vx": 0.0, "vy": [0.0, 1.0], "vz": 0.0})


def test_temperatures__are_a_picture_a_time_however_large_the_grid(tmp_path: Path) -> None:
    cells = run_stage(Heat(diffusivity=1, dx=1, steps=20, save_every=2), {"cells": CELLS})[""]
    path = page_of(tmp_path, {"cells": cells, "none": cells.clear()})
    page = Page(path)
    assert "Temperatures from 0 (dark) to 368 (bright) at 6 of 11 times; y goes up." in page.text
    assert "The output has no cells." in page.text


def test_orbits_and_energies__are_drawn(tmp_path: Path) -> None:
    found = run_stage(NBody(key="name", gravity=1, time_step=0.01, steps=100, save_every=1), {"bodies": BODIES})
    tables = {"ways": found[""], "energy": found["energy"], "nothing": found[""].clear(), "none": found["energy"].clear()}
    page = Page(page_of(tmp_path, tables))
    assert "The ways of 2 bodies from time 0 to 1, and where all were then." in page.text
    assert "The total energy beside its first value, -0.5, as shares of the larger of its two parts" in page.text
