"""How long a user waits: python benchmarks/startup.py [--only WORK] [--runs N].

Works: help, check (of the genomics job), one_filter (on a file of a thousand rows) and genomics (the shipped job, whole process, its peak
memory too), each beside the limit that we hold ourselves to on two cores: 0.3 s, 1 s, 0.6 s, 15 s and 1,000 MB. Bytecode is made by the
run that does not count. And first: the shipped job where no kernel is compiled yet, in turn with the same whose process compiles them alone
(as it does where its memory is stated).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import compare, python, timed, write_result
from benchmarks.table_works import WORKS, make_rows

LIMITS_S = {"help": 0.3, "check": 1.0, "one_filter": 0.6, "genomics": 15.0}
LIMIT_MB = 1_000
FIRST = "first"


def measured(work: str, runs: int, scratch: Path) -> dict[str, Any]:
    """Wall seconds and peak memory of one work, after one run that does not count."""
    job = ["-m", "pipeline.run", "jobs/genomics.yaml"]
    fresh = ["--fresh", "--out", str(scratch / "results")]
    commands = {
        "help": python("-m", "pipeline.run", "--help"),
        "check": python(*job, "--check"),
        "one_filter": WORKS["one_filter"].our_command(scratch / "rows", scratch / "kept"),
        "genomics": python(*job, *fresh),
    }
    if work == "one_filter":
        make_rows(scratch / "rows", 1_000)
    command = commands[work]
    timed(command)
    found = [timed(command) for _ in range(runs)]
    seconds, peaks = [round(run.seconds, 3) for run in found], [round(run.peak_mb) for run in found]
    processors = [round(run.cpu_seconds, 3) for run in found]
    median = statistics.median(seconds)
    told = (
        f"{median:.3f} s ({min(seconds)} to {max(seconds)}; {statistics.median(processors):.3f} s of processors), {max(peaks)} MB at most"
    )
    print(f"{work}: {told}; limit {LIMITS_S[work]} s, {LIMIT_MB} MB")
    ratio = round(LIMITS_S[work] / median, 3)
    row = {"work": work, "ours_s": seconds, "peer": "limit", "peer_s": [LIMITS_S[work]], "ratio": ratio}
    return {**row, "ours_cpu_s": processors, "ours_peak_mb": peaks, "limit_mb": LIMIT_MB}


def first(runs: int, scratch: Path) -> dict[str, Any]:
    """The shipped job with no kernel that is kept, by the processes that help it and by its own alone."""
    job = python("-m", "pipeline.run", "jobs/genomics.yaml", "--fresh", "--out", str(scratch / "results"))
    empty = ["sh", "-c", f'NUMBA_CACHE_DIR=$(mktemp -d "{scratch}/kernels-XXXXXX") exec "$@"', "sh"]
    row = compare(FIRST, [*empty, *job], "one process", [*empty, *job, "--set", "cluster={kind: local, memory_limit: 8GB}"], runs)
    print(f"{FIRST}: {row['ours_s']} s, alone {row['peer_s']} s, {1 / row['ratio']:.2f} of it")
    return row


def main() -> None:
    """Run the works asked for and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=[*LIMITS_S, FIRST], help="one work alone")
    options.add_argument("--runs", type=int, default=7, help="counted runs")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        asked = [chosen.only] if chosen.only else [*LIMITS_S, FIRST]
        rows = [first(chosen.runs, Path(scratch)) if work == FIRST else measured(work, chosen.runs, Path(scratch)) for work in asked]
    write_result("startup", rows)


if __name__ == "__main__":
    main()
