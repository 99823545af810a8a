"""Where the GPU tests run: on the GPU, or on the stand-in, whose plugin a contract test names; or on the CPU, queries shown to cuDF."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pipeline.backend.arrays import array_module, to_device
from pipeline.backend.devices import Backend
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from tests.conftest import ON_CPU


@pytest.fixture(scope="session")
def device() -> Backend:
    """The backend under test: `gpu`, or its stand-in."""
    return "translate" if ON_CPU in os.environ else "gpu"


@pytest.fixture(scope="session")
def stand_in(request: pytest.FixtureRequest) -> bool:
    """Whether the GPU is the stand-in, which has no workers of its own and trains on the CPU."""
    return bool(request.config.pluginmanager.hasplugin("tests.standin.plugin"))


@pytest.fixture(scope="session")
def job_backend(device: Backend) -> str:
    """The same, as a job file says it."""
    return "gpu" if device == "gpu" else "cpu"


@pytest.fixture(scope="session")
def library(device: Backend) -> str:
    """What holds arrays there."""
    return "cupy" if device == "gpu" else "numpy"


@pytest.fixture
def session(device: Backend) -> Session:
    """Tasks at once in this process, on the backend under test."""
    made = Session()
    made.backend = device
    return made


@pytest.fixture(scope="session")
def placed(device: Backend) -> Callable[[Part], Part]:
    """A part with its arrays where the backend holds them."""
    return lambda part: replace(part, arrays={name: to_device(array, device) for name, array in part.arrays.items()})


@pytest.fixture(autouse=True)
def _nothing_left_behind(device: Backend) -> Iterator[None]:
    """The memory of CuPy's pool given back, so that one test does not starve the next."""
    yield
    if device == "gpu":
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


def library_of(array: Any) -> str:
    """numpy or cupy."""
    return str(array_module(array).__name__)
