"""How kernels are compiled: without the interpreter's lock, for this machine's processor, kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.core.runtime import rtsys
from numba.extending import intrinsic

from pipeline.backend.compiling import alone

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function compiled at its first call for each combination of argument types; the compiled code is cached beside the source.

    Division by zero gives infinity or NaN, as in NumPy. Tasks give the parallelism, so a kernel runs on the thread that calls it.
    """
    return cast("F", _kept(numba.njit(nogil=True, cache=True, error_model="numpy")(function)))


def fused(function: F) -> F:
    """As `compiled`, with a product and its sum in one instruction, and one rounding."""
    return cast("F", _kept(numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})(function)))


def summed(function: F) -> F:
    """As `fused`, for sums over people, whose terms may be added in any order: several at once."""
    return cast("F", _kept(numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})(function)))


def _kept(dispatcher: Any) -> Any:
    """The compiled function, which loads what is kept on disk without what compiling it would take, and compiles what no process does."""
    cache = getattr(dispatcher, "_cache", None)  # none where numba is told not to compile
    if cache is not None:
        cache.load_overload = partial(_from_disk, cache)
        compiler = dispatcher._compiler
        compiler.compile = partial(_once, dispatcher, compiler.compile, cache.save_overload)
        cache.save_overload = _saved
    return dispatcher


def _from_disk(cache: Any, signature: Any, context: Any) -> Any:
    """What is kept for a signature; None where nothing is, and the compiler then loads its rules by itself.

    numba loads these first, which are modules upon modules: a third of a second in every process, for machine code that is there.
    """
    rtsys.initialize(context)
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, context)


def _once(dispatcher: Any, compile_: Callable[..., Any], save: Callable[..., None], arguments: Any, returned: Any) -> Any:
    """What a signature is compiled to, and kept for; by another process where one is at it."""
    cache, context, signature = dispatcher._cache, dispatcher.targetctx, tuple(arguments)
    with alone(f"{cache.cache_path}/{cache._impl.filename_base}.lock"):
        found = _from_disk(cache, signature, context)  # another process may have kept it since this one looked
        if found is None:
            found = compile_(arguments, returned)
            save(signature, found)
        else:
            context.insert_user_function(found.entry_point, found.fndesc, [found.library])
        return found


def _saved(_signature: Any, _found: Any) -> None:
    """Where numba would keep what was compiled: it is kept already."""


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


def _word_at(typing_context: Any, data: Any, place: Any) -> Any:
    """How numba writes `word_at`: its signature, and one load that asks for no alignment."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: tuple[Any, Any]) -> Any:
        """The load."""
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(start, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(data, types.intp), generate


word_at: Any = intrinsic(_word_at)
"""The 8 bytes of a contiguous `uint8[bytes]` from a place on, as one `uint64`, the first byte lowest; for compiled kernels.

Nothing checks that the place is at least 0 and 8 bytes before the end.
"""


def _nearest(typing_context: Any, number: Any) -> Any:
    """How numba writes `nearest`: its signature, and a call of LLVM's rint."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[Any]) -> Any:
        """The call."""
        return builder.call(builder.module.declare_intrinsic("llvm.rint", [ir.DoubleType()]), arguments)

    return types.float64(types.float64), generate


nearest: Any = intrinsic(_nearest)
"""The nearest whole number, as one instruction that vectorizes; for compiled kernels."""


def _power_of_two(typing_context: Any, number: Any) -> Any:
    """How numba writes `power_of_two`: its signature, and operations on whole numbers, which vectorize."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[Any]) -> Any:
        """The whole number becomes the exponent."""
        word = ir.IntType(64)
        exponent = builder.add(builder.sext(builder.fptosi(arguments[0], ir.IntType(32)), word), ir.Constant(word, 1023))
        return builder.bitcast(builder.shl(exponent, ir.Constant(word, 52)), ir.DoubleType())

    return types.float64(types.float64), generate


power_of_two: Any = intrinsic(_power_of_two)
"""2^k of a whole k from -1022 to 1023, given as a float; for compiled kernels."""
