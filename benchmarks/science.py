"""The jobs of docs/science.md beside what a user would pick instead, in turn: python benchmarks/science.py [--only NAME ...] [--runs N].

Each is a program of its own (risk, text, images, matrix with the simulations, recommendation, align) and writes its own result file; this
one runs them, and prints a row a work: ours, the peer's, and our time as a multiple of the peer's. align wants minimap2, samtools and
bcftools.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import RESULTS, ROOT, python

PROGRAMS = ("risk", "text", "images", "matrix", "recommendation", "align")


def main() -> None:
    """Run the programs, and print what they wrote."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    failed = []
    for name in given.only:
        if subprocess.run(python(f"benchmarks/{name}.py", "--runs", str(given.runs)), cwd=ROOT, check=False).returncode:
            failed.append(name)
            continue
        newest = max(RESULTS.glob(f"{name}-2*.json"))
        for row in json.loads(newest.read_text(encoding="utf-8"))["rows"]:
            ours, theirs = statistics.median(row["ours_s"]), statistics.median(row["peer_s"])
            print(f"| {row['work']} | {ours:.1f} s | {row['peer']} {theirs:.1f} s | {ours / theirs:.2f} |", flush=True)
    if failed:
        raise SystemExit(f"{', '.join(failed)} did not end well; see above")


if __name__ == "__main__":
    main()
