"""Operators and methods of the stand-in's array that are functions of CuPy by another name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.standin.array import MODULES, SCALARS, Array

ARITHMETIC = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "matmul": "matmul",
}
COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
UNARY = {"neg": "negative", "abs": "absolute", "invert": "invert", "pos": "positive"}
METHODS = (
    *("sum", "mean", "std", "var", "min", "max", "any", "all", "prod", "cumsum", "cumprod", "trace", "clip", "round", "conj"),
    *("argmin", "argmax", "argsort", "searchsorted", "nonzero", "take", "repeat", "compress", "dot"),
    *("ravel", "squeeze", "swapaxes", "diagonal"),
)


def method(name: str) -> Callable[..., Any]:
    """A method that is CuPy's function of that name."""

    def call(self: Array, *arguments: Any, **keywords: Any) -> Any:
        return getattr(MODULES["cupy"], name)(self, *arguments, **keywords)

    return call


def operator(function: str, *, reflected: bool = False, in_place: bool = False) -> Callable[[Array, Any], Any]:
    """A binary operator that is CuPy's function of that name: it takes device arrays and numbers, and refuses host arrays there."""

    def operate(self: Array, other: Any) -> Any:
        if not isinstance(other, (Array, np.ndarray, *SCALARS)):
            return NotImplemented
        call = getattr(MODULES["cupy"], function)
        if in_place:
            return call(self, other, out=self)
        return call(other, self) if reflected else call(self, other)

    return operate


def attach() -> None:
    """Give the array its operators and methods."""
    made: dict[str, Any] = {name: method(name) for name in METHODS}
    made |= {f"__{name}__": method(function) for name, function in UNARY.items()}
    for name, function in (ARITHMETIC | COMPARISONS).items():
        made[f"__{name}__"] = operator(function)
    for name, function in ARITHMETIC.items():
        made[f"__r{name}__"] = operator(function, reflected=True)
        made[f"__i{name}__"] = operator(function, in_place=True)
    made["__hash__"] = None
    for name, value in made.items():
        setattr(Array, name, value)


attach()
