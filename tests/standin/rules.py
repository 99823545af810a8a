"""What is known of CuPy's functions beyond their signatures: what they refuse, wait for, launch, and give without a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.standin.array import Array

# Functions of numbers, shapes and types alone: their first argument is no array.
CREATES = {
    *("arange", "empty", "zeros", "ones", "full", "eye", "identity", "linspace", "logspace", "tri", "indices", "einsum"),
    *("tril_indices", "triu_indices"),
}
TELLS = {
    "result_type",
    "can_cast",
    "promote_types",
    "min_scalar_type",
    "isscalar",
    "ndim",
    "shape",
    "size",
    "broadcast_shapes",
    "iscomplexobj",
}
VIEWS = {
    *("broadcast_to", "broadcast_arrays", "expand_dims", "squeeze", "moveaxis", "rollaxis", "swapaxes", "transpose", "reshape", "ravel"),
    *(
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "diagonal",
        "split",
        "array_split",
        "hsplit",
        "vsplit",
        "flip",
        "fliplr",
        "flipud",
        "rot90",
    ),
    *("real", "empty", "empty_like"),
}
"""They launch nothing where the result shares memory with an argument, or is not written."""

WAITS = {
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere", "compress", "extract", "tril_indices", "triu_indices", "histogram"), 1),
    **dict.fromkeys(("array_equal", "allclose", "lexsort", "in1d", "isin", "setdiff1d", "intersect1d", "union1d"), 1),
    **dict.fromkeys(("unique", "bincount"), 2),  # bincount asks whether a value is negative, then for the largest
}
LAUNCHES = {
    **dict.fromkeys(
        ("cumsum", "cumprod", "argsort", "sort", "lexsort", "tril", "triu", "eye", "tile", "norm", "percentile", "quantile"), 2
    ),
    **dict.fromkeys(("einsum", "tensordot", "std", "var", "median", "nanmean", "isclose"), 3),
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere", "take_along_axis", "histogram", "bincount", "compress", "allclose"), 4),
    **dict.fromkeys(("tril_indices", "triu_indices", "cholesky", "solve", "inv"), 6),
    **dict.fromkeys(("unique", "eigh", "eigvalsh", "svd", "qr"), 9),
}
"""Launches of one call, 1 where nothing is said. What the libraries of CUDA launch inside is a guess."""

NOT_NVRTC = {"matmul", "dot", "tensordot", "sort", "argsort", "lexsort", "eigh", "eigvalsh", "svd", "qr", "cholesky", "solve", "inv"}
"""Done by cuBLAS, cuSOLVER and CUB, which are compiled already."""

JOINS = {"concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"}
PRODUCTS = {"matmul", "dot", "tensordot"}


def launches(name: str, arguments: tuple[Any, ...]) -> int:
    """Launches of one call. Joining copies array by array, unless there are more than eight small ones."""
    if name not in JOINS:
        return LAUNCHES.get(name, 1)
    joined = arguments[0]
    small = (
        len(joined) > 8 and len({array.dtype for array in joined}) == 1 and sum(array.nbytes for array in joined) < (2 << 20) * len(joined)
    )
    return 1 if small else len(joined)


def waits(name: str, arguments: tuple[Any, ...]) -> int:
    """Times that one call stands until the device is done."""
    if name == "repeat" and isinstance(arguments[1], Array):  # how long the result is
        return 2
    return WAITS.get(name, 0)


def check(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], also: tuple[type, ...] = ()) -> None:
    """Raise what CuPy raises for arguments that its signature lets through; `also` are types that may come first in an array's place."""
    if any(_has_host_array(value) for value in (*arguments, *keywords.values())):
        raise TypeError(f"Unsupported type <class 'numpy.ndarray'>: a host array where cupy.{name} wants one of its own")
    first = arguments[0] if arguments else None
    if name in JOINS and not all(isinstance(array, Array) for array in first or ()):
        raise TypeError(f"Only cupy arrays can be concatenated: cupy.{name}")
    if arguments and name not in CREATES | TELLS | JOINS and not isinstance(first, (Array, *also)):
        raise TypeError(f"Unsupported type {type(first)}: cupy.{name} wants an array of its own")
    if name in REFUSALS:
        REFUSALS[name](arguments, keywords)


def _has_host_array(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_host_array(each) for each in value)
    return isinstance(value, np.ndarray)


def _searchsorted(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    value = arguments[1] if len(arguments) > 1 else keywords["v"]
    if not isinstance(value, (Array, int, float, complex)):
        raise NotImplementedError("Only python scalars or ndarrays are supported for v")


def _sorted(_arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    if keywords.get("kind") not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")


def _packbits(_arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    if keywords.get("axis") is not None:
        raise NotImplementedError("axis option is not supported yet")


REFUSALS: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], None]] = {
    "searchsorted": _searchsorted,
    "argsort": _sorted,
    "sort": _sorted,
    "packbits": _packbits,
}
