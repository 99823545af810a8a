"""Makes the market job's inputs: shares with their sectors, and what they cost at the end of each day.

    python data/make_market.py --shares 30 --days 1250 --out DIR [--seed 20261122]

Days have calm and wild times (GARCH), shares move with the market and by themselves, with fat tails; after a day of much trade a part of
what a share moved against the market is taken back on the next. Faults are sown in on purpose; data/README.md lists them.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

SECTORS = ["banks", "energy", "health", "retail", "software"]
FIRST = datetime.date(2020, 1, 2)
TAKEN_BACK = 0.35  # of a move against the market, after a day of much trade
MUCH = 1.4  # times the usual trade
MISSING, ZERO, TWICE = 0.002, 0.0006, 0.0008


def clustered(days: int, spread: float, rng: np.random.Generator) -> Floats:
    """Returns whose variance depends on the day before (GARCH 1, 1), with fat tails."""
    draws, variance, found = rng.standard_t(5, days) / np.sqrt(5 / 3), spread**2, np.empty(days)
    for day in range(days):
        found[day] = np.sqrt(variance) * draws[day]
        variance = 0.04 * spread**2 + 0.08 * found[day] ** 2 + 0.88 * variance
    return found


def trading_days(days: int) -> list[datetime.date]:
    """So many days from the first on, without weekends."""
    found = [FIRST + datetime.timedelta(days=number) for number in range(days * 7 // 5 + 7)]
    return [day for day in found if day.weekday() < 5][:days]


def make_prices(shares: pl.DataFrame, days: int, rng: np.random.Generator) -> pl.DataFrame:
    """Share, day, close and volume: every day of every share."""
    market = 0.0003 + clustered(days, 0.009, rng)
    tables = []
    for name in shares["share"]:
        own, beta, usual = clustered(days, rng.uniform(0.010, 0.018), rng), rng.uniform(0.6, 1.5), rng.lognormal(13, 1)
        trade = np.exp(rng.normal(0, 0.35, days) + 12 * np.abs(own))
        for day in range(1, days):
            own[day] -= TAKEN_BACK * own[day - 1] * (trade[day - 1] > MUCH)
        close = rng.uniform(10, 300) * np.exp(np.cumsum(beta * market + own))
        volume = (usual * trade).astype(np.int64)
        tables.append(pl.DataFrame({"share": name, "day": trading_days(days), "close": np.round(close, 2), "volume": volume}))
    return pl.concat(tables)


def with_faults(prices: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Some rows are missing, some have a price of 0, some are there twice; all in the order of the days."""
    prices = prices.filter(pl.Series(rng.random(prices.height) >= MISSING))
    nothing = pl.Series(rng.random(prices.height) < ZERO)
    prices = prices.with_columns(close=pl.when(nothing).then(0.0).otherwise("close"))
    again = prices.filter(pl.Series(rng.random(prices.height) < TWICE))
    return pl.concat([prices, again]).sort("day", "share", maintain_order=True)


def main() -> None:
    """Write shares.parquet and prices.parquet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", type=int, required=True, help="how many shares")
    parser.add_argument("--days", type=int, required=True, help="how many days of trade")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--seed", type=int, default=20261122)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    names = [f"share-{number:03d}" for number in range(given.shares)]
    shares = pl.DataFrame({"share": names, "sector": [SECTORS[number % len(SECTORS)] for number in range(given.shares)]})
    given.out.mkdir(parents=True, exist_ok=True)
    shares.write_parquet(given.out / "shares.parquet")
    with_faults(make_prices(shares, given.days, rng), rng).write_parquet(given.out / "prices.parquet")


if __name__ == "__main__":
    main()
