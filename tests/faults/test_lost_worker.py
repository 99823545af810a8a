"""A worker that is frozen, or a host that is cut off, at any moment of a run, healed or not, changes nothing in what is published."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.clusters.hosts import published_bytes
from tests.faults.moments import MOMENTS, loans_job, over_workers_job, ran

pytestmark = [pytest.mark.process, pytest.mark.soak]

PLACES = {"frozen": "workers", "cut off": "hosts"}
TRAINING = [moment for moment in MOMENTS if "round" in moment]
LOG = logging.getLogger(__name__)  # shown with --log-cli-level=INFO


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The loans job."""
    return loans_job(tmp_path_factory.mktemp("loans"))


@pytest.fixture(scope="module")
def over_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that trains over all workers."""
    return over_workers_job(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def undisturbed(loans: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the loans job publishes, in either place."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    code, said, took = ran(loans, out, "workers")
    LOG.info("undisturbed: %s s", took)
    assert code == 0, said
    return published_bytes(out / "results")


@pytest.fixture(scope="module", params=PLACES)
def trained(request: pytest.FixtureRequest, over_workers: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """A way to lose a worker, and what the training over workers publishes in its place."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    code, said, took = ran(over_workers, out, PLACES[request.param])
    LOG.info("undisturbed: %s s", took)
    assert code == 0, said
    return request.param, published_bytes(out / "results")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("how", PLACES)
def test_lost_worker__changes_nothing(loans: Path, undisturbed: dict[str, str], how: str, moment: str, tmp_path: Path) -> None:
    code, said, took = ran(loans, tmp_path / "lost", PLACES[how], moment)
    LOG.info("%s at %s: %s s", how, moment, took)
    assert code == 0, said
    assert published_bytes(tmp_path / "lost" / "results") == undisturbed


@pytest.mark.parametrize("moment", ["exchange", "middle round"])
@pytest.mark.parametrize("how", PLACES)
def test_lost_worker__that_comes_back_changes_nothing(
    loans: Path, undisturbed: dict[str, str], how: str, moment: str, tmp_path: Path
) -> None:
    code, said, took = ran(loans, tmp_path / "lost", PLACES[how], moment, healed=True)
    LOG.info("%s for a while at %s: %s s", how, moment, took)
    assert code == 0, said
    assert published_bytes(tmp_path / "lost" / "results") == undisturbed


@pytest.mark.parametrize(("moment", "healed"), [*((moment, False) for moment in TRAINING), ("middle round", True)])
def test_lost_worker__of_a_training_over_workers_changes_nothing(
    over_workers: Path, trained: tuple[str, dict[str, str]], moment: str, healed: bool, tmp_path: Path
) -> None:
    how, expected = trained
    code, said, took = ran(over_workers, tmp_path / "lost", PLACES[how], moment, healed=healed)
    LOG.info("%s at %s, healed %s: %s s", how, moment, healed, took)
    assert code == 0, said
    assert published_bytes(tmp_path / "lost" / "results") == expected
