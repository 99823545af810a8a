"""Boosting round by round, from where a run that was killed stood: the same trees, bit for bit, as if it had not been.

XGBoost's own `train` counts the rounds of a booster that goes on from 0, and forgets the best one. What it draws (rows, columns) follows
from all draws before, which no booster keeps: so rounds that draw go in blocks, each of which begins with a seed of its own, and with
samplers that have drawn nothing. A training goes on from the end of a block.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pipeline.backend.boosting import import_xgboost
from pipeline.results.checkpoints import Keeping
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.matrices import Matrices

PLAIN = {
    "alpha", "gamma", "grow_policy", "max_bin", "max_cat_threshold", "max_cat_to_onehot", "max_delta_step", "max_leaves", "min_split_loss",
    "reg_alpha", "scale_pos_weight",
}  # fmt: skip
"""XGBoost's parameters that draw nothing."""
DRAWING = {"colsample_bylevel", "colsample_bynode", "num_parallel_tree"}
"""Those whose draws follow from the seed of their block; of others nothing is known."""
BLOCK = 16
"""Rounds of a block: how many a training that draws may lose."""


class Boosting:
    """One training: how it is told, where it keeps how far it has come, and its metrics so far by split; `found` rounds were there."""

    def __init__(self, learning: Learning[BoostedTrees], native: dict[str, Any], callbacks: list[Any]) -> None:
        """`callbacks` are XGBoost's, and hear of the rounds that were there, too."""
        self._xgb, self._native, self._rounds = import_xgboost(lean=learning.lean), native, learning.stage.rounds
        self._callbacks = self._xgb.callback.CallbackContainer(callbacks)
        self._keeping = Keeping(learning.checkpoint if can_go_on(learning) else None)
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
            booster.update(on.train, at)
            if self._callbacks.after_iteration(booster, at, on.train, on.watched):
                break
            if not (self._in_blocks and (at + 1) % BLOCK) and self._keeping.due():
                self._keeping.keep(partial(_written, booster, self.curves))
        return self._callbacks.after_training(booster).reset()

    def _heard(self, booster: Any, curves: dict[str, dict[str, list[float]]]) -> bool:
        """Whether training is over; callbacks hear of the rounds that were there, one after another."""
        over = False
        for at in range(self.found):
            for split, metrics in curves.items():
                for name, values in metrics.items():
                    self.curves.setdefault(split, {}).setdefault(name, []).append(values[at])
            over = any(callback.after_iteration(booster, at, self.curves) for callback in self._callbacks.callbacks)
        return over


def begin_block(booster: Any, native: Mapping[str, Any], block: int) -> None:
    """Have the rounds of a block draw by a seed of its own, whatever was drawn before.

    The updaters of trees have samplers that draw on and on; XGBoost makes new ones where the tree method changes, and keeps all the rest
    (the rows' sums so far). It looks at its parameters when its configuration is asked for.
    """
    booster.set_param({"tree_method": "approx"})
    booster.save_config()
    booster.set_param({"tree_method": native["tree_method"], "seed": seed_of(native["seed"], block)})
    booster.save_config()


def seed_of(seed: int, block: int) -> int:
    """The seed of a block: the job's for the first, another one for each that follows."""
    if not block:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed} {block}".encode(), digest_size=4).digest()) >> 1


def can_go_on(learning: Learning[BoostedTrees]) -> bool:
    """Whether trees follow from the rows and the seeds of blocks alone, and the sums from a CPU, whose order is known."""
    return learning.backend == "cpu" and follows_from_seeds(learning)


def follows_from_seeds(learning: Learning[BoostedTrees]) -> bool:
    """Whether all that is drawn follows from the seeds of blocks; a GPU draws by them, too, though it keeps nothing."""
    return {*learning.stage.parameters} <= PLAIN | DRAWING


def draws_nothing(learning: Learning[BoostedTrees]) -> bool:
    """Whether trees follow from the rows alone."""
    stage = learning.stage
    return stage.subsample == stage.colsample == 1 and {*stage.parameters} <= PLAIN


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
