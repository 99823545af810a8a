"""Value at risk by Monte Carlo as a good NumPy programmer writes it by hand: blocks of paths, all losses kept, sorted in part at the end.

python benchmarks/peers/risk_numpy.py --data data/risk --paths 1000000 --out FILE.csv [--heston]

Geometric Brownian motions that a Gaussian copula ties together, over ten days, and Black and Scholes for the options; with --heston the
assets that have Heston's model move by it, in a full-truncation Euler step a day. Writes value at risk and expected shortfall.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtr

DAYS, A_YEAR, RATE, LEVELS, BLOCK = 10, 252, 0.02, (0.95, 0.99, 0.999), 50_000


def option_value(price: Any, row: dict[str, Any], dividends: float, years: float) -> Any:
    """Black and Scholes, of a call or a put with so many years left."""
    sign, spread = (1.0 if row["kind"] == "call" else -1.0), row["implied_volatility"] * np.sqrt(years)
    d1 = (np.log(price / row["strike"]) + (RATE - dividends + row["implied_volatility"] ** 2 / 2) * years) / spread
    own, strike = price * np.exp(-dividends * years), row["strike"] * np.exp(-RATE * years)
    return sign * (own * ndtr(sign * d1) - strike * ndtr(sign * (d1 - spread)))


def prices_of(assets: pl.DataFrame, factor: Any, rng: np.random.Generator, heston: bool, paths: int) -> Any:
    """Prices at the horizon `float64[paths, assets]`."""
    spot, drift, volatility = (assets[name].to_numpy() for name in ("spot", "drift", "volatility"))
    if not heston:
        years = DAYS / A_YEAR
        moves = rng.standard_normal((paths, len(spot))) @ factor.T
        return spot * np.exp((drift - volatility**2 / 2) * years + volatility * np.sqrt(years) * moves)
    names = ("mean_reversion", "long_variance", "volatility_of_variance", "spot_variance_correlation")
    back, level, spread, tied = (assets[name].fill_null(0.0).to_numpy() for name in names)
    years, variance, logs = 1 / A_YEAR, np.tile(volatility**2, (paths, 1)), np.tile(np.log(spot), (paths, 1))
    for _ in range(DAYS):
        moves, own = rng.standard_normal((paths, len(spot))) @ factor.T, rng.standard_normal((paths, len(spot)))
        held = np.maximum(variance, 0)
        root = np.sqrt(held * years)
        logs += (drift - held / 2) * years + root * moves
        variance += back * (level - held) * years + spread * root * (tied * moves + np.sqrt(1 - tied**2) * own)
    return np.exp(logs)


def main() -> None:
    """Simulate and write the measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--paths", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--heston", action="store_true")
    given = parser.parse_args()
    assets, positions = pl.read_csv(given.data / "assets.csv"), pl.read_csv(given.data / "positions.csv")
    place = {name: at for at, name in enumerate(assets["asset"])}
    matrix = np.eye(len(place))
    for one, other, value in pl.read_csv(given.data / "correlations.csv").iter_rows():
        matrix[place[one], place[other]] = matrix[place[other], place[one]] = value
    factor, rng, losses = np.linalg.cholesky(matrix), np.random.default_rng(1), np.empty(given.paths)
    for start in range(0, given.paths, BLOCK):
        prices = prices_of(assets, factor, rng, given.heston, min(BLOCK, given.paths - start))
        total = np.zeros(len(prices))
        for row in positions.iter_rows(named=True):
            at = place[row["asset"]]
            now, then = assets["spot"][at], prices[:, at]
            if row["kind"] != "share":
                dividends = assets["dividend_yield"][at]
                now = option_value(now, row, dividends, row["expiry_years"])
                then = option_value(then, row, dividends, row["expiry_years"] - DAYS / A_YEAR)
            total += row["quantity"] * (now - then)
        losses[start : start + len(total)] = total
    found = []
    for level in LEVELS:
        kth = int(np.ceil(level * given.paths)) - 1
        losses.partition(kth)
        found.append((level, losses[kth], losses[kth:].mean()))
    pl.DataFrame(found, schema=["level", "value_at_risk", "expected_shortfall"], orient="row").write_csv(given.out)


if __name__ == "__main__":
    main()
