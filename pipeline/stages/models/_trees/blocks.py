"""What trees draw, rows and columns, goes in blocks of rounds, each with a seed of its own: a training may go on from the end of one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pipeline.stages.models._learning import Learning
from pipeline.stages.models._trees.boosted_trees import BoostedTrees

PLAIN = {
    "alpha", "gamma", "grow_policy", "max_bin", "max_cat_threshold", "max_cat_to_onehot", "max_delta_step", "max_leaves", "min_split_loss",
    "reg_alpha", "scale_pos_weight",
}  # fmt: skip
"""XGBoost's parameters that draw nothing."""
DRAWING = {"colsample_bylevel", "colsample_bynode", "num_parallel_tree"}
"""Those whose draws follow from the seed of their block; of others nothing is known."""
BLOCK = 16
"""Rounds of a block: how many a training that draws may lose."""


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


def follows_from_seeds(learning: Learning[BoostedTrees]) -> bool:
    """Whether all that is drawn follows from the seeds of blocks; a GPU draws by them, too, though it keeps nothing."""
    return {*learning.stage.parameters} <= PLAIN | DRAWING


def draws_nothing(learning: Learning[BoostedTrees]) -> bool:
    """Whether trees follow from the rows alone."""
    stage = learning.stage
    return stage.subsample == stage.colsample == 1 and {*stage.parameters} <= PLAIN
