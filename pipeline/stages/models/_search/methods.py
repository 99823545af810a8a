"""Which trials a search runs: all at once, fewer and fewer with more and more rounds, or in batches that learn from those before.

Every choice depends on values alone, of whole rungs and batches (asha: of what its own clock says has ended), and never on which trial was
the faster: a search gives the same trials on one thread and on many workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from statistics import median
from typing import Any

from pipeline.errors import PlaceError
from pipeline.stages.models._search.space import Axis, Space, Values
from pipeline.stages.models._search.trials import Goal, Trial

STARTING = 10  # trials at random before a sampler goes by what it has seen; fixed, so that more trials begin with the same ones

Measure = Callable[[Sequence[Trial]], list[Trial]]


def all_at_once(candidates: Sequence[Values], measure: Measure) -> list[Trial]:
    """A trial for each of the candidates."""
    return measure([Trial(number, values) for number, values in enumerate(candidates, start=1)])


def rungs_of(trials: int, rounds: int, factor: int) -> list[int]:
    """The rounds of each rung: the last has all of them, each before a `factor`-th, as many rungs as trials can be divided over."""
    rungs = [rounds]
    while trials >= factor ** len(rungs) and rungs[0] // factor >= 1:
        rungs.insert(0, rungs[0] // factor)
    return rungs


def halving(candidates: Sequence[Values], measure: Measure, goal: Goal, rungs: Sequence[int], factor: int) -> list[Trial]:
    """Successive halving (Jamieson & Talwalkar, AISTATS 2016): of each rung the best `factor`-th goes on with more rounds.

    A rung is whole before the next begins.
    """
    asked, found = [Trial(number, values) for number, values in enumerate(candidates, start=1)], list[Trial]()
    for rung, rounds in enumerate(rungs):
        done = measure([replace(trial, rounds=rounds) for trial in asked])
        if rung + 1 == len(rungs):
            return [*found, *done]
        order = sorted((trial for trial in done if trial.value is not None), key=lambda trial: (goal.key(trial.value), trial.number))
        going = {trial.number for trial in order[: math.ceil(len(done) / factor)]}
        found += [decided(trial, on=trial.number in going) for trial in done]
        asked = [trial for trial in asked if trial.number in going]
    return found


@dataclass(frozen=True)
class Bayesian:
    """A search that goes by the trials before: how many, how many at once, from which seed; `first` rounds decide whether one goes on."""

    trials: int
    batch: int
    seed: int
    rounds: int
    first: int | None = None

    def search(self, space: Space, measure: Measure, goal: Goal) -> list[Trial]:
        """Trials by Optuna's tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), a batch at a time."""
        study, found, firsts = self._study(goal), list[Trial](), list[float]()
        distributions = {axis.name: _distribution(axis) for axis in space}
        for start in range(1, self.trials + 1, self.batch):
            drawn = [study.ask(distributions) for _ in range(min(self.batch, self.trials + 1 - start))]
            values = [{axis.name: _value(axis, one.params[axis.name]) for axis in space} for one in drawn]
            asked = [Trial(start + number, one) for number, one in enumerate(values)]
            tried = self._first(asked, measure, goal, firsts)
            going = [trial for trial in tried if trial.state == "went on"] if self.first else asked
            ended = measure([replace(trial, rounds=self.rounds if self.first else None) for trial in going])
            found += [*tried, *ended]
            self._tell(study, drawn, {trial.number - start: trial for trial in (*tried, *ended)})
        return found

    def _first(self, asked: Sequence[Trial], measure: Measure, goal: Goal, firsts: list[float]) -> list[Trial]:
        """The trials after their first rounds: those go on that are no worse than the median of all that came so far."""
        if self.first is None:
            return []
        done = measure([replace(trial, rounds=self.first) for trial in asked])
        firsts += [goal.key(trial.value) for trial in done]
        limit = median(firsts)
        return [decided(trial, on=trial.value is not None and goal.key(trial.value) <= limit) for trial in done]

    def _study(self, goal: Goal) -> Any:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=self.seed % 2**32, n_startup_trials=STARTING)
        return optuna.create_study(direction="maximize" if goal.better == "greater" else "minimize", sampler=sampler)

    def _tell(self, study: Any, drawn: Sequence[Any], ended: dict[int, Trial]) -> None:
        """Tell how the trials of a batch ended, in their order."""
        import optuna

        states = optuna.trial.TrialState
        for number, one in enumerate(drawn):
            trial = ended[number]
            if trial.state == "measured":
                study.tell(one, trial.value)
            elif trial.value is not None:
                one.report(trial.value, step=self.first or 0)
                study.tell(one, state=states.PRUNED)
            else:
                study.tell(one, state=states.FAIL)


def need_optuna() -> None:
    """Raise PlaceError, with what to install, where Optuna is not installed."""
    if find_spec("optuna") is None:
        raise PlaceError("method: bayesian needs optuna, which is not installed. Install it with: pip install '.[search]'")


def decided(trial: Trial, *, on: bool) -> Trial:
    """A trial of a rung that is not the last: whether it goes on."""
    return replace(trial, state="no value" if trial.value is None else "went on" if on else "stopped")


def _distribution(axis: Axis) -> Any:
    """What Optuna draws for a parameter: of a list the place in it."""
    from optuna import distributions

    if axis.listed is not None:
        return distributions.CategoricalDistribution(list(range(len(axis.listed))))
    if axis.whole:
        return distributions.IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return distributions.FloatDistribution(axis.low, axis.high, log=axis.log)


def _value(axis: Axis, drawn: Any) -> Any:
    return axis.rounded(drawn) if axis.listed is None else axis.listed[drawn]
