"""Rounds of a long task: seen while it works, and its end when nobody waits for it any more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.local import Local
from pipeline.errors import RunError
from pipeline.running.display import Events, Plain
from pipeline.running.pending import Waiting
from pipeline.running.progress import Progress, progress_of
from pipeline.tables.rounds import Round, Rounds
from tests.stages.models.training import PEOPLE, stage_for, train

ENDED, LET_GO = threading.Event(), threading.Event()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Threads of this process."""
    with open_cluster(Local(threads=1), "cpu") as found:
        yield found


def works_for_ever(stage: str) -> None:
    rounds, number = Rounds(stage), 0
    try:
        while not LET_GO.wait(0.01):
            number += 1
            rounds.done(Round(number, 10**9, {"validation rmse": 0.5}))
    except RunError:
        ENDED.set()
        raise


@pytest.mark.process
def test_a_long_task__shows_its_rounds_and_ends_when_it_is_given_up(cluster: Cluster) -> None:
    session, waiting = cluster.session(), Waiting(cluster.client)
    waiting.add("work", [session.submit(works_for_ever, "endless", stage="endless")], list[Any]().append)
    seen = list[Progress]()

    def look() -> None:
        """End the wait when two rounds were seen."""
        progress = progress_of(cluster.client, session.submitted)
        seen.extend([progress] if progress.rounds else [])
        if len({progress.rounds["endless"].at for progress in seen}) > 1:
            raise KeyboardInterrupt("as Ctrl-C does")

    try:
        with pytest.raises(KeyboardInterrupt, match="as Ctrl-C does"):
            waiting.wait(look)
        assert str(seen[0].rounds["endless"]).endswith("of 1000000000, validation rmse 0.5")
        waiting.cancel()
        assert ENDED.wait(60)
    finally:
        LET_GO.set()


def test_displays__say_a_round_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.running.display.PAUSE_S", 0)
    steps = [Progress({"risk": (0, 1)}, {}, {"risk": Round(number, 9, {"validation auc": 0.71})}) for number in (3, 3, 4)]
    plain, events = Plain(), Events()
    for step in steps:
        plain.progress(step)
    assert capsys.readouterr().out.splitlines() == [f"  risk: round {number} of 9, validation auc 0.71" for number in (3, 4)]
    for step in steps:
        events.progress(step)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rounds = [event for event in said if event["event"] == "round"]
    assert rounds == [{"event": "round", "stage": "risk", "round": number, "rounds": 9, "validation auc": 0.71} for number in (3, 4)]


def test_training__says_every_round_and_ends_where_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[Round]()

    class Told(Rounds):
        def done(self, last: Round) -> None:
            """Keep it; give the run up at round 5."""
            said.append(last)
            if last.at == 5 and last.of == 80:
                raise RunError("its run was interrupted", stage=self.stage)

    monkeypatch.setattr("pipeline.stages.models._trees.booster.Rounds", Told)
    found = train(stage_for("regression", rounds=6, early_stopping_rounds=None), PEOPLE)
    assert [(last.at, last.of) for last in said] == [(number, 6) for number in range(1, 7)]
    assert {tuple(last.figures) for last in said} == {("validation rmse",)}
    assert found.counts["trees_used"] == 6
    said.clear()
    with pytest.raises(RunError, match="its run was interrupted"):
        train(stage_for("regression"), PEOPLE)
    assert len(said) == 5
    rmse: Any = [last.figures["validation rmse"] for last in said]
    assert rmse == sorted(rmse, reverse=True)
