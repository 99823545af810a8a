"""Boosted trees as ONNX: XGBoost's own description of its trees, node by node, as one TreeEnsemble of ONNX-ML.

XGBoost goes left where a value is less than the split's, and where a code is not among the split's categories; ONNX's nodes say which way
is meant by true, so a numeric split's true is left, a set's true is right. Both say by node where a missing value goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.backend.boosting import import_xgboost
from pipeline.errors import DataError
from pipeline.stages.models._exported.graph import FEATURES, RESULT, Graph

LESS, MEMBER, SUM, NO_TRANSFORM = 1, 6, 1, 0  # ONNX-ML's numbers
IDENTITY, LOGISTIC, EXPONENTIAL, SOFTMAX = "Identity", "Sigmoid", "Exp", "Softmax"
OBJECTIVES = {
    **dict.fromkeys(
        ("reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror"), IDENTITY
    ),
    **dict.fromkeys(("rank:ndcg", "rank:map", "rank:pairwise", "binary:logitraw"), IDENTITY),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), LOGISTIC),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), EXPONENTIAL),
    "multi:softprob": SOFTMAX,
}
"""The node of ONNX that makes a prediction of what the trees add up to."""


def graph_of_trees(content: bytes) -> Graph:
    """The graph of a booster as it was saved. Raises DataError, with the reason, where ONNX has no words for it."""
    from onnx import helper

    booster = import_xgboost().Booster()
    booster.load_model(bytearray(content))
    learner = json.loads(booster.save_raw("json"))["learner"]
    name, grown = str(learner["objective"]["name"]), learner["gradient_booster"]
    if name not in OBJECTIVES:
        raise DataError(f"XGBoost's objective {name!r} has no form in ONNX here. It has: {', '.join(OBJECTIVES)}.", key="model")
    if grown["name"] != "gbtree":
        raise DataError(f"the booster is {grown['name']!r}, and only trees of gbtree are written as ONNX", key="model")
    trees, targets = grown["model"]["trees"], grown["model"]["tree_info"]
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        raise DataError("the trees have leaves of several values, for which ONNX has no words. Train with one tree an output.", key="model")
    base = _base(learner["learner_model_param"]["base_score"], OBJECTIVES[name])
    attributes = _attributes(trees, targets)
    nodes = [
        helper.make_node(
            "TreeEnsemble", [FEATURES], ["_trees"], domain="ai.onnx.ml", n_targets=len(base), aggregate_function=SUM,
            post_transform=NO_TRANSFORM, **attributes,
        ),
        helper.make_node("Add", ["_trees", "_base"], ["_margin"]),
        helper.make_node(OBJECTIVES[name], ["_margin"], [RESULT]),
    ]  # fmt: skip
    return Graph(nodes, {"_base": base})


def _base(said: str, link: str) -> np.ndarray[Any, Any]:
    """What every sum of trees begins with, float32 [columns], of the base score that the model says."""
    score: np.ndarray[Any, Any] = np.atleast_1d(np.asarray(json.loads(said), np.float32))
    if link == LOGISTIC:
        score = -np.log(np.float32(1) / score - np.float32(1))
    elif link == EXPONENTIAL:
        score = np.log(score)
    return score


def _attributes(trees: Sequence[Mapping[str, Any]], targets: Sequence[int]) -> dict[str, Any]:
    """TreeEnsemble's attributes: inner nodes and leaves of all trees, each kind in a list of its own."""
    from onnx import numpy_helper

    made = Ensemble()
    for tree, target in zip(trees, targets, strict=True):
        made.add(tree, int(target))
    tensors: dict[str, tuple[list[Any], type[Any]]] = {
        "nodes_splits": (made.nodes.pop("splits"), np.float32),
        "nodes_modes": (made.nodes.pop("modes"), np.uint8),
        "leaf_weights": (made.weights, np.float32),
        **({"membership_values": (made.members, np.float32)} if made.members else {}),
    }
    return {
        "tree_roots": made.roots,
        "leaf_targetids": made.targets,
        **{f"nodes_{name}": values for name, values in made.nodes.items()},
        **{name: numpy_helper.from_array(np.asarray(values, kind)) for name, (values, kind) in tensors.items()},
    }


class Ensemble:
    """Trees as ONNX-ML has them while they are put together."""

    def __init__(self) -> None:
        names = ("featureids", "splits", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs", "missing_value_tracks_true")
        self.nodes: dict[str, list[Any]] = {name: [] for name in names}
        self.roots, self.targets = list[int](), list[int]()
        self.weights, self.members = list[float](), list[float]()

    def add(self, tree: Mapping[str, Any], target: int) -> None:
        """A tree of XGBoost's, for an output: its nodes from the root down, what is true first.

        So ONNX's own evaluator has them, which reads the sets of codes in the order that it comes upon their nodes.
        """
        left, right, splits, sets = tree["left_children"], tree["right_children"], tree["split_conditions"], _sets(tree)
        order, waiting = list[int](), [0]
        while waiting:
            order.append(node := waiting.pop())
            if left[node] >= 0:
                waiting += [left[node], right[node]] if node in sets else [right[node], left[node]]
        inner, leaves = [node for node in order if left[node] >= 0], [node for node in order if left[node] < 0]
        first = len(self.nodes["splits"])
        places = {node: (first + place, 0) for place, node in enumerate(inner)}
        places |= {node: (len(self.weights) + place, 1) for place, node in enumerate(leaves)}
        self.roots.append(first)
        self.weights += [splits[node] for node in leaves]
        self.targets += [target] * len(leaves)
        if not inner:  # a tree that is a leaf: both ways lead there
            self._node((0, 0.0, LESS), places[0], places[0], missing=0)
        for node in inner:
            ways, feature, default_left = (places[left[node]], places[right[node]]), tree["split_indices"][node], tree["default_left"][node]
            if node in sets:
                self.members += [*map(float, sets[node]), float("nan")]
                self._node((feature, 0.0, MEMBER), ways[1], ways[0], missing=1 - default_left)
            else:
                self._node((feature, splits[node], LESS), ways[0], ways[1], missing=default_left)

    def _node(self, split: tuple[int, float, int], true: tuple[int, int], false: tuple[int, int], *, missing: int) -> None:
        """An inner node: its split, and where true and false lead; `missing` is 1 where a missing value goes the way of true."""
        for name, value in zip(self.nodes, (*split, *true, *false, missing), strict=True):
            self.nodes[name].append(value)


def _sets(tree: Mapping[str, Any]) -> dict[int, list[int]]:
    """The categories of each node that splits by a set of them: its codes that go right."""
    about = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    return {node: tree["categories"][start : start + size] for node, start, size in about}
