"""search by asha: trials go on without waiting for their rung, by a clock that makes them the same on any workers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.stages.models._search.asha import Asha
from pipeline.stages.models._search.methods import rungs_of
from pipeline.stages.models._search.trials import Goal, Trial, best_of
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import run_stage
from tests.small import inside
from tests.stages.models.test_search import JOB, RANGES, search, value_by_hand
from tests.stages.models.training import PEOPLE

GOAL = Goal("auc", "validation", "greater")


class Told:
    """Runs trials whose value is what they are told, and writes down what was asked."""

    def __init__(self, values: dict[int, float | None]) -> None:
        self.values, self.begun, self.at_once, self.most = values, list[tuple[int, int]](), 0, 0

    def begin(self, trial: Trial, _at_once: int) -> None:
        """One more runs."""
        self.begun.append((trial.number, trial.rounds or 0))
        self.at_once += 1
        self.most = max(self.most, self.at_once)

    def ended(self, trial: Trial) -> Trial:
        """One less."""
        self.at_once -= 1
        value = self.values[trial.number]
        return replace(trial, value=value, state="no value" if value is None else "measured")


def found(told: Told, *, factor: int = 3, batch: int = 1) -> list[Trial]:
    """The trials of a search of as many as are told."""
    rungs = rungs_of(len(told.values), 18, factor)
    return Asha(GOAL, rungs, factor, batch).search([{"n": number} for number in sorted(told.values)], told)


def test_a_trial__goes_on_as_soon_as_it_is_among_the_best_of_its_rung_so_far() -> None:
    told = Told({1: 0.5, 2: 0.7, 3: 0.6, 4: 0.9, 5: 0.1, 6: 0.2, 7: 0.3, 8: 0.4, 9: 0.8})
    trials = found(told)
    assert told.begun[:6] == [(1, 2), (2, 2), (3, 2), (2, 6), (4, 2), (4, 6)]
    assert told.begun[6:10] == [(5, 2), (6, 2), (7, 2), (8, 2)]
    assert told.begun[10:] == [(9, 2), (9, 6), (4, 18)]
    states = {(trial.number, trial.rounds): trial.state for trial in trials}
    assert [states[key] for key in ((1, 2), (2, 2), (4, 2), (2, 6), (4, 6), (4, 18))] == [
        "stopped",
        "went on",
        "went on",
        "stopped",
        "went on",
        "measured",
    ]
    assert best_of(trials, GOAL).number == 4


@pytest.mark.parametrize(("batch", "trials"), [(1, 20), (4, 27), (8, 30)])
def test_asha__runs_so_many_at_once_and_the_best_trial_to_its_end(batch: int, trials: int) -> None:
    told = Told({number: (7 * number % trials) / trials if number % 5 else None for number in range(1, trials + 1)})
    best = max((value, number) for number, value in told.values.items() if value is not None)[1]
    ended = found(told, batch=batch)
    assert told.most == batch
    assert len(told.begun) == len(set(told.begun)) == len(ended)
    assert best_of(ended, GOAL).number == best
    assert {trial.state for trial in ended if told.values[trial.number] is None} == {"no value"}


def test_asha__gives_what_the_stage_gives_by_itself_and_the_same_on_two_workers(workers: ClusterSession) -> None:
    stage = search(parameters=RANGES, method="asha", trials=9, batch=3)
    given = run_stage(stage, {"rows": PEOPLE})
    for row in given["trials"].iter_rows(named=True):
        named: dict[str, Any] = {name: row[name] for name in ("max_depth", "learning_rate", "subsample", "rounds")}
        assert row["value"] == value_by_hand(**named)
    assert set(given["trials"]["rounds"]) == {1, 4, 12}
    assert_frame_equal(run_stage(stage, {"rows": PEOPLE}, 4, workers)["trials"], given["trials"])


def test_asha__takes_what_an_earlier_run_has_measured(tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet")
    (tmp_path / "job.yaml").write_text(JOB.replace("trials: 6", "method: asha\n    trials: 6"))
    with inside(tmp_path):
        first = pipeline.load("job.yaml").run()
        measured, counts = first.table("trials").to_polars(), first.record["stages"]["tuned"]["counts"]
        shutil.rmtree("results/runs")
        Path("results/current").unlink()
        second = pipeline.load("job.yaml").run()
        found = second.record["stages"]["tuned"]["counts"]["trials_found"]
        assert (counts["trials_found"], found) == (0, measured.height)
        assert_frame_equal(second.table("trials").to_polars(), measured)
