"""Times two whole commands in turn and writes what came out, with the machine and the versions."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.backend.threads import settings
from pipeline.plan.versions import versions
from pipeline.running.record import machine

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Timing:
    """Wall seconds, peak memory in MB (the largest single process) and processor seconds of one whole run."""

    seconds: float
    peak_mb: float
    cpu_seconds: float = 0.0


def timed(command: Sequence[str]) -> Timing:
    """Run a command from the repository's root, with no settings of threads: our package has made its own of this process.

    Bytecode is kept, whatever the environment says: else every run, ours and a peer's, would compile all it imports.

    Raises RuntimeError, with what the command printed, where it fails.
    """
    left_out = {*settings(1), "PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{printed.decode(errors='replace')[-2000:]}")
    return Timing(time.perf_counter() - started, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def compare(work: str, ours: Sequence[str], peer: str, theirs: Sequence[str], runs: int) -> dict[str, Any]:
    """Ours and the peer's in turn, after one run of each that does not count; ratio = median peer / median ours."""
    for command in (ours, theirs):
        timed(command)
    pairs = [(timed(ours), timed(theirs)) for _ in range(runs)]
    ours_s, peer_s = [round(a.seconds, 3) for a, _ in pairs], [round(b.seconds, 3) for _, b in pairs]
    ours_mb, peer_mb = [round(a.peak_mb) for a, _ in pairs], [round(b.peak_mb) for _, b in pairs]
    each = [round(b / a, 3) for a, b in zip(ours_s, peer_s, strict=True)]
    ratio = round(statistics.median(peer_s) / statistics.median(ours_s), 3)
    row = {
        "work": work,
        "ours_s": ours_s,
        "peer": peer,
        "peer_s": peer_s,
        "ratio": ratio,
        "ratio_spread": [min(each), max(each)],
        "ours_cpu_s": [round(a.cpu_seconds, 3) for a, _ in pairs],
        "peer_cpu_s": [round(b.cpu_seconds, 3) for _, b in pairs],
        "ours_peak_mb": ours_mb,
        "peer_peak_mb": peer_mb,
        "memory_ratio": round(statistics.median(peer_mb) / statistics.median(ours_mb), 3),
    }
    ours_text, peer_text = f"{statistics.median(ours_s):.2f} s, {statistics.median(ours_mb):.0f} MB", f"{statistics.median(peer_s):.2f} s"
    print(f"{work}: ours {ours_text}; {peer} {peer_text}, {statistics.median(peer_mb):.0f} MB; ours/peer {1 / ratio:.2f}", flush=True)
    return row


def beside(work: str, job: Path, settings: Sequence[str], peer: tuple[str, Sequence[str]], runs: int) -> list[dict[str, Any]]:
    """A job with these `--set` beside a peer's name and command: as it is, on two workers, and on two whose core each is a machine's.

    In the last a machine has one core: the peer has one machine, and what the second brings is seen where a worker's work divides.
    """
    name, command = peer
    two, rows = ("cluster.workers=2",), []
    sides = {
        "": ((), command),
        ", two workers": (two, command),
        ", two machines of a core beside one": (two, ("taskset", "-c", "0", *command)),
    }
    for suffix, (more, theirs) in sides.items():
        told = [word for one in (*settings, *more) for word in ("--set", one)]
        ours = python("-m", "pipeline.run", str(job), "--fresh", "--quiet", *told)
        rows.append(compare(f"{work}{suffix}", ours, name, theirs, runs))
    return rows


def write_result(name: str, rows: Sequence[dict[str, Any]], about: Mapping[str, Any] | None = None) -> Path:
    """Write benchmarks/results/NAME-TIME.json, with what else is to be known `about` it, and print its place."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    document = {
        "benchmark": name,
        "time": stamp,
        "machine": {**machine(), "cpu": cpu_name()},
        "versions": versions(),
        **(about or {}),
        "rows": list(rows),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}-{stamp}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(path.relative_to(ROOT))
    return path


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def python(*arguments: str) -> list[str]:
    """A command of this Python."""
    return [sys.executable, *arguments]
