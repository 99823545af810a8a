"""Predictions of a trained network: one program, always for the same number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pipeline.backend.devices import Backend
from pipeline.backend.neural import neural_devices, run_single
from pipeline.neural.objectives import answers
from pipeline.neural.perceptron import Perceptron, Shape, variables
from pipeline.neural.saved import Trained

Array = Any

ROWS, NUMBERS = 4_096, 2**24
"""Rows that are predicted at once, fewer of images, so that a layer has no more than so many numbers."""


class NetworkPredictor:
    """A network that predicts on the backend's device, in float32; so many rows `at_once`, by default the model's own number."""

    def __init__(self, trained: Trained, backend: Backend, at_once: int | None = None) -> None:
        self.trained, self._backend = trained, backend
        self._at_once = at_once or rows_at_once(trained.shape)

    def predict(self, features: Array) -> Array:
        """Predictions float32 [rows] or [rows, classes] of float32 [rows, features], NaN where missing."""
        return self.of_inputs(*self.trained.inputs.taken(features))

    def of_inputs(self, numbers: Array, codes: Array) -> Array:
        """Predictions of rows as the network takes them."""
        program = _predicting(self.trained.shape, self.trained.objective)
        pieces = [*batched(program, self.trained.parameters, (numbers, codes), self._backend, self._at_once)]
        mean, scale = self.trained.target
        return (
            (np.concatenate(pieces) * scale + mean).astype(np.float32) if self.trained.objective == "regression" else np.concatenate(pieces)
        )


def rows_at_once(shape: Shape) -> int:
    """How many rows are predicted at once, the last ones with as many more as are missing.

    It is the model's own number: a program compiles once, and gives a row the same whatever rows stand beside it.
    """
    return max(1, min(ROWS, NUMBERS // shape.picture.largest)) if shape.picture else ROWS


def rows_to_watch(shape: Shape, rows: int) -> int:
    """How many rows at once where these alone are looked at: of images no more than the power of two that holds them."""
    return min(rows_at_once(shape), 1 << max(rows - 1, 0).bit_length()) if shape.picture else rows_at_once(shape)


def batched(
    program: Callable[..., Array], parameters: Any, rows: tuple[Array, Array], backend: Backend, at_once: int = ROWS
) -> Iterator[Array]:
    """What a program gives for so many rows at a time, in the host's memory; one piece at least."""
    (device,) = neural_devices(backend)
    placed = jax.device_put(parameters, device)
    height = len(rows[0])
    for start in range(0, max(height, 1), at_once):
        given = [jax.device_put(padded(array[start : start + at_once], at_once), device) for array in rows]
        yield np.asarray(run_single(program, placed, *given))[: min(at_once, height - start)]


def padded(array: Array, rows: int) -> Array:
    """The array with so many rows, zeros after its own."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)]) if len(array) < rows else array


@cache
def _predicting(shape: Shape, objective: str) -> Callable[..., Array]:
    network = Perceptron(shape)

    def program(parameters: Any, numbers: Array, codes: Array) -> Array:
        """The answers of rows."""
        return answers(objective, network.apply(variables(parameters), numbers, codes)).astype(jnp.float32)

    return jax.jit(program)
