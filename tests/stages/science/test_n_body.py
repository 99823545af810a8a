"""n_body."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.integrate import solve_ivp

from pipeline.errors import DataError, StageError
from pipeline.stage import Context
from pipeline.stages.science import n_body
from pipeline.stages.science.n_body import NBody
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import cut, even_sizes, plan_stage, run_parts, run_stage, shuffled

WAYS = ["x", "y", "z"]


def table(mass: list[float], places: np.ndarray, velocities: np.ndarray) -> pl.DataFrame:
    columns = {name: values[:, at] for values, names in ((places, WAYS), (velocities, ["vx", "vy", "vz"])) for at, name in enumerate(names)}
    return pl.DataFrame({"name": [f"b{at:03}" for at in range(len(mass))], "mass": mass, **columns})


def pair(eccentricity: float, ratio: float = 0.25) -> pl.DataFrame:
    """Two bodies of mass 1 together on Kepler's ellipse of half axis 1, at their nearest: G = 1 makes a period of 2 pi."""
    apart, speed = 1 - eccentricity, np.sqrt((1 + eccentricity) / (1 - eccentricity))
    shares = np.array([[-ratio], [1 - ratio]])
    return table([1 - ratio, ratio], shares * [apart, 0, 0], shares * [0, speed * np.cos(0.4), speed * np.sin(0.4)])


RNG = np.random.default_rng(7)
SWARM = table(RNG.uniform(0.5, 1, 40).tolist(), RNG.normal(size=(40, 3)), RNG.normal(0, 0.3, (40, 3)))
STAGE = NBody(key="name", gravity=0.1, time_step=0.01, steps=30, save_every=10, softening=0.2)
EXAMPLES = [
    StageExample(STAGE, {"bodies": SWARM}),
    StageExample(NBody(gravity=1, time_step=0.1, steps=3), {"bodies": pair(0.2).drop("name")}),
]


def kepler(time: float, eccentricity: float) -> np.ndarray:
    """From the first body to the second, by Kepler's equation."""
    anomaly = time
    for _ in range(50):
        anomaly -= (anomaly - eccentricity * np.sin(anomaly) - time) / (1 - eccentricity * np.cos(anomaly))
    x, y = np.cos(anomaly) - eccentricity, np.sqrt(1 - eccentricity**2) * np.sin(anomaly)
    return np.array([x, y * np.cos(0.4), y * np.sin(0.4)])


def orbit_error(steps: int, eccentricity: float = 0.3) -> float:
    """How far the second body is from its ellipse after 5/7 of a period."""
    time = 2 * np.pi * 5 / 7
    found = run_stage(NBody(key="name", gravity=1, time_step=time / steps, steps=steps), {"bodies": pair(eccentricity)})[""]
    first, second = (found.filter((pl.col("time") > 0) & (pl.col("name") == name)).select(WAYS).to_numpy()[0] for name in ("b000", "b001"))
    return float(np.linalg.norm(second - first - kepler(time, eccentricity)))


def test_two_bodies__keep_to_keplers_ellipse_with_the_second_order() -> None:
    errors = [orbit_error(steps) for steps in (200, 400, 800)]
    assert errors[2] < 2e-4
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx([2, 2], abs=0.05)


def test_energy__is_conserved_with_the_second_order_and_momentum_to_rounding() -> None:
    errors = []
    for step in (0.02, 0.01, 0.005):
        session = Session()
        stage = NBody(key="name", gravity=0.1, time_step=step, steps=round(1 / step), save_every=1, softening=0.2)
        outcome = stage.run({"bodies": Table.of(session, "bodies", [Part(SWARM)], schema=Schema(SWARM.schema))}, Context("n", 1, session))
        assert outcome.metrics["momentum_error"] < 1e-14
        assert outcome.warnings == []
        errors.append(outcome.metrics["energy_error"])
        energy = outcome.tables["energy"].futures()[0].frame
        assert energy.height == round(1 / step) + 1
        np.testing.assert_allclose(energy["kinetic"] + energy["potential"], energy["total"], rtol=1e-15)
    assert errors[0] < 1e-3
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([2, 2], abs=0.1)


def test_a_swarm__goes_where_scipys_integrator_sends_it() -> None:
    mass, places, velocities = (SWARM.select(names).to_numpy() for names in (["mass"], WAYS, ["vx", "vy", "vz"]))

    def slope(_time: float, state: np.ndarray) -> np.ndarray:
        at = state[:120].reshape(40, 3)
        apart = at[None] - at[:, None]
        pull = 0.1 * mass[:, 0] / ((apart**2).sum(axis=2) + 0.04) ** 1.5
        return np.concatenate([state[120:], (pull[:, :, None] * apart).sum(axis=1).ravel()])

    known = solve_ivp(slope, (0, 1), np.concatenate([places.ravel(), velocities.ravel()]), rtol=1e-10, atol=1e-12).y[:120, -1]
    found = run_stage(NBody(key="name", gravity=0.1, time_step=0.002, steps=500, softening=0.2), {"bodies": SWARM})[""]
    np.testing.assert_allclose(found.filter(pl.col("time") > 0.5).select(WAYS).to_numpy().ravel(), known, atol=2e-6)


def test_blocks_parts_and_the_order_of_bodies__give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run_stage(STAGE, {"bodies": SWARM})
    assert expected[""].height == 4 * 40
    monkeypatch.setattr(n_body, "PAIRS", 200)
    several = Session()
    several.threads = 3
    found = run_parts(STAGE, {"bodies": cut(shuffled(SWARM), even_sizes(40, 7))}, several)
    assert_frame_equal(pl.concat([part.frame for part in found[""]]), expected[""], check_exact=True)
    assert_frame_equal(found["energy"][0].frame, expected["energy"], check_exact=True)


def test_a_step_too_long__is_told_by_the_energy() -> None:
    session, bodies = Session(), pair(0.9)
    stage = NBody(key="name", gravity=1, time_step=0.1, steps=100, save_every=1)
    outcome = stage.run({"bodies": Table.of(session, "bodies", [Part(bodies)], schema=Schema(bodies.schema))}, Context("n", 1, session))
    assert "the energy was off by" in outcome.warnings[0]


def test_bodies_that_cannot_be__are_refused() -> None:
    for bodies, text in (
        (SWARM.with_columns(mass=pl.when(pl.col("name") == "b007").then(-1.0).otherwise("mass")), "a mass is below 0: name 'b007', -1"),
        (SWARM.with_columns(vx=pl.when(pl.col("name") != "b007").then("vx")), "a value is missing: column 'vx', name 'b007'"),
        (pl.concat([SWARM, SWARM.head(1).with_columns(name=pl.lit("c"))]), "two bodies are at one place, one of them name 'b000'"),
        (SWARM.clear(), "0 bodies; there must be one"),
    ):
        with pytest.raises(DataError, match=text):
            run_stage(NBody(key="name", time_step=1, steps=1), {"bodies": bodies})
    with pytest.raises(StageError, match="no column 'vz'"):
        plan_stage(STAGE, {"bodies": SWARM.drop("vz")})
    with pytest.raises(StageError, match="column 'mass' names no body"):
        plan_stage(NBody(key="mass", time_step=1, steps=1), {"bodies": SWARM})
