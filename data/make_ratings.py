"""Makes the recommendation job's inputs: films, and who watched which of them when and how often.

    python data/make_ratings.py --people 1500 --films 400 --out DIR [--seed 20261122]

People have tastes, films a kind and a year; what is watched on a day is there by then, fits the taste, or is what everybody watches.
Gaps and repeats are sown in on purpose; data/README.md lists them.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

KINDS = np.array(["animation", "comedy", "crime", "documentary", "drama", "family", "horror", "romance", "science fiction", "thriller"])
FIRST_DAY, DAYS = datetime.date(2024, 1, 1), 730
OLD = 0.7  # of the films are there on the first day
FEWEST, MEAN = 1, 22  # films of a person


def make_films(films: int, rng: np.random.Generator) -> pl.DataFrame:
    """Films with a title, a kind and the day on which they came out, the day before the first for most."""
    came = np.where(rng.random(films) < OLD, -1, rng.integers(0, DAYS - 60, films))
    days = (np.datetime64(FIRST_DAY) + came).astype("datetime64[D]")
    return pl.DataFrame({"film": [f"film-{number:04d}" for number in range(films)], "kind": rng.choice(KINDS, films), "released": days})


def make_views(films: pl.DataFrame, people: int, rng: np.random.Generator) -> pl.DataFrame:
    """What was watched: person, film, day and plays, in the order of the days."""
    kinds = np.searchsorted(KINDS, films["kind"].to_numpy())
    came = (films["released"].to_numpy() - np.datetime64(FIRST_DAY)).astype(np.int64)
    known = rng.pareto(1.6, films.height) + 0.05
    rows = []
    for person in range(people):
        taste = rng.dirichlet(np.full(len(KINDS), 0.15))
        count = min(FEWEST + int(rng.gamma(1.2, (MEAN - FEWEST) / 1.2)), films.height // 2)
        joined = int(rng.integers(-200, DAYS - 30))
        days = np.sort(rng.integers(max(joined, 0), DAYS, count))
        wish = known * (0.01 + taste[kinds])
        seen = np.zeros(films.height, bool)
        for day in days:
            chance = np.where(came < day, wish * np.where(seen, 0.02, 1.0), 0.0)
            film = int(rng.choice(films.height, p=chance / chance.sum()))
            seen[film] = True
            rows.append((person, film, int(day), 1 + int(rng.poisson(0.3))))
    order = sorted(rows, key=lambda row: row[2])
    who, what, when, plays = (np.array(column) for column in zip(*order, strict=True))
    return pl.DataFrame(
        {
            "person": pl.Series(who + 100_001),
            "film": films["film"].gather(what),
            "day": (np.datetime64(FIRST_DAY) + when).astype("datetime64[D]"),
            "plays": pl.Series(plays.astype(np.int32)),
        }
    )


def sown(views: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The rows with what is wrong on purpose: 0.5 % without a person, 1 % without plays, and 1 % that were begun and not watched."""
    draw = [pl.Series(rng.random(views.height)) for _ in range(2)]
    plays = pl.when(draw[1] < 0.01).then(None).when(draw[1] < 0.02).then(0).otherwise("plays")
    return views.with_columns(person=pl.when(draw[0] >= 0.005).then("person"), plays=plays.cast(pl.Int32))


def write_ratings(out: Path, people: int, films: int, seed: int) -> None:
    """Write `out`/films.parquet and `out`/views.parquet; raises ValueError for fewer than 20 films."""
    if films < 20:
        raise ValueError(f"films={films} are too few to have tastes; 20 at least")
    rng = np.random.default_rng(seed)
    catalogue = make_films(films, rng)
    out.mkdir(parents=True, exist_ok=True)
    catalogue.write_parquet(out / "films.parquet", compression="zstd")
    sown(make_views(catalogue, people, rng), rng).write_parquet(out / "views.parquet", compression="zstd", row_group_size=8_192)


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--people", type=int, required=True, help="number of people")
    parser.add_argument("--films", type=int, required=True, help="number of films")
    parser.add_argument("--out", type=Path, required=True, help="folder to write films.parquet and views.parquet to")
    parser.add_argument("--seed", type=int, default=20261122)
    given = parser.parse_args()
    write_ratings(given.out, given.people, given.films, given.seed)
    for path in sorted(given.out.glob("*.parquet")):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
