"""Weights in eight bits: each row of a matrix as whole numbers from -127 to 127 times a scale of its own.

A row is what one input adds to the outputs, so inputs in small units, whose weights are large, do not drown those of others.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.backend.neural import arrays_of, file_of
from pipeline.errors import DataError, InputError
from pipeline.stages.models._smaller.forms import Form

Array = np.ndarray[Any, Any]

FILES = ("npz", "safetensors")
"""The suffixes of models whose weights stand in named arrays."""
SCALES = ":scales"
STEPS = 127


def quantized(content: bytes, suffix: str) -> Form:
    """A model's file with every matrix of weights in eight bits. Raises DataError for one that has none."""
    arrays = _read(content, suffix)
    weights = {name: array for name, array in arrays.items() if array.ndim >= 2 and array.dtype.kind == "f" and array.size}
    if not weights:
        raise DataError(
            "the model has no matrix of weights, which is what eight bits are for. Give another, or another method.", key="model"
        )
    packed = dict(arrays)
    for name, array in weights.items():
        scales = (np.abs(array).max(axis=-1, keepdims=True) / STEPS).astype(np.float32)
        packed[name] = np.rint(array / np.where(scales > 0, scales, 1).astype(array.dtype)).clip(-STEPS, STEPS).astype(np.int8)
        packed[name + SCALES] = scales
    said = f"{len(weights)} of {len(arrays)} arrays in eight bits"
    return Form(_written(packed, suffix), said, {"quantized": {name: str(array.dtype) for name, array in weights.items()}})


def restored(content: bytes, suffix: str, dtypes: Mapping[str, str]) -> bytes:
    """The file as the stage that learned the model reads it, of weights that were quantized from these types."""
    arrays = _read(content, suffix)
    try:
        for name, dtype in dtypes.items():
            arrays[name] = arrays[name].astype(dtype) * arrays.pop(name + SCALES).astype(dtype)
    except (KeyError, TypeError) as error:
        raise InputError(f"the weights in eight bits cannot be read ({error}). Compress the model again.") from error
    return _written(arrays, suffix)


def _read(content: bytes, suffix: str) -> dict[str, Array]:
    if suffix == "safetensors":
        return arrays_of(content)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"this is no npz file ({error}). Give the file of a run, as it was published.") from error


def _written(arrays: Mapping[str, Array], suffix: str) -> bytes:
    """The file, the same bytes for the same arrays."""
    if suffix == "safetensors":
        return file_of({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()
