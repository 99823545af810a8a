"""Makes the traffic job's inputs: a reading of each sensor every five minutes for eight weeks, the holidays, and what was sown in.

    python data/make_traffic.py --readings 200000 --out DIR [--seed 20261122] [--files 8]

More readings are more sensors; a file has all weeks of some of them, in the order of time. Commuters, weekends, holidays, rain, incidents,
crowds, gaps and stuck sensors are in the readings; data/README.md says how. Memory is bounded by one file: ask for more beyond 20 million.
"""

from __future__ import annotations

import argparse
import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]
Row = tuple[int, str, datetime.datetime, datetime.datetime]

FIRST_DAY, DAYS = datetime.date(2026, 3, 9), 56  # a Monday
EVERY = 300  # seconds from reading to reading
A_DAY = 86_400 // EVERY
STEPS = DAYS * A_DAY
HOLIDAYS = {datetime.date(2026, 4, 3): "Good Friday", datetime.date(2026, 4, 6): "Easter Monday", datetime.date(2026, 5, 1): "Labour Day"}
FRIDAY, SATURDAY, SUNDAY = 4, 5, 6
FIRST_SENSOR = 1_001
LOST = 0.01  # of the readings, besides those of gaps
FADES, WANDERS = 0.985, 0.11  # what is left of an excursion after five minutes, and how far traffic wanders from the usual


@dataclass(frozen=True)
class Kind:
    """What is sown: how often a sensor has it in eight weeks, for how many readings, and at which hours it begins."""

    often: float
    length: tuple[int, int]
    hours: tuple[int, int]
    cars: float = 1.0  # times as many as else
    speed: float = 1.0


KINDS = {
    "incident": Kind(3.0, (12, 30), (6, 18), 0.3, 0.4),
    "crowd": Kind(1.0, (18, 30), (10, 19), 2.0, 0.8),
    "gap": Kind(1.5, (20, 90), (0, 16)),
    "stuck": Kind(1.0, (36, 96), (0, 15)),
}


def usual_days(morning: float, evening: float) -> Floats:
    """Traffic of each step, about 1 in a common rush hour: commuters on working days, fewer and later people on others, and on holidays."""
    days = [FIRST_DAY + datetime.timedelta(days=number) for number in range(DAYS)]
    kind = np.repeat([SUNDAY if day in HOLIDAYS else day.weekday() for day in days], A_DAY)
    hours = np.tile(np.arange(A_DAY) * EVERY / 3_600, DAYS)

    def hill(centre: npt.ArrayLike, wide: float) -> Floats:
        rise: Floats = np.exp(-0.5 * ((hours - np.asarray(centre)) / wide) ** 2)
        return rise

    working = 0.05 + 0.45 * hill(13, 4.2) + morning * hill(7.9, 0.9) + evening * hill(np.where(kind == FRIDAY, 16.2, 17.2), 1.2)
    free = 0.06 + 0.6 * hill(14.5, 3.6)
    return np.where(kind < SATURDAY, working, np.where(kind == SATURDAY, free, 0.75 * free))


