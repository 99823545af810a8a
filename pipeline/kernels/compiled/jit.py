"""How kernels are compiled: without the interpreter's lock, for this machine's processor, kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function compiled at its first call for each combination of argument types; the compiled code is cached beside the source.

    Division by zero gives infinity or NaN, as in NumPy. Tasks give the parallelism, so a kernel runs on the thread that calls it.
    """
    return cast("F", numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """A small function that compiled kernels call."""
    return cast("F", numba.njit(nogil=True, inline="always", error_model="numpy")(function))


def _popcount(typing_context: Any, word: Any) -> Any:
    """How numba writes `popcount`: its signature, and a call of LLVM's ctpop."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[Any]) -> Any:
        """The call."""
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


popcount: Any = intrinsic(_popcount)
"""Bits set in a `uint64`, as one instruction that vectorizes; for compiled kernels."""
