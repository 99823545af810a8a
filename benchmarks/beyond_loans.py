"""The loans job of 10 million loans (240 million rows) in 4 GB beside 1 million in memory; a work of beyond_memory.py."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, python, timed

LOANS = 1_000_000
TIMES, LIMIT_MB, FILES = 10, 4_000, 40
ROUNDS = 60
"""As the job is, more loans train more trees: early stopping ended after 57 of 1 million loans, and not within 200 of 10 million."""

Limited = Callable[[int], AbstractContextManager[list[str]]]


def measured_loans(data: Path, runs: int, limited: Limited, *, as_it_is: bool) -> dict[str, Any]:
    """1 million without a limit and 10 million under it, in turn: the job as it is, or with as many trees of both."""
    few, many = _made(data, LOANS, 8), _made(data, LOANS * TIMES, FILES)
    found: dict[str, list[tuple[float, float, float, Any]]] = {"few": [], "many": []}
    with tempfile.TemporaryDirectory(dir=data) as scratch:
        for _ in range(runs):
            found["few"].append(_run(few, Path(scratch) / "few", nullcontext([]), as_it_is=as_it_is))
            found["many"].append(_run(many, Path(scratch) / "many", limited(LIMIT_MB), as_it_is=as_it_is))
    seconds = {who: [run[0] for run in of] for who, of in found.items()}
    ratio = round(statistics.median(seconds["many"]) / statistics.median(seconds["few"]), 2)
    processor = {who: [run[1] for run in of] for who, of in found.items()}
    name = "loans, the job as it is" if as_it_is else f"loans, {ROUNDS} trees"
    print(
        f"{name}: {seconds['few']} s, {seconds['many']} s in {found['many'][0][2]} MB; ratio {ratio}, of processor seconds {processor}",
        flush=True,
    )
    return {
        "work": name, "limit_mb": LIMIT_MB, "loans": [LOANS, LOANS * TIMES], "s_of_1_million": seconds["few"],
        "s_of_10_million": seconds["many"], "ratio": ratio, "processor_s": processor, "peak_mb": [run[2] for run in found["many"]],
        "trees": [found[who][0][3]["trees_used"] for who in ("few", "many")], "stages": found["many"][0][3]["seconds"],
    }  # fmt: skip


def _made(data: Path, loans: int, files: int) -> Path:
    folder = data / f"loans-{loans}"
    if not folder.is_dir():
        timed(python("data/make_loans.py", "--scale", str(loans), "--out", str(folder), "--files", str(files)))
    return folder


def _run(
    data: Path, results: Path, group: AbstractContextManager[list[str]], *, as_it_is: bool
) -> tuple[float, float, float, dict[str, Any]]:
    """Seconds, those of the processors, peak in MB, and of the training its trees and of every stage its seconds."""
    given = {"results": results} | {f"inputs.{name}.path": data / name for name in ("loans", "performance")}
    alike = {} if as_it_is else {"stages.lateness.rounds": ROUNDS, "stages.lateness.early_stopping_rounds": "null"}
    settings = [word for key, value in {**given, **alike}.items() for word in ("--set", f"{key}={value}")]
    with group as before:
        took = timed([*before, *python("-m", "pipeline.run", str(ROOT / "jobs" / "loans.yaml"), "--quiet", "--fresh", *settings)])
    stages = json.loads((results / "current" / "run.json").read_text(encoding="utf-8"))["stages"]
    slow = {name: stage["seconds"] for name, stage in stages.items() if stage["seconds"] >= 1}
    counts = stages["lateness"]["counts"]
    told = {"trees_used": counts.get("trees_used", ROUNDS), "seconds": slow}
    return round(took.seconds, 2), round(took.cpu_seconds, 2), round(took.peak_mb), told
