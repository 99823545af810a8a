"""A network as ONNX: numbers standardized, codes embedded and an image's pixels folded inside, as it takes them, then layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.backend.neural import arrays_of
from pipeline.stages.models._exported.graph import FEATURES, RESULT, Graph, Nodes
from pipeline.stages.models._network.layout import Layout

Array = np.ndarray[Any, Any]

LINKS = {"binary": "Sigmoid", "multiclass": "Softmax"}


def graph_of_network(description: Mapping[str, Any], content: bytes) -> Graph:
    """The graph of a network as it was saved."""
    made = Layers(arrays_of(content), description["network"]["activation"])
    layout = Layout.told(description)
    numbers = made.numbers([*layout.numbers]) if layout.numbers else ""
    entered = (
        made.folded(numbers, description["network"]["picture"]) if description["network"].get("picture") else [numbers] * bool(numbers)
    )
    entered += [made.embedded(place, column) for place, column in enumerate(layout.codes)]
    values = made.node("Concat", *entered, axis=1)
    hidden = len(description["network"]["layers"])
    for place in range(hidden):
        values = made.active(made.dense(place, values))
    made.answer(made.dense(hidden, values), description["objective"])
    return made.graph()


class Layers(Nodes):
    """The nodes of a network while they are put together."""

    def __init__(self, arrays: Mapping[str, Array], activation: str) -> None:
        super().__init__()
        self.arrays, self.activation = arrays, activation

    def numbers(self, columns: list[int]) -> str:
        """The numbers, standardized in 64 bits, 0 (the mean) where missing."""
        wide = self.cast(self.node("Gather", FEATURES, self.constant("_numbers", columns), axis=1), np.float64)
        apart = self.node("Sub", wide, self.constant("_mean", self.arrays["mean"]))
        ours = self.node("Div", apart, self.constant("_scale", self.arrays["scale"]))
        return self.cast(self.there(ours, self.constant("_nothing", 0.0)), np.float32)

    def embedded(self, place: int, column: int) -> str:
        """The embeddings of a column of codes: row 0 for a missing one, else one more than the code."""
        code = self.node("Gather", FEATURES, self.constant(f"_codes_{place}", column), axis=1)
        row = self.there(self.node("Add", code, self.constant("_one", np.float32(1))), self.constant("_none", np.float32(0)))
        table = self.constant(f"_embedding_{place}", self.arrays[f"embeddings_{place}/embedding"])
        return self.node("Gather", table, self.cast(row, np.int64), axis=0)

    def folded(self, numbers: str, picture: Mapping[str, Any]) -> list[str]:
        """What convolutions make of the pixels, which are the first numbers, and the other numbers."""
        height, width, channels = (picture[name] for name in ("height", "width", "channels"))
        edges = [self.constant(f"_edge_{place}", [edge]) for place, edge in enumerate((0, height * width * channels, 2**31 - 1))]
        columns = self.constant("_columns", [1])
        pixels, others = (self.node("Slice", numbers, *some, columns) for some in (edges[:2], edges[1:]))
        shaped = self.node("Reshape", pixels, self.constant("_image", [-1, height, width, channels]))
        values = self.node("Transpose", shaped, perm=[0, 3, 1, 2])  # ONNX has channels first
        for place, (_, size, pool) in enumerate(picture["convolutions"]):
            kernel = self.arrays[f"picture/convolutions_{place}/kernel"].transpose(3, 2, 0, 1)
            weights = (
                self.constant(f"_filters_{place}", kernel),
                self.constant(f"_shift_{place}", self.arrays[f"picture/convolutions_{place}/bias"]),
            )
            values = self.active(self.node("Conv", values, *weights, kernel_shape=[size, size], auto_pad="SAME_UPPER"))
            if pool > 1:
                values = self.node("MaxPool", values, kernel_shape=[pool, pool], strides=[pool, pool])
        return [self.node("Flatten", self.node("Transpose", values, perm=[0, 2, 3, 1])), others]

    def dense(self, place: int, values: str) -> str:
        """A layer's products and its biases."""
        kernel, bias = (self.constant(f"_{kind}_{place}", self.arrays[f"layers_{place}/{kind}"]) for kind in ("kernel", "bias"))
        return self.node("Gemm", values, kernel, bias)

    def active(self, values: str) -> str:
        """What follows a hidden layer, as Flax has it: its gelu is the one by tanh."""
        if self.activation == "silu":
            return self.node("Mul", values, self.node("Sigmoid", values))
        if self.activation == "gelu":
            return self.node("Gelu", values, approximate="tanh")
        return self.node({"relu": "Relu", "tanh": "Tanh"}[self.activation], values)

    def answer(self, values: str, objective: str) -> str:
        """Probabilities, or values in the target's units."""
        if objective in LINKS:
            return self.node(LINKS[objective], values, name=RESULT)
        mean, scale = self.arrays["target"]
        scaled = self.node("Mul", values, self.constant("_target_scale", np.float32(scale)))
        return self.node("Add", scaled, self.constant("_target_mean", np.float32(mean)), name=RESULT)
