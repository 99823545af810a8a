"""A portfolio's risk by Monte Carlo beside NumPy by hand, whole processes: python benchmarks/risk.py [--paths N] [--runs N] [--data DIR].

Both read the same tables and write the same measures at three levels: of Brownian motions, alone and on two workers; and of a tenth of the
paths with Heston's model in ten steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, beside, python, write_result

JOB = """
job: risk
seed: 1
results: {folder}/ours
inputs:
  assets: {{format: csv, path: {data}/assets.csv}}
  correlations: {{format: csv, path: {data}/correlations.csv}}
  positions: {{format: csv, path: {data}/positions.csv}}
stages:
  - {{use: select, from: assets, as: moving, columns: [{columns}]}}
  - use: portfolio_risk
    from: {{positions: positions, assets: moving, correlations: correlations}}
    as: risk
    paths: {paths}
    levels: [0.95, 0.99, 0.999]
    horizon_days: 10
    steps_per_day: 1
    rate: 0.02
outputs:
  risk: {{from: risk}}
"""
PLAIN = "asset, spot, drift, volatility, dividend_yield"
HESTON = f"{PLAIN}, mean_reversion, long_variance, volatility_of_variance, spot_variance_correlation"


def job(folder: Path, data: Path, paths: int, columns: str) -> Path:
    """The job file of so many paths."""
    file = folder / f"risk_{paths}.yaml"
    file.write_text(JOB.format(folder=folder, data=data, paths=paths, columns=columns), encoding="utf-8")
    return file


def theirs(folder: Path, data: Path, paths: int, *more: str) -> list[str]:
    """The program by hand."""
    arguments = ("--data", str(data), "--paths", str(paths), "--out", str(folder / "theirs.csv"))
    return python("benchmarks/peers/risk_numpy.py", *arguments, *more)


def main() -> None:
    """Time both and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--paths", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "risk")
    given = parser.parse_args()
    few = given.paths // 10
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plain, heston = theirs(folder, given.data, given.paths), theirs(folder, given.data, few, "--heston")
        rows = beside(f"{given.paths:,} paths", job(folder, given.data, given.paths, PLAIN), (), ("NumPy", plain), given.runs)
        rows += beside(f"{few:,} paths, Heston", job(folder, given.data, few, HESTON), (), ("NumPy", heston), given.runs)
    write_result("risk", rows)


if __name__ == "__main__":
    main()
