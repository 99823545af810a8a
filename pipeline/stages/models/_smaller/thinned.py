"""A network's weights with the smallest left out: of each matrix the values that stay, and a bit a weight that says where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.backend.neural import arrays_of, file_of
from pipeline.errors import DataError, InputError
from pipeline.stages.models._smaller.forms import Form, Ladder

Array = np.ndarray[Any, Any]

SHARES = 64
"""Steps of the share of weights that stay, evenly."""
WHERE, VALUES = ":where", ":values"


def thinned(content: bytes) -> Ladder:
    """The network with fewer and fewer of each matrix's weights, those of the greatest size. Raises DataError where it has none."""
    arrays = arrays_of(content)
    weights = {name: array for name, array in arrays.items() if array.ndim >= 2 and array.dtype.kind == "f" and array.size}
    if not weights:
        raise DataError("the model has no matrix of weights. Give another, or another method.", key="model")
    orders = {name: np.argsort(-np.abs(array.ravel()), kind="stable") for name, array in weights.items()}
    total = sum(array.size for array in weights.values())

    def at(step: int) -> Form:
        """A share of the weights; all of them at the top, in the file as it is."""
        if step == SHARES:
            return Form(content, f"all {total:,} weights")
        packed, kept = {name: array for name, array in arrays.items() if name not in weights}, 0
        for name, array in weights.items():
            stay = np.zeros(array.size, bool)
            stay[orders[name][: -(-array.size * step // SHARES)]] = True
            packed[name + WHERE], packed[name + VALUES] = np.packbits(stay), array.ravel()[stay]
            kept += int(stay.sum())
        shapes = {name: list(array.shape) for name, array in weights.items()}
        return Form(file_of(packed), f"{kept:,} of {total:,} weights", {"thinned": shapes})

    return Ladder(SHARES, at)


def filled(content: bytes, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """The file as the stage that learned the network reads it, with 0 for the weights that were left out."""
    arrays = arrays_of(content)
    try:
        for name, shape in shapes.items():
            where, values = arrays.pop(name + WHERE), arrays.pop(name + VALUES)
            whole: Array = np.zeros(int(np.prod(shape)), values.dtype)
            whole[np.unpackbits(where, count=whole.size).astype(bool)] = values
            arrays[name] = whole.reshape(shape)
    except (KeyError, ValueError) as error:
        raise InputError(f"the weights that stayed cannot be read ({error}). Compress the model again.") from error
    return file_of(arrays)
