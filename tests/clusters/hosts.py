"""Hosts for tests: network namespaces joined by a cable, so that what goes from one to the other crosses a network.

They share this machine's files. Making them needs root and iproute2: elsewhere a test that asks for them is skipped, with that reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

PORTS = count(18786, 10)  # UCX does not listen where something has just listened
LOOKS, PAUSE_S = 600, 0.1  # a minute in all: workers start slowly on a busy machine
OF_THE_RUN = {"run.json", "report.html", "certificate.json"}  # these say when it ran, and where
PAIRS = count()  # one test may have hosts while another's still stand


@dataclass(frozen=True)
class Host:
    """A network namespace, its address, and its end of the cable."""

    name: str
    address: str
    device: str

    def command(self, *words: str) -> list[str]:
        """What runs a command on this host."""
        return ["ip", "netns", "exec", self.name, *words]

    @contextmanager
    def running(self, *words: str, log: Path, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """A program on this host, ended at the end; what it says goes to a file."""
        more: dict[str, Any] = {"env": {**os.environ, **(environment or {})}, "cwd": log.parent}
        with log.open("wb") as said, subprocess.Popen(self.command(*words), stdout=said, stderr=said, **more) as process:
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)

    def cable(self, state: str) -> None:
        """Pull the cable out (down) or put it back (up)."""
        _ip("-n", self.name, "link", "set", self.device, state)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts of a network of their own; the test is skipped where they cannot be made."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces are made by ip (Debian's iproute2), which is not here")
    tag = f"{os.getpid() % 100_000:05d}{next(PAIRS)}"
    first, second = (Host(f"pipe-{end}{tag}", f"10.77.0.{number}", f"p{end}{tag}") for number, end in enumerate("ab", start=1))
    with ExitStack() as stack:
        for host in (first, second):
            made = subprocess.run(["ip", "netns", "add", host.name], capture_output=True, text=True, check=False)
            if made.returncode:
                pytest.skip(f"network namespaces cannot be made here: {made.stderr.strip()}")
            stack.callback(_ip, "netns", "del", host.name)
        _ip("link", "add", first.device, "netns", first.name, "type", "veth", "peer", "name", second.device, "netns", second.name)
        for host in (first, second):
            _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", host.device)
            _ip("-n", host.name, "link", "set", "lo", "up")
            host.cable("up")
        yield first, second


def wait_until(there: Path, text: str) -> None:
    """Wait until a file says a text. Raises AssertionError with what it says instead."""
    for _ in range(LOOKS):
        if there.exists() and text in there.read_text(encoding="utf-8", errors="replace"):
            return
        time.sleep(PAUSE_S)
    said = there.read_text(encoding="utf-8", errors="replace") if there.exists() else ""
    raise AssertionError(f"{there.name} never said {text!r}: {said[:2_000]} ... {said[-2_000:]}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def cluster_over(
    hosts: tuple[Host, Host],
    protocol: str,
    place: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler on the first host and a worker on each, as a user starts them by hand: the address, and the workers' processes.

    `options` are more of both commands, TLS files say.
    """
    first, dask = hosts[0], (python, "-m", "dask")
    port = str(next(PORTS))
    address = f"{protocol}://{first.address}:{port}"
    quiet = ("--protocol", protocol, "--no-dashboard", *options)
    with ExitStack() as stack:
        told = place / "scheduler.log"
        begun = first.running(*dask, "scheduler", "--host", first.address, "--port", port, *quiet, log=told, environment=environment)
        stack.enter_context(begun)
        wait_until(told, "Scheduler at")
        workers = list[subprocess.Popen[bytes]]()
        for host in hosts:
            words = (*dask, "worker", address, "--host", host.address, "--nthreads", "1", "--name", host.name, "--no-nanny", *quiet)
            workers.append(stack.enter_context(host.running(*words, log=place / f"{host.name}.log", environment=environment)))
        for host in hosts:
            wait_until(place / f"{host.name}.log", "Starting established connection")
        yield address, workers


def published_bytes(results: Path) -> dict[str, str]:
    """The checksum of every published table, model and metric, by its name without what tells attempts apart."""
    return run_bytes(results / "current")


def run_bytes(run: Path) -> dict[str, str]:
    """The same of a run's folder: all but the files that say when and where it ran."""
    listed = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["files"]
    named = {re.sub(r"-[0-9a-f]{12}(?=\.)", "", entry["path"]): entry["sha256"] for entry in listed}
    return {name: checksum for name, checksum in named.items() if name not in OF_THE_RUN}
