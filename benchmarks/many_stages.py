"""What many small stages cost over two workers: python benchmarks/many_stages.py [--runs N].

A generated job of 110 relational stages on 7 parts, every second one an exchange, on two worker processes beside one process of threads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import compare, python, write_result

STAGES, PARTS, ROWS = 110, 7, 1_000


def make_job(place: Path) -> Path:
    """The job file, and the parts that it reads."""
    import json

    (place / "rows").mkdir()
    for part in range(PARTS):
        rows = pl.int_range(ROWS, eager=True)
        frame = pl.DataFrame({"id": rows * PARTS + part, "grp": rows % 50, "v": rows.cast(pl.Float64)})
        frame.write_parquet(place / "rows" / f"{part}.parquet")
    job = {
        "job": "many",
        "results": str(place / "results"),
        "inputs": {"rows": {"format": "parquet", "path": str(place / "rows"), "parts": PARTS}},
        "stages": chain(STAGES),
        "outputs": {"last": {"from": f"s{STAGES}", "format": "parquet"}},
    }
    file = place / "many.yaml"
    file.write_text(json.dumps(job, indent=1), encoding="utf-8")
    return file


def chain(stages: int) -> list[dict[str, Any]]:
    """Aggregate by a key, join that back, derive, drop duplicates; and again."""
    found: list[dict[str, Any]] = []
    for number in range(1, stages + 1):
        before = "rows" if number == 1 else f"s{number - 1}"
        wanted: list[dict[str, Any]] = [
            {"use": "aggregate", "from": before, "by": "id", "compute": {"v": "mean(v)", "grp": "max(grp)"}},
            {"use": "join", "from": {"left": before, "right": f"s{max(1, number - 2)}"}, "on": "id", "how": "semi"},
            {"use": "derive", "from": before, "columns": {"v": "v * 1.01"}},
            {"use": "drop_duplicates", "from": before, "columns": ["id"]},
        ]
        found.append({**wanted[(number - 1) % len(wanted)], "as": f"s{number}"})
    return found


def main() -> None:
    """Run both and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3, help="counted runs of each side")
    with tempfile.TemporaryDirectory() as scratch:
        run = ["-m", "pipeline.run", str(make_job(Path(scratch))), "--quiet", "--fresh"]
        two, one = python(*run, "--set=cluster.workers=2"), python(*run, "--set=cluster.workers=1")
        row = compare("110 stages", two, "the same in one process", one, options.parse_args().runs)
    write_result("many_stages", [row])


if __name__ == "__main__":
    main()
