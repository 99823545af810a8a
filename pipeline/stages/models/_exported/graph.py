"""ONNX: a model's graph put together from its nodes, and an ONNX file that predicts by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from pipeline.errors import InputError, PlaceError
from pipeline.stages.models._unfolded.columns import matrix_names

OPSET, TREES_OPSET, IR_VERSION = 21, 5, 10  # of 2024: what runtimes since then read
FEATURES, RESULT = "features", "result"


def need_exchange() -> None:
    """Raise PlaceError, with what to install, where a library of the formats that models are exported to is not installed."""
    for library in ("onnx", "onnxruntime", "treelite"):
        if find_spec(library) is None:
            raise PlaceError(f"{library} is not installed. Install it with: pip install '.[export]'")


@dataclass(frozen=True)
class Graph:
    """Nodes that lead from the tensor FEATURES `[rows, features]` to `result` `[rows, columns]`, and the constants that they name."""

    nodes: Sequence[Any]
    constants: Mapping[str, np.ndarray[Any, Any]]
    result: str = RESULT

    def logistic(self) -> Graph:
        """The graph whose result are the probabilities of what were log-odds."""
        from onnx import helper

        return Graph([*self.nodes, helper.make_node("Sigmoid", [self.result], ["_probability"])], self.constants, "_probability")


class Nodes:
    """The nodes of a graph while they are put together, and the constants that they name."""

    def __init__(self) -> None:
        self.nodes, self.constants = list[Any](), dict[str, np.ndarray[Any, Any]]()

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """One more node; the name of what it gives."""
        from onnx import helper

        name = name or f"_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, name: str, value: Any) -> str:
        """A constant, by its name."""
        self.constants[name] = np.asarray(value)
        return name

    def cast(self, values: str, kind: type[np.generic]) -> str:
        """The same in another type."""
        from onnx import helper

        return self.node("Cast", values, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def there(self, values: str, otherwise: str) -> str:
        """Values where they are there, and a constant where they are missing."""
        return self.node("Where", self.node("IsNaN", values), otherwise, values)

    def graph(self) -> Graph:
        """The graph of them all."""
        return Graph(self.nodes, self.constants)


def onnx_file(graph: Graph, description: Mapping[str, Any]) -> bytes:
    """The ONNX file of a model: one input, `features`, and an output `[rows]` for every column of predictions, named like it.

    Its properties say what the features are, in their order. The same model gives the same bytes.
    """
    from onnx import checker, helper, numpy_helper

    columns = list(description["predicts"])
    number = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32 if description["precision"] == "Float32" else np.float64))
    rows = [helper.make_tensor_value_info(name, number, ["rows"]) for name in columns]
    names = matrix_names(description)
    made = helper.make_graph(
        [*graph.nodes, *_apart(graph.result, columns)],
        str(description["model"]).rpartition(".")[0],
        [helper.make_tensor_value_info(FEATURES, number, ["rows", len(names)])],
        rows,
        [numpy_helper.from_array(np.asarray(value), name) for name, value in {**graph.constants, "_axis": np.array([1])}.items()],
    )
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREES_OPSET)]
    model = helper.make_model(made, opset_imports=imports, ir_version=IR_VERSION, producer_name="gpu-table-pipeline")
    helper.set_model_props(model, {"features": "\n".join(names), "target": str(description.get("target", ""))})
    checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _apart(result: str, columns: Sequence[str]) -> list[Any]:
    """The nodes that make an output of each column of a result."""
    from onnx import helper

    if len(columns) == 1:
        return [helper.make_node("Squeeze", [result, "_axis"], columns)]
    pieces = [f"_column_{number}" for number in range(len(columns))]
    split = helper.make_node("Split", [result], pieces, axis=1, num_outputs=len(columns))
    return [split, *(helper.make_node("Squeeze", [piece, "_axis"], [name]) for piece, name in zip(pieces, columns, strict=True))]


class OnnxPredictor:
    """An ONNX file that predicts by onnxruntime, on one thread: the tasks are the parallelism. It travels between workers as its bytes."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime
        from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, InvalidProtobuf

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors; it warns of GPUs that it cannot look at
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except (Fail, InvalidArgument, InvalidGraph, InvalidProtobuf) as error:
            raise InputError(f"this is no ONNX file that onnxruntime reads ({error}). Export the model again.") from error
        self._content = content

    def __reduce__(self) -> tuple[type[OnnxPredictor], tuple[bytes]]:
        return type(self), (self._content,)

    def predict(self, features: Any) -> np.ndarray[Any, Any]:
        """Predictions [rows] or [rows, columns] of [rows, features]."""
        found = self._session.run(None, {FEATURES: np.ascontiguousarray(features)})
        predicted: np.ndarray[Any, Any] = found[0] if len(found) == 1 else np.column_stack(found)
        return predicted
