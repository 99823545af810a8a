"""pytest -p tests.standin.plugin: this process is a machine with one GPU, by the stand-in."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.standin.machine import gpu

STANDING_IN = ExitStack()
STANDING_IN.enter_context(gpu())


def pytest_configure(config: pytest.Config) -> None:
    """A GPU that is required is a real one."""
    if config.getoption("--require-gpu"):
        raise pytest.UsageError("--require-gpu: this is the stand-in")


def pytest_unconfigure() -> None:
    """The machine is again what it was."""
    STANDING_IN.close()
