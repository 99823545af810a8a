"""Makes the loans job's inputs: a table of loans and 24 monthly performance rows a loan, several Parquet files each.

    python data/make_loans.py --scale 100000 --out DIR [--seed 20261121] [--files 8] [--spread]

File i of `performance` holds the loans of file i of `loans`, in ascending loan_id and month; with `--spread` each performance file
holds a few months of all loans instead (the same rows). Gaps and bad values are sown in on purpose; data/README.md lists them. Memory is
bounded by one file: ask for more files beyond a few million loans.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

MONTHS = 24
ROW_GROUP = 131_072
FIRST_DAY, DAYS = datetime.date(2018, 1, 1), 5 * 365
STATES = np.array(["AZ", "CA", "CO", "FL", "GA", "IL", "IN", "MA", "MD", "MI", "MN", "MO", "NC", "NJ", "NY", "OH", "PA", "TX", "VA", "WA"])
PURPOSES = np.array(
    [
        "purchase",
        "Purchase",
        "PURCHASE",
        "purchase ",
        "purch",
        "refinance",
        "Refinance",
        " refi",
        "REFI",
        "other",
        "Other",
        "home improvement",
    ]
)
PURPOSE_SHARES = np.array([0.25, 0.12, 0.05, 0.05, 0.03, 0.18, 0.09, 0.05, 0.03, 0.08, 0.04, 0.03])
CHANNELS, CHANNEL_SHARES = np.array(["retail", "broker", "correspondent"]), (0.5, 0.2, 0.3)
BAD_DATES = np.array(["", "unknown", "2019-02-30"])


@dataclass
class Vintage:
    """The loans of one file and where each of them stands at the end of the last month made: `unpaid`, `late` (months) and `gone`."""

    loans: pl.DataFrame
    risk: Floats
    unpaid: Floats
    late: npt.NDArray[np.int32]
    gone: npt.NDArray[np.bool_]
    rng: np.random.Generator

    def step(self) -> dict[str, npt.NDArray[np.generic]]:
        """One month on: balance (NaN where it is not known), days_late and rate of every loan."""
        count, rng = len(self.late), self.rng
        draw = rng.random(count)
        fall = 1 / (1 + np.exp(-(self.risk + np.where(self.late > 0, 3.1, 0.0))))
        cure = np.where(self.late > 0, 0.5, 1.0) * (1 - fall)
        self.late = np.where(draw < fall, self.late + 1, np.where(draw > 1 - cure, 0, self.late)).astype(np.int32)
        paid = self.unpaid * rng.uniform(0.0015, 0.006, size=count)
        self.unpaid = np.where(self.late > 0, self.unpaid, self.unpaid - paid)
        self.gone |= rng.random(count) < 0.003
        odd = rng.random(count)
        balance = np.where(self.gone | (odd < 0.01), np.nan, np.where(odd > 0.997, -self.unpaid, self.unpaid))
        early = (self.late == 0) & (rng.random(count) < 0.005)
        rate = self.loans["rate"].to_numpy() + np.where(rng.random(count) < 0.02, 0.25, 0.0)
        return {"balance": balance.round(2), "days_late": np.where(early, -30, 30 * self.late).astype(np.int32), "rate": rate.round(3)}

    def performance(self, first: int, months: int) -> pl.DataFrame:
        """The next `months` months, the first of which is `first`: rows in ascending loan_id and month."""
        steps = [self.step() for _ in range(months)]
        columns = {name: np.stack([step[name] for step in steps], axis=1).ravel() for name in steps[0]}
        ids = np.repeat(self.loans["loan_id"].to_numpy(), months)
        numbers = np.tile(np.arange(first, first + months, dtype=np.int32), len(self.loans))
        return pl.DataFrame({"loan_id": ids, "month": numbers, **columns}, nan_to_null=True)


def sown(values: npt.NDArray[np.generic], share: float, rng: np.random.Generator) -> pl.Series:
    """The values with a `share` of them missing."""
    known = pl.Series(rng.random(len(values)) >= share)
    return pl.select(pl.when(known).then(pl.Series(values))).to_series()


def make_vintage(first_id: int, window: tuple[float, float], count: int, rng: np.random.Generator) -> Vintage:
    """`count` loans of ascending loan_id from `first_id` on, granted in a `window` (shares of the whole period), with their risk."""
    ids = first_id + 2 * np.arange(count, dtype=np.int64) + rng.integers(0, 2, size=count)
    days = (DAYS * rng.uniform(*window, size=count)).astype(np.int64)
    dates = np.where(rng.random(count) < 0.004, rng.choice(BAD_DATES, size=count), (np.datetime64(FIRST_DAY) + days).astype(str))
    score = np.clip(rng.normal(715, 60, size=count), 480, 850).round()
    dti = np.clip(rng.gamma(8, 4.5, size=count), 2, 70)
    ltv = np.clip(rng.normal(76, 14, size=count), 10, 105)
    rate = np.clip(4.5 + (715 - score) / 90 + (ltv - 76) / 60 + rng.normal(0, 0.6, size=count), 1.5, 12)
    amount = np.clip(rng.lognormal(12.3, 0.5, size=count), 20_000, 1_500_000).round(-3)
    channel = rng.choice(CHANNELS, size=count, p=CHANNEL_SHARES)
    known = (715 - score) / 60 * 0.50 + (dti - 36) / 13 * 0.25 + (ltv - 76) / 14 * 0.25 + (channel == "broker") * 0.30
    risk = -4.3 + known + rng.normal(0, 0.5, size=count)
    loans = pl.DataFrame(
        {
            "loan_id": ids,
            "origination_date": sown(dates, 0.003, rng),
            "credit_score": sown(score.astype(np.int32), 0.04, rng),
            "dti": sown(np.where(rng.random(count) < 0.01, -1.0, dti).round(1), 0.03, rng),
            "ltv": ltv.round(1),
            "rate": rate.round(3),
            "amount": amount,
            "state": sown(rng.choice(STATES, size=count), 0.002, rng),
            "purpose": sown(rng.choice(PURPOSES, size=count, p=PURPOSE_SHARES), 0.002, rng),
            "channel": sown(channel, 0.005, rng),
        }
    )
    return Vintage(loans, risk, amount.copy(), np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.bool_), rng)


def make_vintages(scale: int, files: int, seed: int) -> list[Vintage]:
    """One vintage a file; each has a random stream of its own, so that months can be made in any order of vintages."""
    counts = np.diff(np.linspace(0, scale, files + 1).astype(int))
    firsts = 10_000_000 + 2 * np.concatenate([[0], np.cumsum(counts)[:-1]])
    streams = np.random.SeedSequence(seed).spawn(files)
    return [
        make_vintage(int(firsts[i]), (i / files, (i + 1) / files), int(counts[i]), np.random.default_rng(streams[i])) for i in range(files)
    ]


def write(frame: pl.DataFrame, folder: Path, number: int) -> None:
    """Write one Parquet file: zstd, with statistics, in row groups that a reader can share out."""
    folder.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / f"part-{number:05d}.parquet", compression="zstd", statistics=True, row_group_size=ROW_GROUP)


def write_loans(out: Path, scale: int, seed: int, files: int = 8, spread: bool = False) -> None:
    """Write `out`/loans and `out`/performance, `files` Parquet files each; raises ValueError where they cannot be shared out so."""
    most = min(scale, MONTHS) if spread else scale
    if not 1 <= files <= most:
        raise ValueError(f"files={files} is not between 1 and {most}, the number of {'months' if spread else 'loans'} to share out")
    vintages = make_vintages(scale, files, seed)
    for number, vintage in enumerate(vintages):
        write(vintage.loans, out / "loans", number)
        if not spread:
            write(vintage.performance(0, MONTHS), out / "performance", number)
    edges = np.linspace(0, MONTHS, files + 1).astype(int).tolist()
    for number, (first, end) in enumerate(itertools.pairwise(edges) if spread else ()):
        write(pl.concat([vintage.performance(first, end - first) for vintage in vintages]), out / "performance", number)


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=int, required=True, help="number of loans")
    parser.add_argument("--out", type=Path, required=True, help="folder to write loans/ and performance/ to")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--files", type=int, default=8, help="Parquet files of each table")
    parser.add_argument("--spread", action="store_true", help="spread a loan's months over the performance files")
    given = parser.parse_args()
    write_loans(given.out, given.scale, given.seed, given.files, given.spread)
    for folder in (given.out / "loans", given.out / "performance"):
        paths = sorted(folder.glob("*.parquet"))
        print(f"{folder}  {len(paths)} files, {sum(path.stat().st_size for path in paths):,} bytes")


if __name__ == "__main__":
    main()
