"""Boosting round by round, from where a run that was killed stood: the same trees, bit for bit, as if it had not been.

XGBoost's own `train` counts the rounds of a booster that goes on from 0, and forgets the best one. What it draws (rows, columns) follows
from all draws before, which no booster keeps: so rounds that draw go in blocks, each of which begins with a seed of its own, and with
samplers that have drawn nothing. A training goes on from the end of a block.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pipeline.backend.boosting import import_xgboost
from pipeline.results.checkpoints import Keeping
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._trees.blocks import BLOCK, begin_block, draws_nothing, follows_from_seeds
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.matrices import Matrices
from pipeline.stages.models._trees.ranked import eval_set

Measure = Callable[[Any, Sequence[tuple[Any, str]], int], str]


class Boosting:
    """One training: how it is told, where it keeps how far it has come, and its metrics so far by split; `found` rounds were there."""

    def __init__(
        self, learning: Learning[BoostedTrees], native: dict[str, Any], callbacks: list[Any], keeping: Keeping, measure: Measure = eval_set
    ) -> None:
        """`callbacks` are XGBoost's, and hear of the rounds that were there, too; `measure` says the metrics after a round as it does."""
        self._xgb, self._native, self._rounds = import_xgboost(lean=learning.lean), native, learning.stage.rounds
        self._callbacks = self._xgb.callback.CallbackContainer(callbacks)
        self._keeping, self._measure = keeping, measure
        self._in_blocks = follows_from_seeds(learning) and not draws_nothing(learning)
        self.found = 0

    @property
    def curves(self) -> dict[str, Any]:
        """The metrics of every split, round by round."""
        curves: dict[str, Any] = self._callbacks.history
        return curves

    def trained(self, on: Matrices) -> Any:
        """The booster."""
        matrices = [on.train, *(matrix for matrix, _ in on.watched)]
        booster, over = self._callbacks.before_training(self._xgb.Booster(self._native, matrices)), False
        if standing := _read(self._keeping.last()):
            booster = self._xgb.Booster(self._native, matrices, model_file=standing[0])
            self.found = booster.num_boosted_rounds()
            over = self._heard(booster, standing[1])
        for at in range(self._rounds if over else self.found, self._rounds):
            if self._in_blocks and at and at % BLOCK == 0:
                begin_block(booster, self._native, at // BLOCK)
            if on.draws is None:
                booster.update(on.train, at)
            else:
                on.draws.update(booster, on.train, at)
            if self._measured(booster, at, on):
                break
            if not (self._in_blocks and (at + 1) % BLOCK) and self._keeping.due():
                self._keeping.keep(partial(_written, booster, self.curves))
        return self._callbacks.after_training(booster).reset()

    def _measured(self, booster: Any, at: int, on: Matrices) -> bool:
        """Whether training is over, by the metrics after a round: XGBoost's are the same in all tasks that train together."""
        for said in self._measure(booster, on.watched, at).split()[1:]:
            name, _, value = said.rpartition(":")
            split, _, metric = name.partition("-")
            self.curves.setdefault(split, {}).setdefault(metric, []).append(float(value))
        return any(callback.after_iteration(booster, at, self.curves) for callback in self._callbacks.callbacks)

    def _heard(self, booster: Any, curves: dict[str, dict[str, list[float]]]) -> bool:
        """Whether training is over; callbacks hear of the rounds that were there, one after another."""
        over = False
        for at in range(self.found):
            for split, metrics in curves.items():
                for name, values in metrics.items():
                    self.curves.setdefault(split, {}).setdefault(name, []).append(values[at])
            over = any(callback.after_iteration(booster, at, self.curves) for callback in self._callbacks.callbacks)
        return over


def kept(learning: Learning[BoostedTrees]) -> Keeping:
    """Where a training in one task keeps how far it has come."""
    return Keeping(learning.checkpoint if can_go_on(learning) else None)


def can_go_on(learning: Learning[BoostedTrees]) -> bool:
    """Whether trees follow from the rows and the seeds of blocks alone, and the sums from a CPU, whose order is known."""
    return learning.backend == "cpu" and follows_from_seeds(learning)


def _written(booster: Any, curves: dict[str, Any]) -> bytes:
    """A booster and its history, as the bytes of an npz file."""
    content, history = bytes(booster.save_raw("ubj")), json.dumps(curves).encode()
    file = io.BytesIO()
    np.savez(file, booster=np.frombuffer(content, np.uint8), curves=np.frombuffer(history, np.uint8))
    return file.getvalue()


def _read(content: bytes | None) -> tuple[bytearray, Any] | None:
    """The booster's bytes and its history; None where nothing was kept, or what is there is torn."""
    if content is None:
        return None
    try:
        arrays = np.load(io.BytesIO(content), allow_pickle=False)
        return bytearray(arrays["booster"].tobytes()), json.loads(arrays["curves"].tobytes())
    except (BadZipFile, ValueError, KeyError):
        return None
