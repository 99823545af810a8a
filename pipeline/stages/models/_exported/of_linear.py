"""A linear model as ONNX, in 64 bits: slopes of numbers, effects of codes, and the link of its family."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.stages.models._exported.graph import FEATURES, RESULT, Graph, Nodes
from pipeline.stages.models._linear.model import LinearModel

LINKS = {"normal": "Identity", "binomial": "Sigmoid", "poisson": "Exp", "gamma": "Exp", "multinomial": "Softmax", "base_class": "Softmax"}


def graph_of_linear(model: LinearModel, family: str) -> Graph:
    """The graph of a linear model with the link of its family."""
    made = Nodes()
    apart = made.node("Sub", FEATURES, made.constant("_means", model.means))
    numbers = made.there(apart, made.constant("_nothing", 0.0))
    predictor = made.node("MatMul", numbers, made.constant("_slopes", model.slopes))
    predictor = made.node("Add", predictor, made.constant("_at_base", model.at_base))
    for place in np.unique(model.code_places).tolist():
        predictor = made.node("Add", predictor, _effects(made, model, place))
    made.node(LINKS[family], predictor, name=RESULT)
    return made.graph()


def _effects(made: Nodes, model: LinearModel, place: int) -> str:
    """The effects of a feature's codes: its last row, of nothing, is that of a code that is missing or that training did not have."""
    mine = model.code_places == place
    last = int(model.codes[mine].max()) + 1
    table: np.ndarray[Any, Any] = np.zeros((last + 1, model.code_slopes.shape[1]))
    table[model.codes[mine]] = model.code_slopes[mine]
    beyond = made.constant(f"_beyond_{place}", float(last))
    codes = made.node("Gather", FEATURES, made.constant(f"_place_{place}", place), axis=1)
    rows = made.cast(made.node("Min", made.there(codes, beyond), beyond), np.int64)
    return made.node("Gather", made.constant(f"_effects_{place}", table), rows, axis=0)
