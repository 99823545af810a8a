"""What one of several tasks that train together has: some of the rows, cut as all rows are, and its place in XGBoost's collective."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import to_device
from pipeline.backend.boosting import import_xgboost, make_room
from pipeline.backend.glibc import freed_stays
from pipeline.results.checkpoints import Checkpoint, Keeping
from pipeline.stages.models._trees.blocks import follows_from_seeds
from pipeline.stages.models._trees.booster import Curves, Trees, native, stopping, telling
from pipeline.stages.models._trees.cuts import reference
from pipeline.stages.models._trees.draws import Draws
from pipeline.stages.models._trees.matrices import Matrices, data_iter
from pipeline.stages.models._trees.parameters import said
from pipeline.stages.models._trees.ranked import ORDERING, Ranked, eval_set
from pipeline.stages.models._trees.resuming import Boosting, can_go_on
from pipeline.stages.models._trees.tracker import RETRIES, TIMEOUT_S, met
from pipeline.tables.together import LostError

Trained = tuple[bytes, Curves, int]
"""The model's bytes, how its metrics went, and rounds that were there already."""


class Block(NamedTuple):
    """Rows of one split of one part: features [rows, features], labels, weights (None: all the same), places among all training rows."""

    features: Any
    labels: Any
    weights: Any
    places: Any


@dataclass(frozen=True)
class Common:
    """What all tasks know: the features' names, the values that cut them, XGBoost's base_score, and where training stood last."""

    names: list[str]
    cuts: list[Any]
    intercept: str
    last: bytes | None


@dataclass(frozen=True)
class Standing:
    """Where the first task keeps what all of them began with."""

    found: bytes | None
    checkpoint: Checkpoint

    def last(self) -> bytes | None:
        """What all tasks began with."""
        return self.found

    def keep(self, content: bytes) -> None:
        """Keep this instead."""
        self.checkpoint.keep(content)


class Following(Keeping):
    """Of a task that begins with the others and leaves the keeping to the first."""

    def due(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True)
class Shards:
    """A task of one worker, which has these of `count` shards; those beside the first in threads of their own.

    A shard is the same rows in the same place of the collective whichever worker has it.
    """

    learning: Trees
    numbers: tuple[int, ...]
    count: int
    tracker: Mapping[str, Any]

    def __call__(self, blocks: Sequence[Mapping[str, Sequence[Block]]], common: Common) -> Trained | None:
        """The model, of the task that has the first shard. Raises LostError where the others are gone."""
        make_room(self.learning.backend)
        with met(self.tracker), ThreadPoolExecutor(max(1, len(self.numbers) - 1)) as pool:
            beside = [pool.submit(self._trained, number, of, common) for number, of in zip(self.numbers[1:], blocks[1:], strict=True)]
            found = self._trained(self.numbers[0], blocks[0], common)
            for one in beside:
                one.result()
        return found

    def _trained(self, number: int, blocks: Mapping[str, Sequence[Block]], common: Common) -> Trained | None:
        xgb, learning = import_xgboost(lean=self.learning.lean), self.learning
        rank = {"dmlc_task_id": f"{number:08d}", "dmlc_timeout": TIMEOUT_S, "dmlc_retry": RETRIES}  # ranks go by the order of these names
        try:
            with xgb.config_context(verbosity=0), freed_stays():
                on = matrices(learning, blocks, common)
                with xgb.collective.CommunicatorContext(**self.tracker, **rank) if self.count > 1 else nullcontext():
                    callbacks = [*stopping(learning), *([telling(learning)] if number == self.numbers[0] else [])]
                    told, keeping = told_of(learning, common), self._keeping(number, common)
                    ranks = self.count > 1 and told["eval_metric"] in ORDERING
                    measure = Ranked(told, number, self.count) if ranks else eval_set
                    boosting = Boosting(learning, told, callbacks, keeping, measure)
                    booster = boosting.trained(on)
        except xgb.core.XGBoostError as error:
            raise LostError(f"XGBoost says: {said(error)}", stage=learning.name) from error
        return (_saved(booster, learning), boosting.curves, boosting.found) if number == 0 else None

    def _keeping(self, number: int, common: Common) -> Keeping:
        """Where this shard finds how far training had come, and the first one keeps it."""
        checkpoint = self.learning.checkpoint
        if checkpoint is None or not can_go_on(self.learning):
            return Keeping(None)
        return (Following if number else Keeping)(Standing(common.last, checkpoint))


def told_of(learning: Trees, common: Common) -> dict[str, Any]:
    """XGBoost's parameters: what follows from all rows is given."""
    return {**native(learning), "base_score": common.intercept, **({"subsample": 1.0} if draws_rows(learning) else {})}


def draws_rows(learning: Trees) -> bool:
    """Whether rows are drawn by their places among all; XGBoost draws them where a round has several trees of one output."""
    forest = learning.stage.parameters.get("num_parallel_tree", 1) != 1
    return learning.stage.subsample < 1 and follows_from_seeds(learning) and not forest


def matrices(learning: Trees, blocks: Mapping[str, Sequence[Block]], common: Common) -> Matrices:
    """The shard's rows, in bins that were cut before: made outside of the collective, they follow from these rows alone."""
    xgb, cuts = import_xgboost(lean=learning.lean), reference(learning, common.names, common.cuts)
    about = {"feature_names": common.names, "feature_types": learning.stage.feature_types(common.names)}
    options = {"max_bin": learning.stage.max_bin, "enable_categorical": True, "nthread": learning.threads}

    def of(split: str) -> Any:
        """The matrix of one split."""

        def batches() -> Iterator[tuple[Any, Block]]:
            """Its blocks."""
            return ((to_device(block.features, learning.backend), block) for block in blocks[split])

        def given(block: Block) -> dict[str, Any]:
            """What XGBoost is told of a block's rows."""
            return {"label": block.labels, "weight": block.weights, **about}

        return xgb.QuantileDMatrix(data_iter(xgb, batches, given), ref=cuts, **options)

    train = of("train")
    watched = [(of("validation"), "validation")] if blocks["validation"] else []
    return Matrices(
        train, [(train, "train"), *watched] if learning.stage.watch == "both" else watched, draws=_draws(learning, blocks["train"])
    )


def _draws(learning: Trees, blocks: Sequence[Block]) -> Draws | None:
    if not draws_rows(learning):
        return None
    places, labels = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("places", "labels"))
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    return Draws(learning.seed, learning.stage.subsample, len(learning.stage.classes), places, labels, weights)


def _saved(booster: Any, learning: Trees) -> bytes:
    """The model's bytes. It does not say that its base_score was given: one task finds the same by itself."""
    text = json.loads(bytes(booster.save_raw("json")))
    text["learner"]["learner_model_param"]["boost_from_average"] = "1"
    same = import_xgboost(lean=learning.lean).Booster()
    same.load_model(bytearray(json.dumps(text).encode()))
    return bytes(same.save_raw(learning.stage.suffix))
