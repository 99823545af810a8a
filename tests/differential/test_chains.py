"""Chains of stages give what DuckDB gives for the nested queries, on tables and on files, and on two worker processes."""

from __future__ import annotations

import pytest

from pipeline.tables.session import ClusterSession
from tests.differential.cases import check_cases
from tests.differential.chains import chains

EXAMPLES = {"tables": 12, "files": 6, "files cut by keys": 8}
OF_WORKERS = 6


@pytest.mark.parametrize("given", EXAMPLES)
def test_chain__gives_what_duckdb_gives(given: str) -> None:
    check_cases(chains(given), EXAMPLES[given])


@pytest.mark.parametrize("given", EXAMPLES)
def test_chain_on_two_worker_processes__gives_what_duckdb_gives(given: str, workers: ClusterSession) -> None:
    check_cases(chains(given), OF_WORKERS, runs={"3 parts on two workers": (workers, 3)})
