"""What networks are trained for: a row's loss from what the network gives, and the prediction that it means."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

Array = Any


def losses(objective: str, given: Array, targets: Array) -> Array:
    """Loss of each row, float32 [rows], of what the network gives [rows, outputs] and targets [rows].

    regression: half the squared error; binary and multiclass: the negative log likelihood of 0 and 1, or of class numbers.
    """
    if objective == "regression":
        return (given[:, 0] - targets) ** 2 / 2
    if objective == "binary":
        return optax.sigmoid_binary_cross_entropy(given[:, 0], targets)
    return optax.softmax_cross_entropy_with_integer_labels(given, targets.astype(jnp.int32))


def answers(objective: str, given: Array) -> Array:
    """A value or a probability a row, [rows]; of several classes one a class, [rows, classes]."""
    if objective == "multiclass":
        return jax.nn.softmax(given, axis=1)
    return jax.nn.sigmoid(given[:, 0]) if objective == "binary" else given[:, 0]
