"""Processes of our own that one of ours starts beside its cluster; none outlives it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def started(module: str, output: int, errors: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a module, and finds modules where this one does; its input is a pipe. At the end it is gone."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # what it has not read
                process.stdin.close()
