"""Runs that are disturbed at random end with a whole result, the right one; benchmarks/faults.py does so with more jobs, and more often."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.driving import Case
from tests.faults.faults import KINDS, Fault, drawn, missing, suffered
from tests.faults.light import NEW, write_light_job
from tests.small import replace_in

SEED = 20261122
ROOT = Path(__file__).parents[2]
QUICK, LONG = range(4), range(16)
IN_ONE_PROCESS = ["driver killed", "disk full"]


def case_of_loans(folder: Path) -> Case:
    """The shipped loans job, whose runs last some seconds."""
    job = folder / "loans.yaml"
    job.write_bytes((ROOT / "jobs" / "loans.yaml").read_bytes())
    for table in ("loans", "performance"):
        replace_in(job, f"path: data/loans/{table}}}", f"path: {ROOT / 'data' / 'loans' / table}}}")
    return Case.of(job, folder)


def made(folder: Path) -> Path:
    """A new folder."""
    folder.mkdir()
    return folder


@pytest.mark.process
def test_faults__at_random_in_one_process_leave_the_right_result(tmp_path: Path) -> None:
    kinds = [kind for kind in IN_ONE_PROCESS if not missing(kind)]
    case = Case.of(write_light_job(tmp_path), tmp_path, former="seed=7", new=NEW)
    for number in QUICK:
        fault = drawn(number, SEED, ["light"], kinds)
        here = Fault(number, fault.kind, fault.job, "process", fault.moment, fault.size)
        assert suffered(here, case, made(tmp_path / str(number))).wrong == [], f"seed {SEED}: {here}"


@pytest.mark.process
@pytest.mark.soak
def test_faults__at_random_in_any_place_leave_the_right_result(tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if not missing(kind)]
    case = case_of_loans(tmp_path)
    for number in LONG:
        fault = drawn(number, SEED, ["loans"], kinds)
        assert suffered(fault, case, made(tmp_path / str(number))).wrong == [], f"seed {SEED}: {fault}"
