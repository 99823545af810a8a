"""Matrices that are more than memory holds: their rows are laid on disk once, and the answers are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.stage import Context, Stage
from pipeline.stages.science.heat import Heat
from pipeline.stages.science.linear_solve import LinearSolve
from pipeline.stages.science.matrix_product import MatrixProduct
from pipeline.stages.science.svd import Svd
from pipeline.tables.budget import Budget, Size
from pipeline.tables.part import Schema, concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import assert_alike
from pipeline.testing.stages import cut, even_sizes, run_stage

VALUES = np.random.default_rng(2).normal(size=(60, 6))
ROWS = pl.DataFrame({"row": np.arange(60), **{f"x{at}": VALUES[:, at] for at in range(6)}})
Y, X = np.indices((20, 30))
CELLS = pl.DataFrame({"x": X.ravel(), "y": Y.ravel(), "temperature": np.sin(X + 2.0 * Y).ravel()})
STAGES: dict[str, tuple[Stage, pl.DataFrame]] = {
    "left": (MatrixProduct(key="row"), ROWS),
    "rows": (Svd(key="row", components=3), ROWS),
    "equations": (LinearSolve(key="row", right="x5"), ROWS),
    "square": (LinearSolve(right="row", columns=("x0", "x1", "x2", "x3", "x4", "x5")), ROWS.head(6)),
    "cells": (Heat(diffusivity=1, dx=1, steps=9), CELLS),
}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage__gives_the_same_from_rows_on_disk(name: str, tmp_path: Path) -> None:
    stage, rows = STAGES[name]
    session = Session()
    session.budget = Budget(1_000, 2, str(tmp_path))
    role = stage.roles[0]
    table = Table.of(session, role, cut(rows, even_sizes(rows.height, 3)), schema=Schema(rows.schema), size=Size(rows.height, 56))
    assert table.is_beyond
    found = stage.run({role: table}, Context("tested", 20261121, session)).tables
    expected = run_stage(stage, {role: rows})
    for which, theirs in expected.items():
        assert_alike(concat_parts(found[which].futures()).frame, theirs, dict.fromkeys(theirs.columns, 1e-11))
    assert bool(session.budget.on_disk) == (name != "left")  # a sum of one pass needs no second look
