"""Fixtures for the tests of stages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.tables.session import ClusterSession
from tests.harness import two_workers


@pytest.fixture(scope="session")
def workers() -> Iterator[ClusterSession]:
    """A session on two worker processes."""
    with two_workers() as session:
        yield session
