"""Every stage of tables gives what DuckDB gives, for random tables and parameters."""

from __future__ import annotations

import pytest

from pipeline.registry import STAGES as REGISTERED
from pipeline.tables.session import ClusterSession
from tests.differential.cases import RUNS, Case, Runs, check_all, in_turn
from tests.differential.stages import STAGES

EXAMPLES = 10
OF_WORKERS = 3
GROUPS = {"relational", "features", "finance", "privacy"}
SIMULATED = {"portfolio_risk", "simulate_prices"}  # of random numbers that DuckDB has not; their tests hold them against closed forms


def check_stage(name: str, examples: int, runs: Runs) -> None:
    """Check random cases, all of the stage that they are called after."""

    def check(case: Case) -> None:
        assert getattr(case.work, "name", "") == name.split()[0]
        case.check(in_turn(runs, case))

    check_all(STAGES[name](), check, examples)


@pytest.mark.parametrize("name", STAGES)
def test_stage__gives_what_duckdb_gives(name: str) -> None:
    check_stage(name, EXAMPLES, RUNS)


THIRD = [pytest.param(name, marks=[] if number % 3 == 0 else pytest.mark.soak) for number, name in enumerate(STAGES)]


@pytest.mark.parametrize("name", THIRD)
def test_stage_on_two_worker_processes__gives_what_duckdb_gives(name: str, workers: ClusterSession) -> None:
    check_stage(name, OF_WORKERS, {"2 parts on two workers": (workers, 2)})


def test_stages__of_tables_are_all_compared() -> None:
    ours = {name for name, module in REGISTERED.modules.items() if module.startswith(f"{REGISTERED.package}.")}
    wanted = {name for name in ours if REGISTERED.modules[name].split(".")[-2] in GROUPS}
    assert len(wanted) > 40
    assert wanted >= SIMULATED
    lacking = wanted - SIMULATED - {name.split()[0] for name in STAGES}
    assert not lacking, f"a line of tests/differential/stages.py for each of {sorted(lacking)}"
