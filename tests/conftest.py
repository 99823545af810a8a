"""Options and fixtures for all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from pipeline.backend.devices import gpu_count
from pipeline.tables.session import ClusterSession
from tests.buckets import ENVIRONMENT, new_bucket, s3_server
from tests.databases import postgres_programs, postgres_server
from tests.harness import two_workers

# Set by the contract test that shows that the bodies of the GPU tests work: they run here on the CPU, and prove nothing about a GPU.
ON_CPU = "PIPELINE_GPU_TESTS_ON_CPU"
collect_ignore = ["plugin"]  # the project of another package; test_plugin.py installs it and runs its tests

# On a GPU libraries run that nobody here has seen warn yet: there a warning is an error only where a line of ours is what it is about.
LIBRARIES_MAY_WARN = pytest.mark.filterwarnings("default", "error:::pipeline", "error:::tests")

# What these fixtures give are processes of their own, so a test that asks for one is a process test.
OF_PROCESSES = {"postgres", "scheduler", "workers"}


@pytest.fixture(scope="session")
def workers() -> Iterator[ClusterSession]:
    """A session on two worker processes, started once."""
    with two_workers() as session:
        yield session


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """A server that speaks S3, started once; the URL of its endpoint."""
    pytest.importorskip("moto", reason="moto[server], which serves S3 to tests, is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket; the environment says where it is, to this process and to those that it starts."""
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": s3}.items():
        monkeypatch.setenv(name, value)
    return new_bucket()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server, started once; the URL of its database, with the password."""
    pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    if (programs := postgres_programs()) is None:
        pytest.skip("PostgreSQL (Debian's package postgresql) is not installed")
    with postgres_server(programs) as url:
        yield url


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="a missing GPU is a failure, not a skip")
    parser.addoption("--require-rapids", action="store_true", help="missing RAPIDS packages are a failure, not a skip")


def pytest_configure(config: pytest.Config) -> None:
    """What JAX compiles for one test is there for the next, and for processes that tests start."""
    cache = getattr(config, "cache", None)  # not there with -p no:cacheprovider
    if cache is not None:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache.mkdir("jax")))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_gpu = gpu_count() == 0
    no_rapids = find_spec("cudf_polars") is None
    if config.getoption("--require-gpu") and (no_gpu or ON_CPU in os.environ):
        raise pytest.UsageError("--require-gpu: this machine shows no GPU" if no_gpu else f"--require-gpu: {ON_CPU} is set")
    if no_rapids and config.getoption("--require-rapids"):
        raise pytest.UsageError("--require-rapids: the RAPIDS packages are not installed here; make contract installs them")
    for item in items:
        if isinstance(item, pytest.Function) and OF_PROCESSES & set(item.fixturenames):
            item.add_marker("process")
        if "gpu" in item.keywords:
            item.add_marker(LIBRARIES_MAY_WARN)
        if "gpu" in item.keywords and no_gpu and ON_CPU not in os.environ:
            item.add_marker(pytest.mark.skip(reason="needs a GPU; make test-gpu runs it on one"))
        if "contract" in item.keywords and no_rapids:
            item.add_marker(pytest.mark.skip(reason="needs the RAPIDS packages; make contract runs it"))


@pytest.fixture(autouse=True)
def only_process_tests_start_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that starts Python and is not marked so fails: make quick would run it with every change."""
    if any(request.node.get_closest_marker(mark) for mark in ("process", "contract", "gpu")):
        return
    start = subprocess.Popen.__init__

    def checked(process: subprocess.Popen[Any], command: Any, *others: Any, **options: Any) -> None:
        assert command[0] != sys.executable, "this test starts Python: mark it with @pytest.mark.process"
        start(process, command, *others, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", checked)