def rain(rng: np.random.Generator) -> Floats:
    """Share of the traffic that stays on the roads of all sensors: less in some hours of rain."""
    left = np.ones(STEPS)
    for first in rng.integers(0, STEPS, DAYS // 3):
        left[first : first + int(rng.integers(24, 96))] = rng.uniform(0.82, 0.93)
    return left


def wandering(sensors: int, rng: np.random.Generator) -> Floats:
    """Excursions from what is usual, `[steps, sensors]` about 0, that fade over an hour or so."""
    pushes = rng.normal(0, WANDERS * np.sqrt(1 - FADES**2), (STEPS, sensors))
    pushes[0] /= np.sqrt(1 - FADES**2)
    for step in range(1, STEPS):
        pushes[step] += FADES * pushes[step - 1]
    return pushes


def places(rng: np.random.Generator) -> list[tuple[str, slice]]:
    """What is sown into one sensor, each on days of its own."""
    counts = {name: int(rng.poisson(kind.often)) for name, kind in KINDS.items()}
    days = iter(rng.permutation(DAYS).tolist())
    found = []
    for name, count in counts.items():
        kind = KINDS[name]
        for _ in range(count):
            first = next(days) * A_DAY + int(rng.integers(kind.hours[0] * 12, kind.hours[1] * 12))
            found.append((name, slice(first, first + int(rng.integers(*kind.length)))))
    return found


def make_sensors(numbers: range, weather: Floats, rng: np.random.Generator) -> tuple[pl.DataFrame, list[Row]]:
    """The readings of some sensors in the order of time, and what was sown into them: sensor, kind, and its first and last reading."""
    count = len(numbers)
    height, free = rng.uniform(25, 140, count), rng.uniform(60, 115, count)  # cars in five minutes, km/h
    usual = np.stack([usual_days(*rng.uniform(0.15, 0.75, 2)) for _ in numbers], axis=1)
    load = usual * weather[:, None] * np.exp(wandering(count, rng))
    slowness = 0.35 / (1 + np.exp(-(load - 1.1) / 0.12))  # of a road that is full
    sown = [(place, name, where) for place in range(count) for name, where in places(rng)]
    cars, pace = height * load, free * (1 - slowness)
    for place, name, where in sown:
        cars[where, place] *= KINDS[name].cars
        pace[where, place] *= KINDS[name].speed
    counts = rng.poisson(cars * np.exp(rng.normal(0, 0.04, cars.shape))).astype(np.int32)
    speeds = np.clip(pace + rng.normal(0, 6, pace.shape) / np.sqrt(np.maximum(counts, 1)), 3, None).round(1)
    kept = rng.random(cars.shape) >= LOST
    for place, name, where in sown:
        if name == "stuck":
            counts[where, place], speeds[where, place] = max(int(counts[where.start, place]), 1), speeds[where.start, place]
        elif name == "gap":
            kept[where, place] = False
    seconds = (np.arange(STEPS) * EVERY)[:, None] + rng.integers(0, 60, count)
    times = (np.datetime64(FIRST_DAY, "us") + seconds.astype("timedelta64[s]")).astype("datetime64[us]")
    whole = {"time": times, "sensor": np.broadcast_to(np.array(numbers), cars.shape), "speed": speeds, "count": counts}
    readings = pl.DataFrame({name: values[kept] for name, values in whole.items()}).sort("time", "sensor")
    drove = pl.when(pl.col("count") > 0)
    rows = [(numbers[place], name, times[where, place][0].item(), times[where, place][-1].item()) for place, name, where in sown]
    return readings.with_columns(speed=drove.then("speed")), rows


def write_traffic(out: Path, readings: int, seed: int, files: int = 8) -> None:
    """Write `out`/readings, `files` Parquet files, holidays.csv and sown.csv; raises ValueError for fewer sensors than files."""
    sensors = readings // STEPS
    if not 1 <= files <= sensors:
        raise ValueError(
            f"files={files} is not between 1 and {sensors}, the number of sensors that make {readings} readings ({STEPS} each)"
        )
    (out / "readings").mkdir(parents=True, exist_ok=True)
    weather_stream, *streams = np.random.SeedSequence(seed).spawn(files + 1)
    weather = rain(np.random.default_rng(weather_stream))
    edges, sown = (FIRST_SENSOR + np.linspace(0, sensors, files + 1).astype(int)).tolist(), list[Row]()
    for number, stream in enumerate(streams):
        made, rows = make_sensors(range(edges[number], edges[number + 1]), weather, np.random.default_rng(stream))
        made.write_parquet(out / "readings" / f"part-{number:05d}.parquet", compression="zstd", statistics=True, row_group_size=1_048_576)
        sown += rows
    pl.DataFrame({"day": [*HOLIDAYS], "holiday": [*HOLIDAYS.values()]}).write_csv(out / "holidays.csv")
    pl.DataFrame(sown, ["sensor", "kind", "first", "last"], orient="row").sort("sensor", "first").write_csv(out / "sown.csv")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--readings", type=int, required=True, help=f"about how many; a sensor has {STEPS:,}")
    parser.add_argument("--out", type=Path, required=True, help="folder to write readings/, holidays.csv and sown.csv to")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--files", type=int, default=8, help="Parquet files of readings")
    given = parser.parse_args()
    write_traffic(given.out, given.readings, given.seed, given.files)
    for path in sorted(given.out.rglob("*.*")):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
