"""heat."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.science import _strips
from pipeline.stages.science.heat import Heat
from pipeline.tables.session import Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import cut, even_sizes, plan_stage, run_parts, run_stage, shuffled


def plate(values: np.ndarray, first: tuple[int, int] = (0, 0)) -> pl.DataFrame:
    """The cells of a grid `[y, x]`."""
    y, x = np.indices(values.shape)
    return pl.DataFrame({"x": x.ravel() + first[0], "y": y.ravel() + first[1], "temperature": values.ravel()})


def grid(cells: pl.DataFrame, time: float | None = None) -> np.ndarray:
    """The grid at a time, the last where none is given."""
    some = cells.filter(pl.col("time") == (cells["time"].max() if time is None else time)).sort("y", "x")
    return some["temperature"].to_numpy().reshape(some["y"].n_unique(), some["x"].n_unique())


def mode(cells: int, j: int, k: int) -> np.ndarray:
    """A sine along x and one along y, 0 at the rim of a square of side 1."""
    at = np.linspace(0, 1, cells + 1)
    return np.outer(np.sin(np.pi * k * at), np.sin(np.pi * j * at))


VALUES = np.random.default_rng(3).normal(20, 5, (40, 13))
CELLS = plate(VALUES, (-4, 7))
EXAMPLES = [
    StageExample(Heat(diffusivity=1.0, dx=0.5, dy=0.7, steps=20, save_every=7), {"cells": CELLS}),
    StageExample(Heat(diffusivity=1.0, dx=0.5, steps=9, rim="periodic"), {"cells": CELLS}),
]


def error(cells: int, *, share: float = 0.5) -> float:
    """The greatest error of a sine mode after a time in which it falls to a third, the step going with the square of the distance."""
    dx, rate = 1 / cells, 5 * np.pi**2
    step = share * dx**2 / 4
    steps = round(1 / rate / step)
    found = grid(run_stage(Heat(diffusivity=1.0, dx=dx, steps=steps, time_step=step), {"cells": plate(mode(cells, 1, 2))})[""])
    return float(abs(found - mode(cells, 1, 2) * np.exp(-rate * steps * step)).max())


def test_a_sine__decays_as_its_closed_form_with_the_second_order() -> None:
    errors = [error(cells) for cells in (10, 20, 40)]
    assert errors[2] < 1e-3
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx([2, 2], abs=0.15)


@pytest.mark.parametrize("rim", ["fixed", "insulated", "periodic"])
def test_strips_parts_and_the_order_of_cells__give_the_same_bits(rim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Heat(diffusivity=1.0, dx=0.5, steps=50, save_every=20, rim=rim)
    expected = run_stage(stage, {"cells": CELLS})
    assert expected[""]["time"].unique().sort().to_list() == pytest.approx([at * stage.step for at in (0, 20, 40, 50)])
    monkeypatch.setattr(_strips, "LEAST_CELLS", 100)
    several = Session()
    several.threads = 2
    for parts in (1, 7):
        found = run_parts(stage, {"cells": cut(shuffled(CELLS), even_sizes(CELLS.height, parts))}, several)
        assert len(found[""]) == 2 * 4
        assert_frame_equal(pl.concat([part.frame for part in found[""]]), expected[""], check_exact=True)
        assert_frame_equal(found["summary"][0].frame, expected["summary"], check_exact=True)


def test_what_is_in_the_plate__stays_where_nothing_flows_out() -> None:
    for rim in ("insulated", "periodic"):
        summary = run_stage(Heat(diffusivity=1.0, dx=0.5, steps=400, rim=rim), {"cells": CELLS})["summary"]
        assert summary["mean"].to_list() == pytest.approx([VALUES.mean()] * 2, rel=1e-13)
        assert summary["greatest"][1] - summary["least"][1] < 0.2 * (summary["greatest"][0] - summary["least"][0])
    last = grid(run_stage(Heat(diffusivity=1.0, dx=0.5, steps=40), {"cells": CELLS})[""])
    np.testing.assert_array_equal(last[[0, -1]], VALUES[[0, -1]])
    np.testing.assert_array_equal(last[:, [0, -1]], VALUES[:, [0, -1]])


def test_a_step_that_is_not_stable__is_refused_with_the_largest_one() -> None:
    with pytest.raises(StageError, match=r"a step of 0\.0626 is not stable.* The largest stable one is 0\.0625"):
        plan_stage(Heat(diffusivity=1.0, dx=0.5, steps=1, time_step=0.0626), {"cells": CELLS})
    found = grid(run_stage(Heat(diffusivity=1.0, dx=0.5, steps=2000, time_step=0.0625), {"cells": CELLS})[""])
    assert VALUES.min() <= found.min() <= found.max() <= VALUES.max()


def test_a_grid_that_is_not_whole__is_refused() -> None:
    stage = Heat(diffusivity=1.0, dx=1.0, steps=1)
    for cells, text in (
        (CELLS.filter((pl.col("x") != 0) | (pl.col("y") != 9)), "519 cells, and a grid of x -4 to 8 and y 7 to 46 has 520"),
        (CELLS.with_columns(x=pl.when((pl.col("x") != 0) | (pl.col("y") != 9)).then("x").otherwise(1)), "no cell at x 0, y 9"),
        (CELLS.with_columns(y=pl.when(pl.col("x") != 3).then("y")), "a cell has no place: x 3, y None"),
        (
            CELLS.with_columns(temperature=pl.when(pl.col("x") != 3).then("temperature")),
            "a value is missing: column 'temperature', x 3, y 7",
        ),
        (CELLS.clear(), "the grid has no cells"),
    ):
        with pytest.raises(DataError, match=text):
            run_stage(stage, {"cells": cells}, 3)
    with pytest.raises(StageError, match="'x' is Float64: places on a grid are whole numbers"):
        plan_stage(stage, {"cells": CELLS.cast({"x": pl.Float64})})
    with pytest.raises(StageError, match="no column 'temperature'"):
        plan_stage(stage, {"cells": CELLS.rename({"temperature": "t"})})
