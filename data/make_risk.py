"""Makes the risk job's inputs: assets with their models, their correlations, and a portfolio of shares and options.

    python data/make_risk.py --assets 12 --positions 30 --out DIR [--seed 20261123]

Assets move with one market and with their sector; every third one has a variance that moves (Heston's model). data/README.md says more.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

SECTORS = ["banks", "energy", "health", "software"]
HESTON_EVERY = 3


def make_assets(count: int, rng: np.random.Generator) -> pl.DataFrame:
    """A row an asset; the columns of Heston's model are empty for two of three."""
    volatility = np.round(rng.uniform(0.15, 0.45, count), 3)
    moves = np.arange(count) % HESTON_EVERY == HESTON_EVERY - 1

    def of_heston(values: np.ndarray) -> pl.Series:
        return pl.Series([float(value) if move else None for value, move in zip(np.round(values, 4), moves, strict=True)], dtype=pl.Float64)

    return pl.DataFrame(
        {
            "asset": [f"{SECTORS[at % len(SECTORS)]}-{at // len(SECTORS) + 1}" for at in range(count)],
            "sector": [SECTORS[at % len(SECTORS)] for at in range(count)],
            "spot": np.round(rng.uniform(20, 300, count), 2),
            "drift": np.round(rng.uniform(0.0, 0.08, count), 3),
            "volatility": volatility,
            "dividend_yield": np.round(rng.uniform(0.0, 0.03, count), 3),
            "mean_reversion": of_heston(rng.uniform(1.5, 4.0, count)),
            "long_variance": of_heston(volatility**2 * rng.uniform(0.8, 1.2, count)),
            "volatility_of_variance": of_heston(volatility * rng.uniform(0.8, 1.4, count)),
            "spot_variance_correlation": of_heston(rng.uniform(-0.8, -0.4, count)),
        }
    )


def make_correlations(assets: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """A row a pair of assets: of a model of one market and of sectors, so all of them go together."""
    market, sector = rng.uniform(0.45, 0.7, assets.height), rng.uniform(0.2, 0.45, assets.height)
    names, sectors = assets["asset"].to_list(), assets["sector"].to_list()
    rows = [
        (names[one], names[two], round(market[one] * market[two] + (sectors[one] == sectors[two]) * sector[one] * sector[two], 4))
        for one in range(len(names))
        for two in range(one + 1, len(names))
    ]
    return pl.DataFrame(rows, schema=["asset", "other", "correlation"], orient="row")


def make_positions(assets: pl.DataFrame, count: int, rng: np.random.Generator) -> pl.DataFrame:
    """A row a position: shares of all assets first, then calls and puts, of which half are written."""
    rows = list[tuple[str | float | None, ...]]()
    for at in range(count):
        asset = assets.row(at % assets.height, named=True)
        if at < assets.height:
            rows.append((f"P{at + 1:03}", asset["asset"], "share", float(round(rng.uniform(2e5, 8e5) / asset["spot"])), None, None, None))
            continue
        kind, sign = rng.choice(["call", "put"]).item(), rng.choice([1, -1]).item()
        strike, months = round(asset["spot"] * rng.uniform(0.85, 1.15)), rng.choice([2, 3, 6, 12]).item()
        implied = round(asset["volatility"] * rng.uniform(0.95, 1.15), 3)
        quantity = float(sign * round(rng.uniform(1e5, 5e5) / asset["spot"]))
        rows.append((f"P{at + 1:03}", asset["asset"], kind, quantity, float(strike), round(months / 12, 4), implied))
    columns = ["position", "asset", "kind", "quantity", "strike", "expiry_years", "implied_volatility"]
    return pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)


def write_risk(out: Path, assets: int, positions: int, seed: int) -> None:
    """Write assets.csv, correlations.csv and positions.csv; ValueError for fewer than three assets, or no more positions than assets."""
    if assets < HESTON_EVERY or positions <= assets:
        raise ValueError(f"{assets} assets and {positions} positions: {HESTON_EVERY} assets at least, and more positions than assets")
    rng = np.random.default_rng(seed)
    table = make_assets(assets, rng)
    out.mkdir(parents=True, exist_ok=True)
    table.write_csv(out / "assets.csv")
    make_correlations(table, rng).write_csv(out / "correlations.csv")
    make_positions(table, positions, rng).write_csv(out / "positions.csv")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--assets", type=int, required=True, help="assets")
    parser.add_argument("--positions", type=int, required=True, help="positions in them")
    parser.add_argument("--out", type=Path, required=True, help="folder to write assets, correlations and positions to")
    parser.add_argument("--seed", type=int, default=20261123)
    given = parser.parse_args()
    write_risk(given.out, given.assets, given.positions, given.seed)
    for path in sorted(given.out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
