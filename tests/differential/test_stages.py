"""Every stage of tables gives what DuckDB gives, for random tables and parameters."""

from __future__ import annotations

import pytest

from pipeline.tables.session import ClusterSession
from tests.differential.cases import check_cases
from tests.differential.stages import STAGES

EXAMPLES = 10
OF_WORKERS = 3


@pytest.mark.parametrize("name", STAGES)
def test_stage__gives_what_duckdb_gives(name: str) -> None:
    check_cases(STAGES[name](), EXAMPLES)


@pytest.mark.parametrize("name", STAGES)
def test_stage_on_two_worker_processes__gives_what_duckdb_gives(name: str, workers: ClusterSession) -> None:
    runs = {"2 parts on two workers": (workers, 2)}
    check_cases(STAGES[name](), OF_WORKERS, runs=runs)
