"""A scheduler and a worker as a user starts them by hand, for tests that run on them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOOKS, PAUSE_S = 600, 0.05  # half a minute in all


@contextmanager
def running_scheduler(place: Path, *worker: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[str, Path]]:
    """On 127.0.0.1, in a folder of its own: the address and the scheduler file. `worker` are more options of the worker."""
    address, file = f"tcp://127.0.0.1:{free_port()}", place / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place, "env": environment}
    dask = [sys.executable, "-m", "dask"]
    first = [*dask, "scheduler", "--host", address, "--no-dashboard", "--no-show", "--scheduler-file", str(file)]
    second = [*dask, "worker", address, "--host", "127.0.0.1", "--nthreads", "2", "--no-dashboard", *worker]
    with _ended(subprocess.Popen(first, **quiet)), _ended(subprocess.Popen(second, **quiet)):
        for _ in range(LOOKS):
            if file.exists():
                break
            time.sleep(PAUSE_S)
        yield address, file


@contextmanager
def one_more_worker(
    address: str, place: Path, *options: str, environment: Mapping[str, str] | None = None, awaited: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """One more worker of a scheduler, with an environment of its own; it has joined if it is `awaited`, and has gone at the end."""
    from distributed import Client

    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place, "env": environment}
    command = [sys.executable, "-m", "dask", "worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    with Client(address) as client:
        before = len(client.scheduler_info(n_workers=-1)["workers"])
        with _ended(subprocess.Popen([*command, *options], **quiet)) as process:
            if awaited:
                client.wait_for_workers(before + 1, timeout=LOOKS * PAUSE_S)
            yield process


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
