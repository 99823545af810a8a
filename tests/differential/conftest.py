"""Fixtures of the comparisons with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.tables.session import ClusterSession
from tests.differential.oracle import database
from tests.harness import two_workers


@pytest.fixture(scope="session")
def workers() -> Iterator[ClusterSession]:
    """A session on two worker processes."""
    with two_workers() as session:
        yield session


@pytest.fixture(scope="session", autouse=True)
def closed_database() -> Iterator[None]:
    """Close the database after the last test."""
    yield
    database().close()
    database.cache_clear()
