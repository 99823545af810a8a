"""Signals one upon another: whatever the run was doing, it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.small import start, write_small_job

psutil: Any = pytest.importorskip("psutil")

LOOKS, PAUSE_S = 600, 0.05
WORKERS = "cluster={kind: local, workers: 2, dashboard: false}"


def signalled(folder: Path, *words: str) -> tuple[subprocess.Popen[str], list[Any], str]:
    """A run that is sent Ctrl-C twenty times a second until it ends; the processes that it had started, and what it said."""
    scratch = folder / "scratch"
    scratch.mkdir()
    process = start("job.yaml", *words, cwd=folder, env={**os.environ, "TMPDIR": str(scratch)})
    assert process.stdout is not None
    process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    for _ in range(LOOKS):
        with suppress(subprocess.TimeoutExpired):
            process.wait(PAUSE_S)
            break
        process.send_signal(signal.SIGINT)
    return process, children, process.communicate(timeout=60)[1]


@pytest.mark.process
@pytest.mark.parametrize("words", [(), ("--set", WORKERS)])
def test_signals__one_upon_another_leave_no_process_and_no_scratch_folder(words: tuple[str, ...], tmp_path: Path) -> None:
    write_small_job(tmp_path)
    process, children, said = signalled(tmp_path, *words)
    assert process.returncode == 130, said
    assert said.startswith("error: interrupted")
    assert "Traceback" not in said
    for _ in range(LOOKS):
        if not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children):
            break
        time.sleep(PAUSE_S)
    else:
        raise AssertionError(f"left: {children}")
    assert [path for path in (tmp_path / "scratch").glob("*/*") if path.is_dir()] == []


@pytest.mark.process
def test_signals__that_are_ignored_from_the_start_stay_so(tmp_path: Path) -> None:
    write_small_job(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start("job.yaml", "--quiet", cwd=tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    assert process.wait(300) == 0, process.communicate()[1]
    process.communicate()
