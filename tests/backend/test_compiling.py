"""Kernels that several processes want and nobody has kept: one compiles each."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pipeline.backend import compiling
from pipeline.backend.compiling import alone, before_compiling

CODE = """
import sys
import numpy as np
from numba.core import event
sys.stdin.readline()
from pipeline.kernels.compiled.jit import compiled

@compiled
def inner(a):
    return np.sort(a)[0] + a.std()

@compiled
def outer(a):
    return inner(a) + np.median(a)

with event.install_recorder("numba:run_pass") as passes:
    found = outer(np.array([1.0, 2.0, 6.0]))
print(found, len(passes.buffer) > 0)
"""


@pytest.mark.process
def test_a_kernel_that_processes_want_at_once__is_compiled_by_one_of_them(tmp_path: Path) -> None:
    script = tmp_path / "kernel.py"  # numba keeps what comes from a file
    script.write_text(CODE, encoding="utf-8")
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": path}
    command = [sys.executable, str(script)]
    each = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    for process in each:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120) for process in each]
    assert [errors for _, errors in said] == ["", "", ""]
    assert sorted(lines.split()[1] for lines, _ in said) == ["False", "False", "True"]
    expected = 1 + 2 + (14 / 3) ** 0.5
    assert [float(lines.split()[0]) for lines, _ in said] == [pytest.approx(expected)] * 3


def test_alone__waits_for_who_is_at_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "kernel.lock", list[str]()

    def other() -> None:
        """Another process, as far as the lock knows."""
        with alone(path):
            seen.append("other")

    thread = threading.Thread(target=other)
    with alone(path):
        thread.start()
        thread.join(0.2)
        assert seen == []
    thread.join(20)
    assert seen == ["other"]


def test_alone__goes_on_where_who_is_at_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "PATIENCE", 0.1)
    tries = tried(monkeypatch)
    with (tmp_path / "kernel.lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with alone(tmp_path / "kernel.lock"):
            assert len(tries) > 2
            assert {*tries[1:]} == {"BlockingIOError"}


def test_alone__where_there_are_no_locks_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("pipeline.backend.compiling.fcntl.flock", refused)
    tries = tried(monkeypatch)
    with alone(tmp_path / "kernel.lock"):
        assert tries == ["OSError"]


def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each try to lock comes to."""
    seen, lock = list[str](), fcntl.flock

    def noted(*arguments: Any) -> None:
        """One of them."""
        try:
            lock(*arguments)
        except OSError as error:
            seen.append(type(error).__name__)
            raise
        seen.append("locked")

    monkeypatch.setattr("pipeline.backend.compiling.fcntl.flock", noted)
    return seen


def test_before_compiling__is_told_once_and_no_more_at_the_end(tmp_path: Path) -> None:
    told = list[str]()
    with before_compiling(lambda: told.append("first")):
        assert told == []
        for name in ("one", "two"):
            with alone(tmp_path / name):
                assert told == ["first"]
    with before_compiling(lambda: told.append("second")):
        pass
    with alone(tmp_path / "three"):
        assert told == ["first"]
