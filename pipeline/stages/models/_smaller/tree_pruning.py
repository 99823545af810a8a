"""Boosted trees with less in them: the first rounds alone, or trees without the splits that gained least, cut by XGBoost's own updater."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.backend.boosting import import_xgboost
from pipeline.stages.models._smaller.forms import Form, Ladder

THRESHOLDS = 64
"""Steps of gain at which splits are cut: shares of all splits, evenly."""
OF_NODES = (
    "base_weights", "default_left", "left_children", "loss_changes", "parents", "right_children", "split_conditions", "split_indices",
    "split_type", "sum_hessian",
)  # fmt: skip
ROOT_PARENT = 2**31 - 1


def fewer_rounds(content: bytes) -> Ladder:
    """The booster's first rounds: step k has k of them."""
    booster = _loaded(content)
    rounds = booster.num_boosted_rounds()

    def at(step: int) -> Form:
        """The first rounds."""
        return Form(bytes(booster[:step].save_raw("ubj")), f"{step:,} of {rounds:,} rounds", {"trees_used": step})

    return Ladder(rounds, at)


def fewer_leaves(content: bytes, rate: float) -> Ladder:
    """The booster's trees, cut back from their leaves where a split gained less than a threshold; `rate` is that of learning."""
    booster = _loaded(content)
    trees = _trees(json.loads(booster.save_raw("json")))
    gains = np.sort([gain for tree in trees for gain in _gains(tree)])
    leaves = sum(map(_leaves, trees))

    def at(step: int) -> Form:
        """All rounds, with a share of their splits, those that gained most and what leads to them."""
        place = len(gains) * (THRESHOLDS - step) // THRESHOLDS
        threshold = 0.0 if step == THRESHOLDS or not len(gains) else float(gains[min(place, len(gains) - 1)])
        whole = json.loads(_cut(booster, threshold, rate).save_raw("json"))
        left = [_without_deleted(tree) for tree in _trees(whole)]
        whole["learner"]["gradient_booster"]["model"]["trees"] = left
        said = f"{sum(map(_leaves, left)):,} of {leaves:,} leaves"
        return Form(bytes(_loaded(json.dumps(whole).encode()).save_raw("ubj")), f"{said}, of splits that gained {threshold:.4g} or more")

    return Ladder(THRESHOLDS, at)


def _loaded(content: bytes) -> Any:
    booster = import_xgboost().Booster()
    booster.load_model(bytearray(content))
    return booster


def _trees(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = whole["learner"]["gradient_booster"]["model"]["trees"]
    return trees


def _cut(booster: Any, threshold: float, rate: float) -> Any:
    """The booster after XGBoost's updater `prune`, which looks at no rows: a split of two leaves goes where it gained less.

    A leaf made of a split has the weight that training had found for it, shrunk by the learning rate.
    """
    xgb = import_xgboost()
    about = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
    nothing = xgb.DMatrix(np.zeros((1, booster.num_features()), np.float32), [1.0], enable_categorical=True, nthread=1, **about)
    told = {"process_type": "update", "updater": "prune", "gamma": threshold, "learning_rate": rate, "max_depth": 0, "nthread": 1}
    with xgb.config_context(verbosity=0):  # it warns of every updater that is named
        return xgb.train(told, nothing, booster.num_boosted_rounds(), xgb_model=booster)


def _without_deleted(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree without the nodes that XGBoost has marked as deleted, and keeps in its file."""
    left, right = tree["left_children"], tree["right_children"]
    kept, waiting = list[int](), [0]
    while waiting:
        kept.append(node := waiting.pop())
        waiting += [left[node], right[node]] if left[node] >= 0 else []
    kept.sort()
    place = {node: number for number, node in enumerate(kept)} | {-1: -1, ROOT_PARENT: ROOT_PARENT}
    made = {**tree, **{name: [tree[name][node] for node in kept] for name in OF_NODES}}
    for name in ("left_children", "right_children", "parents"):
        made[name] = [place[node] for node in made[name]]
    made["split_type"] = [kind if left[node] >= 0 else 0 for node, kind in zip(kept, made["split_type"], strict=True)]
    made["tree_param"] = {**tree["tree_param"], "num_deleted": "0", "num_nodes": str(len(kept))}
    return {**made, **_categories(tree, {node: place[node] for node in kept if left[node] >= 0})}


def _categories(tree: Mapping[str, Any], place: Mapping[int, int]) -> dict[str, list[int]]:
    """The sets of codes of the nodes that have a place, in its order."""
    found: dict[str, list[int]] = {f"categories{name}": [] for name in ("", "_nodes", "_segments", "_sizes")}
    for node, start, size in zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True):
        if node in place:
            found["categories_nodes"].append(place[node])
            found["categories_segments"].append(len(found["categories"]))
            found["categories_sizes"].append(size)
            found["categories"] += tree["categories"][start : start + size]
    return found


def _gains(tree: Mapping[str, Any]) -> Sequence[float]:
    """The gain of each of its splits."""
    return [gain for gain, left in zip(tree["loss_changes"], tree["left_children"], strict=True) if left >= 0]


def _leaves(tree: Mapping[str, Any]) -> int:
    count: int = tree["left_children"].count(-1)
    return count
