"""A trained network as bytes, in the format safetensors: its parameters, and how numbers come in and go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from pipeline.errors import InputError
from pipeline.neural.inputs import Inputs
from pipeline.neural.perceptron import Parameters, Shape


@dataclass(frozen=True)
class Trained:
    """A network that was trained. What it gives is, of a regression, standardized: `target` are mean and scale, 0 and 1 else."""

    shape: Shape
    objective: str
    inputs: Inputs
    target: tuple[float, float]
    parameters: Parameters

    def saved(self) -> bytes:
        """Its arrays; shape, objective and columns stand in the file beside it."""
        arrays = {"mean": self.inputs.mean, "scale": self.inputs.scale, "target": np.array(self.target)}
        return save({**arrays, **{name: np.ascontiguousarray(value) for name, value in self.parameters.items()}})

    @staticmethod
    def read(content: bytes, shape: Shape, objective: str, columns: tuple[tuple[int, ...], tuple[int, ...]]) -> Trained:
        """Of what `saved` gave; `columns` are those of numbers and of codes. Raises InputError for other bytes."""
        try:
            arrays: dict[str, Any] = load(content)
            mean, scale, target = (arrays.pop(name) for name in ("mean", "scale", "target"))
        except (SafetensorError, KeyError) as error:
            raise InputError(f"the network's file cannot be read ({error}). Train the model again.") from error
        return Trained(shape, objective, Inputs(*columns, mean, scale), (float(target[0]), float(target[1])), arrays)
