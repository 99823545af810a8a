"""Bodies that attract one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.kernels.gravity import Motion, moved_on, potentials, run_on, set_out
from pipeline.stage import Context, Outcome, Whole, need_columns, need_numeric
from pipeline.stages.science._matrices import Names, matrix_of
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Array = Any
PLACES, VELOCITIES = ("x", "y", "z"), ("vx", "vy", "vz")
ENERGY = ("time", "kinetic", "potential", "total", "momentum_x", "momentum_y", "momentum_z")
PAIRS = 1_000_000
"""Pairs of bodies of a task's step: fewer are worked sooner than handed out."""
AT_ONCE = 1_000
"""Steps of a task that has all bodies."""
MOST = 200_000
DRIFTS = 1e-2
"""Share of the energy that may be gained or lost without a warning."""


class NBody(Whole, name="n_body", version=1):
    """Let bodies attract one another by gravity, every pair of them, and move them in leapfrog steps (kick, drift, kick).

    A row is a body: its `mass`, where it is (x, y, z) and how fast (vx, vy, vz), in units that fit those of `gravity`. Pairs attract by G
    m1 m2 d / (d^2 + softening^2)^(3/2): softening, as large as bodies are apart in the mean or less, keeps near passes from needing shorter
    steps. The error of a step is of the second order, momentum is conserved, and the energy swings about its value; the metrics say by how
    much at most. Above 1,400 bodies blocks of them are worked side by side. The result is the same to the last bit however they are
    divided.

    A row a time and body, by the `key`: at the start, every `save_every` steps and at the end. NAME.energy has a line a time: kinetic,
    potential and total energy, and momentum.

    Example: {use: n_body, from: planets, as: orbits, key: name, gravity: 39.478, time_step: 0.001, steps: 2000, save_every: 20}
    """

    roles = ("bodies",)

    key: Names = Field((), description="Columns that name the bodies.")
    gravity: float = Field(
        6.6743e-11, gt=0, allow_inf_nan=False, description="G; 6.6743e-11 in m3 / (kg s2), 39.478 in au, years and suns."
    )
    time_step: float = Field(gt=0, allow_inf_nan=False, description="Time of a step.")
    steps: int = Field(ge=1, le=100_000_000, description="Number of steps.")
    softening: float = Field(0.0, ge=0, allow_inf_nan=False, description="Length below which gravity grows no more.")
    save_every: int | None = Field(None, ge=1, description="Steps between the times that are kept; the first and last alone if not given.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Bodies and energies. Raises StageError for columns that cannot be used."""
        schema, numbers = schemas["bodies"], ("mass", *PLACES, *VELOCITIES)
        need_columns(schema, self.key, key="key")
        need_columns(schema, numbers)
        need_numeric(schema, numbers)
        if taken := {*self.key} & {"time", *numbers}:
            raise StageError(f"column {min(taken)!r} names no body: it is a column of numbers, or of times, itself", key="key")
        own = {"time": pl.Float64(), **{name: schema.columns[name] for name in self.key}, **dict.fromkeys(numbers, pl.Float64())}
        return {"": Schema(pl.Schema(own)), "energy": Schema(pl.Schema(dict.fromkeys(ENERGY, pl.Float64())))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Blocks of bodies, step by step. Waits for their number."""
        session, name = context.session, context.name
        gathered = tables["bodies"].named(name).value()
        bodies = session.submit(self._read, gathered, session.backend, stage=name)
        number = session.value(session.submit(attrgetter("number"), bodies, stage=name))
        most = max(1, min(session.workers * session.threads, number * number // PAIRS))
        edges = [number * at // most for at in range(most + 1)]
        blocks = [slice(low, high) for low, high in pairwise(edges)]
        places = session.submit(attrgetter("places"), bodies, stage=name)
        motions = [session.submit(self._set_out, bodies, block, stage=name) for block in blocks]
        found, energies, done = [], [], 0
        for at in sorted({0, self.steps, *range(0, self.steps, self.save_every or self.steps)}):
            while done < at:
                steps = 1 if most > 1 else min(AT_ONCE, at - done)
                motions, places = self._moved(motions, blocks, bodies, steps, context)
                done += steps
            found.append(session.submit(self._kept, at, bodies, places, *motions, stage=name))
            shares = [session.submit(self._potential, bodies, places, block, stage=name) for block in blocks]
            energies.append(session.submit(self._energy, at, bodies, [*motions], shares, stage=name))
        energy = session.submit(_frame, *energies, stage=name)
        metrics = session.submit(_metrics, bodies, *energies, stage=name)
        warnings = session.submit(_warnings, metrics, stage=name)
        given = {"": Table.of(session, name, found), "energy": Table.of(session, name, [energy])}
        return Outcome(given, metrics=metrics, warnings=warnings)

    def _moved(self, motions: Sequence[Any], blocks: Sequence[slice], bodies: Any, steps: int, context: Context) -> tuple[list[Any], Any]:
        """The motions of all blocks after some steps, and where all bodies are."""
        submit, name = context.session.submit, context.name
        if len(blocks) == 1:
            both = submit(self._run_on, bodies, motions[0], steps, stage=name)
            return [submit(itemgetter(0), both, stage=name)], submit(itemgetter(1), both, stage=name)
        places = submit(_together, *motions, stage=name)
        return [
            submit(self._moved_on, bodies, motion, places, block, stage=name) for motion, block in zip(motions, blocks, strict=True)
        ], places

    def _read(self, part: Part, backend: Backend) -> _Bodies:
        """The bodies in the order of their names. Raises DataError for none, too many, masses below 0, and two at one place."""
        frame = part.frame.select(*self.key, "mass", *PLACES, *VELOCITIES).sort([*self.key, "mass", *PLACES, *VELOCITIES])
        if not 1 <= frame.height <= MOST:
            raise DataError(f"{frame.height:,} bodies; there must be one at least and {MOST:,} at most, as every pair is worked")
        values = matrix_of(Part(frame), ("mass", *PLACES, *VELOCITIES), "cpu", self.key)
        wrong = np.flatnonzero(values[:, 0] < 0)
        if len(wrong):
            raise DataError(f"a mass is below 0: {_which(frame, self.key, int(wrong[0]))}, {values[wrong[0], 0]:g}")
        same = frame.select(pl.struct(*PLACES).is_duplicated()).to_series().arg_true()
        if self.softening == 0 and len(same):
            text = f"two bodies are at one place, one of them {_which(frame, self.key, same[0])}"
            raise DataError(f"{text}: their pull is without limit. Give a softening, or put them together.", key="softening")
        columns = [np.ascontiguousarray(values[:, at]) for at in (slice(0, 1), slice(1, 4), slice(4, 7))]
        mass, places, velocities = (to_device(column, backend) for column in columns)
        return _Bodies(frame.select(self.key), mass[:, 0] * self.gravity, mass[:, 0], places, velocities)

    def _set_out(self, bodies: _Bodies, block: slice) -> Motion:
        return set_out(block.start, bodies.velocities[block], bodies.places, bodies.pull, self.softening, self.time_step)

    def _moved_on(self, bodies: _Bodies, motion: Motion, places: Array, block: slice) -> Motion:
        return moved_on(block.start, motion.half, places, bodies.pull, self.softening, self.time_step)

    def _run_on(self, bodies: _Bodies, motion: Motion, steps: int) -> tuple[Motion, Array]:
        return run_on(motion, steps, bodies.pull, self.softening, self.time_step)

    def _kept(self, at: int, bodies: _Bodies, places: Array, *motions: Motion) -> Part:
        """The rows of a time."""
        velocities = np.concatenate([to_host(motion.velocities) for motion in motions])
        numbers = np.column_stack([to_host(bodies.mass), to_host(places), velocities])
        columns = {name: np.ascontiguousarray(numbers[:, way]) for way, name in enumerate(("mass", *PLACES, *VELOCITIES))}
        names = bodies.names.select(pl.repeat(at * self.time_step, bodies.number, dtype=pl.Float64).alias("time"), pl.all())
        return Part(names.hstack(pl.DataFrame(columns)))

    def _potential(self, bodies: _Bodies, places: Array, block: slice) -> Array:
        """Of each body of a block its share of the potential energy."""
        some = potentials(block.start, block.stop - block.start, places, bodies.pull, self.softening)
        return to_host(some * bodies.mass[block] / 2)

    def _energy(self, at: int, bodies: _Bodies, motions: Sequence[Motion], shares: Sequence[Array]) -> tuple[float, ...]:
        """Time, kinetic, potential and total energy, and momentum."""
        mass, velocities = to_host(bodies.mass), np.concatenate([to_host(motion.velocities) for motion in motions])
        kinetic, potential = float((mass[:, None] * velocities**2).sum() / 2), float(np.concatenate(shares).sum())
        momentum = (mass[:, None] * velocities).sum(axis=0)
        return at * self.time_step, kinetic, potential, kinetic + potential, *map(float, momentum)


@dataclass(frozen=True)
class _Bodies:
    """Names, G m and m `float64[n]`, and places and velocities at the start, `float64[n, 3]`."""

    names: pl.DataFrame
    pull: Array
    mass: Array
    places: Array
    velocities: Array

    @property
    def number(self) -> int:
        """How many."""
        return len(self.mass)


def _which(frame: pl.DataFrame, key: Sequence[str], row: int) -> str:
    return ", ".join(f"{name} {frame[name][row]!r}" for name in key) or f"number {row + 1} by mass"


def _together(*motions: Motion) -> Array:
    """Where all bodies are a step on."""
    return array_module(motions[0].places).concatenate([motion.places for motion in motions])


def _frame(*energies: tuple[float, ...]) -> Part:
    return Part(pl.DataFrame(list(energies), dict.fromkeys(ENERGY, pl.Float64), orient="row"))


def _metrics(bodies: _Bodies, *energies: tuple[float, ...]) -> dict[str, Any]:
    """Bodies, energy, how far it was off its first value at most, and the same of momentum in units of mass times speed."""
    lines = np.array(energies)
    total, momentum = lines[:, 3], lines[:, 4:]
    scale = max(abs(lines[0, 1]), abs(lines[0, 2]), np.finfo(float).tiny)
    speed = float((to_host(bodies.mass)[:, None] * abs(to_host(bodies.velocities))).sum()) or 1.0
    drift = float(abs(momentum - momentum[0]).max()) / speed
    return {
        "bodies": bodies.number,
        "energy": float(total[0]),
        "energy_error": float(abs(total - total[0]).max() / scale),
        "momentum_error": drift,
    }


def _warnings(metrics: Mapping[str, Any]) -> list[str]:
    error = metrics["energy_error"]
    if error <= DRIFTS:
        return []
    text = f"the energy was off by {error:.2g} of the larger of its parts: bodies passed one another too fast for time_step"
    return [f"{text}. Lower it, or give a softening"]
