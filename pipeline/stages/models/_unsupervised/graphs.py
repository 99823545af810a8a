"""Models of points as graphs of ONNX: rows are scaled inside, in 64 bits, as training scaled them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.kernels.distances import TIED
from pipeline.kernels.moments import Scaling
from pipeline.stages.models._exported.graph import FEATURES, RESULT, Graph

Array = Any


class Nodes:
    """The nodes of a graph while they are put together, and the constants that they name."""

    def __init__(self) -> None:
        self.nodes, self.constants = list[Any](), dict[str, Array]()

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """One more node; the name of what it gives."""
        from onnx import helper

        name = name or f"_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """A constant, by its name: floats in 64 bits."""
        name = f"_constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def cast(self, values: str, kind: type[np.generic]) -> str:
        """The same in another type."""
        from onnx import helper

        return self.node("Cast", values, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def scaled(self, by: Scaling, missing: str) -> str:
        """The rows as `scaled` has them."""
        rows = FEATURES
        if missing == "mean":
            rows = self.node("Where", self.node("IsNaN", rows), self.constant(by.fill), rows)
        apart = self.node("Sub", self.node("Mul", rows, self.constant(by.unit)), self.constant(by.center))
        return self.node("Div", apart, self.constant(by.scale))

    def squares(self, values: str) -> str:
        """Sums of squares of rows, `[rows, 1]`."""
        return self.node("ReduceSumSquare", values, self.constant(np.array([1])))

    def first(self, found: str) -> str:
        """The place of the first that is true, `int64[rows, 1]`."""
        return self.node("ArgMax", self.cast(found, np.float32), axis=1, keepdims=1)

    def done(self, *columns: str) -> Graph:
        """The graph whose result these columns are, side by side."""
        self.node("Concat", *columns, name=RESULT, axis=1)
        return Graph(self.nodes, self.constants)


def graph_of_axes(scaling: Scaling, arrays: Mapping[str, Array], missing: str) -> Graph:
    """Scaled rows times axes."""
    made = Nodes()
    made.node("MatMul", made.scaled(scaling, missing), made.constant(arrays["axes"]), name=RESULT)
    return Graph(made.nodes, made.constants)


def graph_of_centers(scaling: Scaling, arrays: Mapping[str, Array], missing: str) -> Graph:
    """The first of the nearest centers, and the distance to it."""
    made, centers = Nodes(), arrays["centers"]
    points, lengths = made.scaled(scaling, missing), (centers**2).sum(axis=1)
    products = made.node("Add", made.node("MatMul", points, made.constant(-2 * centers.T)), made.constant(lengths))
    low = made.node("ReduceMin", products, made.constant(np.array([1])))
    slack = made.node("Mul", made.node("Add", made.squares(points), made.constant(lengths.max())), made.constant(TIED))
    chosen = made.first(made.node("LessOrEqual", products, made.node("Add", low, slack)))
    center = made.node("Gather", made.constant(centers), made.node("Squeeze", chosen, made.constant(np.array([1]))), axis=0)
    distance = made.node("Sqrt", made.squares(made.node("Sub", points, center)))
    return made.done(made.cast(chosen, np.float64), made.node("Mul", distance, made.constant(arrays["unit_distance"])))


def graph_of_mixture(scaling: Scaling, arrays: Mapping[str, Array], kind: str, missing: str, equal: float) -> Graph:
    """The first of the likeliest components, log density, and probabilities."""
    made, (clusters, features) = Nodes(), arrays["means"].shape
    points, columns = made.scaled(scaling, missing), []
    for number in range(clusters):
        factor = arrays["factors"] if kind == "tied" else arrays["factors"][number]
        scale = np.log(factor if kind == "diagonal" else np.diagonal(factor)).sum()
        apart = made.node("Sub", points, made.constant(arrays["means"][number]))
        unit = made.node("Mul" if kind == "diagonal" else "MatMul", apart, made.constant(factor))
        level = np.log(arrays["weights"][number]) + scale - 0.5 * features * np.log(2 * np.pi)
        columns.append(made.node("Add", made.node("Mul", made.squares(unit), made.constant(-0.5)), made.constant(level)))
    found, axis = made.node("Concat", *columns, axis=1), made.constant(np.array([1]))
    most = made.node("ReduceMax", found, axis)
    shares = made.node("Exp", made.node("Sub", found, most))
    total = made.node("ReduceSum", shares, axis)
    shares = made.node("Div", shares, total)
    density = made.node("Sub", made.node("Add", most, made.node("Log", total)), made.constant(arrays["log_unit"]))
    high = made.node("Sub", made.node("ReduceMax", shares, axis), made.constant(equal))
    likeliest = made.first(made.node("GreaterOrEqual", shares, high))
    return made.done(made.cast(likeliest, np.float64), density, shares)
