"""What the pipeline costs over a program written by hand: python benchmarks/overhead.py [--only WORK] [--runs N].

Works: loans_100k and loans_1m (lazy Polars and XGBoost by hand), genomics (NumPy and Polars by hand, up to the associations). Whole
processes in turn, start-up included; ours with its record, report and dashboard.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, compare, python, timed, write_result
from benchmarks.shortened import job_of

LOANS = {"loans_100k": 100_000, "loans_1m": 1_000_000}
# The hand-written chain ends with the associations, so ours leaves out the risk model.
MODEL_STAGES = ("divided", "training_people", "screen", "best", "dosages", "features", "risk")


def loans(work: str, runs: int, scratch: Path) -> dict[str, Any]:
    """The loans job at one scale beside the same chain in lazy Polars and XGBoost."""
    data = scratch / work
    timed(python("data/make_loans.py", "--scale", str(LOANS[work]), "--out", str(data)))
    paths = [f"--set=inputs.{name}.path={data}/{name}" for name in ("loans", "performance")]
    job = scratch / "loans.yaml"
    job.write_text(job_of("jobs/loans.yaml", ("features", "predictions", "importance")), encoding="utf-8")
    ours = python("-m", "pipeline.run", str(job), "--fresh", "--out", str(scratch / "ours"), *paths)
    globs = ["--loans", f"{data}/loans/*.parquet", "--performance", f"{data}/performance/*.parquet"]
    peer = python("benchmarks/peers/loans_polars.py", *globs, "--out", str(scratch / "peer"))
    row = compare(work, ours, "hand-written lazy Polars and XGBoost", peer, runs)
    shutil.rmtree(data)
    return row


def genomics(work: str, runs: int, scratch: Path) -> dict[str, Any]:
    """The genomics chain up to the associations beside the same in NumPy."""
    job = scratch / "chain.yaml"
    job.write_text(_chain((ROOT / "jobs/genomics.yaml").read_text(encoding="utf-8"), MODEL_STAGES), encoding="utf-8")
    ours = python("-m", "pipeline.run", str(job), "--fresh", "--out", str(scratch / "ours"))
    data = ["--vcf", "data/genomics/cohort.vcf.gz", "--samples", "data/genomics/samples.csv"]
    peer = python("benchmarks/peers/genomics_numpy.py", *data, "--out", str(scratch / "peer"))
    return compare(work, ours, "hand-written NumPy and Polars", peer, runs)


def _chain(text: str, without: Sequence[str]) -> str:
    """The shipped job without some of its stages, and their outputs."""
    from io import StringIO

    from ruamel.yaml import YAML

    yaml = YAML()
    job = yaml.load(text)
    job["stages"] = [stage for stage in job["stages"] if stage["as"] not in without]
    job["outputs"] = {name: output for name, output in job["outputs"].items() if output["from"].split(".")[0] not in without}
    written = StringIO()
    yaml.dump(job, written)
    return written.getvalue()


def main() -> None:
    """Run the works asked for and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=[*LOANS, "genomics"], help="one work alone")
    options.add_argument("--runs", type=int, default=5, help="counted runs of each side")
    chosen = options.parse_args()
    works = [chosen.only] if chosen.only else [*LOANS, "genomics"]
    with tempfile.TemporaryDirectory() as scratch:
        rows = [(genomics if work == "genomics" else loans)(work, chosen.runs, Path(scratch)) for work in works]
    write_result("overhead", rows)


if __name__ == "__main__":
    main()
