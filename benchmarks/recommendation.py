"""jobs/recommend.yaml beside implicit by hand: python benchmarks/recommendation.py [--people N] [--films N] [--runs N].

Both go from the same views to lists of ten films for everybody and how many of the last two are found. Whole processes in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, beside, python, write_result


def main() -> None:
    """Make the views, time both and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--films", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = ("--people", str(given.people), "--films", str(given.films), "--out", str(folder))
        subprocess.run(python("data/make_ratings.py", *made), cwd=ROOT, check=True)
        files = {name: folder / f"{name}.parquet" for name in ("views", "films")}
        told = [word for name, path in files.items() for word in (f"--{name}", str(path))]
        theirs = python("benchmarks/peers/recommendation_implicit.py", *told, "--out", str(folder / "theirs"))
        theirs = ["env", "OPENBLAS_NUM_THREADS=1", *theirs]  # as implicit advises: it has threads of its own
        work, sets = f"{given.people:,} people, {given.films:,} films", [f"inputs.{at}.path={path}" for at, path in files.items()]
        sets.append(f"results={folder / 'ours'}")
        rows = beside(work, ROOT / "jobs" / "recommend.yaml", sets, ("implicit", theirs), given.runs)
    write_result("recommendation", rows)


if __name__ == "__main__":
    main()
