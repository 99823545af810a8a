"""How long a user waits: python benchmarks/startup.py [--only WORK] [--runs N].

Works: help, check (of the genomics job) and genomics (the shipped job, whole process, its peak memory too), each beside the limit that
we hold ourselves to on two cores: 0.3 s, 1 s, 15 s and 1,000 MB.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import python, timed, write_result

LIMITS_S = {"help": 0.3, "check": 1.0, "genomics": 15.0}
LIMIT_MB = 1_000


def measured(work: str, runs: int, scratch: Path) -> dict[str, Any]:
    """Wall seconds and peak memory of one work, after one run that does not count."""
    job = ["-m", "pipeline.run", "jobs/genomics.yaml"]
    commands = {
        "help": ["-m", "pipeline.run", "--help"],
        "check": [*job, "--check"],
        "genomics": [*job, "--fresh", "--out", str(scratch / "results")],
    }
    command = python(*commands[work])
    timed(command)
    found = [timed(command) for _ in range(runs)]
    seconds, peaks = [round(run.seconds, 3) for run in found], [round(run.peak_mb) for run in found]
    median = statistics.median(seconds)
    print(f"{work}: {median:.3f} s ({min(seconds)} to {max(seconds)}), {max(peaks)} MB at most; limit {LIMITS_S[work]} s, {LIMIT_MB} MB")
    ratio = round(LIMITS_S[work] / median, 3)
    row = {"work": work, "ours_s": seconds, "peer": "limit", "peer_s": [LIMITS_S[work]], "ratio": ratio}
    return {**row, "ours_peak_mb": peaks, "limit_mb": LIMIT_MB}


def main() -> None:
    """Run the works asked for and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=[*LIMITS_S], help="one work alone")
    options.add_argument("--runs", type=int, default=7, help="counted runs")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = [measured(work, chosen.runs, Path(scratch)) for work in ([chosen.only] if chosen.only else LIMITS_S)]
    write_result("startup", rows)


if __name__ == "__main__":
    main()
