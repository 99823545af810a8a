"""Halving that does not wait for a rung: a trial goes on as soon as it is among the best of its rung so far (ASHA, Li et al., MLSys 2020).

Who is among the best so far depends on which trials have ended. A clock of its own tells that, on which a trial takes as long as it has
rounds, so a search is the same on one thread and on many workers, however long its trials take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Protocol

from pipeline.stages.models._search.methods import decided
from pipeline.stages.models._search.space import Values
from pipeline.stages.models._search.trials import Goal, Trial


class Runner(Protocol):
    """Runs trials at once."""

    def begin(self, trial: Trial, at_once: int) -> None:
        """Have it run, as one of so many."""
        ...

    def ended(self, trial: Trial) -> Trial:
        """The trial with its value, waited for."""
        ...


@dataclass
class Rung:
    """Trials of so many rounds that have ended, and the numbers of those that went on."""

    rounds: int
    ended: list[Trial] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)

    def next(self, goal: Goal, factor: int) -> Trial | None:
        """The best trial that is among the best `factor`-th of those here and has not gone on; of equal ones the first."""
        order = sorted((trial for trial in self.ended if trial.value is not None), key=lambda trial: (goal.key(trial.value), trial.number))
        return next((trial for trial in order[: len(self.ended) // factor] if trial.number not in self.gone), None)

    def decided(self, *, last: bool) -> list[Trial]:
        """The trials in their order, each with whether it went on."""
        order = sorted(self.ended, key=lambda trial: trial.number)
        if last:
            return order
        return [decided(one, on=one.number in self.gone) for one in order]


class Asha:
    """A search over rungs of more and more rounds, with `batch` trials at once, of which one in `factor` goes on."""

    def __init__(self, goal: Goal, rungs: Sequence[int], factor: int, batch: int) -> None:
        self._goal, self._factor, self._batch = goal, factor, batch
        self._rungs = [Rung(rounds) for rounds in rungs]

    def search(self, candidates: Sequence[Values], runner: Runner) -> list[Trial]:
        """All trials, rung by rung."""
        new = [Trial(number, values) for number, values in enumerate(candidates, start=1)][::-1]
        running, now, order = list[tuple[int, int, int, Trial]](), 0, 0
        while True:
            while len(running) < self._batch and (chosen := self._chosen(new)):
                rung, trial = chosen
                asked = replace(trial, rounds=self._rungs[rung].rounds, value=None, state="asked")
                runner.begin(asked, self._batch)
                order += 1
                heappush(running, (now + self._rungs[rung].rounds, order, rung, asked))
            if not running:
                return [trial for rung in self._rungs for trial in rung.decided(last=rung is self._rungs[-1])]
            now, _, at, first = heappop(running)
            self._rungs[at].ended.append(runner.ended(first))

    def _chosen(self, new: list[Trial]) -> tuple[int, Trial] | None:
        """What runs next, and in which rung: one that goes on, as high as there is one, else a new one."""
        for place in reversed(range(len(self._rungs) - 1)):
            trial = self._rungs[place].next(self._goal, self._factor)
            if trial is not None:
                self._rungs[place].gone.add(trial.number)
                return place + 1, trial
        return (0, new.pop()) if new else None
