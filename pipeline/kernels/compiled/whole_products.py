"""Products of packed calls with columns of whole numbers, by lookup tables of 32 bits: exact, and so the same in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pipeline.kernels.compiled.jit import compiled, popcount, word_at

LANES = 8
_BYTES = 8  # that are looked up together: one word of calls
_FLUSH = 4  # such words that a sum of 32 bits holds: 128 people, who count 4 at most, of numbers below 2^22
_TILE = 8
_COLUMNS = 64  # at a time: their tables of eight bytes are 512 KB, which stay in a core's own cache while all variants pass
_LOW, _ONE, _BYTE = np.uint64(0x5555555555555555), np.uint64(1), np.uint64(255)


def _add_whole_rows(_typing: Any, tables: Any, places: Any, target: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    """How numba writes `add_whole_rows`: its signature, and loads, sums and a store of eight numbers each."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        """The sum as a tree; adding to memory in numba's own loop would test each time whether rows and target overlap."""
        source, goal = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2))
        eight = ir.VectorType(ir.IntType(32), LANES).as_pointer()

        def at(base: Any, offset: Any) -> Any:
            """Where eight numbers of an array begin."""
            return builder.bitcast(builder.gep(base, [offset]), eight)

        rows = [builder.load(at(source, builder.extract_value(arguments[1], i)), align=4) for i in range(len(places))]
        while len(rows) > 1:
            rows = [builder.add(one, other) for one, other in zip(rows[::2], rows[1::2], strict=True)]
        sums = at(goal, arguments[3])
        builder.store(builder.add(builder.load(sums, align=4), rows[0]), sums, align=4)
        return context.get_dummy_value()

    return types.void(tables, places, target, place), generate


add_whole_rows: Any = intrinsic(_add_whole_rows)
"""Adds to eight numbers of `target`, from `place` on, those of `tables` at each of 8 places; flat contiguous int32 arrays."""


def _put_sum(_typing: Any, tables: Any, places: Any, values: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    """How numba writes `put_sum`: its signature, and two loads, a sum and a store of eight numbers."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        """One sum of two vectors."""
        goal, source = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2))
        eight = ir.VectorType(ir.IntType(32), LANES).as_pointer()
        before, after = (builder.extract_value(arguments[1], i) for i in (0, 1))
        rows = [builder.bitcast(builder.gep(base, [at]), eight) for base, at in ((goal, before), (source, arguments[3]))]
        total = builder.add(*(builder.load(row, align=4) for row in rows))
        builder.store(total, builder.bitcast(builder.gep(goal, [after]), eight), align=4)
        return context.get_dummy_value()

    return types.void(tables, places, values, place), generate


put_sum: Any = intrinsic(_put_sum)
"""Eight numbers of `tables` from the second of `places` on become those from the first on and those of `values`; flat int32 arrays."""


@compiled
def _fill_tables(one: Any, two: Any, person: int, flat: Any, columns: int) -> None:
    """For the eight bytes of the calls from a person on, and each of their 256 contents, the sum of what the calls of four stand for.

    `one, two` are flat, `flat: int32[8 * 256 * columns]`; a missing call stands for nothing.
    """
    for byte in range(_BYTES):
        start = 256 * columns * byte
        for column in range(columns):
            flat[start + column] = 0
        size = columns  # of the contents that those before the next person have
        for place in range(4):
            row = (person + 4 * byte + place) * columns
            for before in range(start, start + size, columns):
                for column in range(0, columns, LANES):
                    put_sum(flat, (before + column, before + size + column), one, row + column)
                    put_sum(flat, (before + column, before + 2 * size + column), two, row + column)
            for at in range(start, start + size):
                flat[at + 3 * size] = flat[at]
            size *= 4


@compiled
def _flush(narrow: Any, wide: Any, first: int) -> None:
    """Adds sums of 32 bits to columns of `wide: float64[v, all columns]` from `first` on, and makes them 0."""
    variants, columns = narrow.shape
    for variant in range(variants):
        own, target = narrow[variant], wide[variant, first:]
        for column in range(columns):
            target[column] += own[column]
            own[column] = 0


@compiled
def _look_up(words: Any, one: Any, two: Any, room: Any, sums: Any) -> None:
    """Adds to columns of `sums: float64[v, all columns]` the product of calls and of what one and two copies stand for.

    `words: uint64[w, v]` are the calls of 32 people each, by variant; `one, two: int32[32 w * c]`, flat, c a multiple of 8; `room` is
    `int32[8 * 256 * c]`, `int32[v, c]` of zeros, and the first of the columns.
    """
    flat, narrow, column = room
    variants, columns = narrow.shape
    step, own = 256 * columns, narrow.reshape(-1)
    for first in range(len(words)):
        _fill_tables(one, two, 32 * first, flat, columns)
        row = words[first]
        for variant in range(variants):
            word = row[variant]
            t0, t1 = np.int64(word & _BYTE) * columns, np.int64(word >> np.uint64(8) & _BYTE) * columns + step
            t2, t3 = np.int64(word >> np.uint64(16) & _BYTE) * columns, np.int64(word >> np.uint64(24) & _BYTE) * columns + step
            t4, t5 = np.int64(word >> np.uint64(32) & _BYTE) * columns, np.int64(word >> np.uint64(40) & _BYTE) * columns + step
            t6, t7 = np.int64(word >> np.uint64(48) & _BYTE) * columns, np.int64(word >> np.uint64(56)) * columns + step
            t2, t3, t4, t5, t6, t7 = t2 + 2 * step, t3 + 2 * step, t4 + 4 * step, t5 + 4 * step, t6 + 6 * step, t7 + 6 * step
            target = variant * columns
            for c in range(0, columns, LANES):
                add_whole_rows(flat, (t0 + c, t1 + c, t2 + c, t3 + c, t4 + c, t5 + c, t6 + c, t7 + c), own, target + c)
        if first % _FLUSH == _FLUSH - 1 or first + 1 == len(words):
            _flush(narrow, sums, column)


@compiled
def _turn(calls: Any, words: Any) -> None:
    """Writes calls `uint64[v, w]` as `words: uint64[w, v]`, some of each at a time."""
    variants, width = calls.shape
    for first in range(0, width, _TILE):
        last = min(first + _TILE, width)
        for variant in range(variants):
            row = calls[variant]
            for word in range(first, last):
                words[word, variant] = row[word]


@compiled
def _add_missing(calls: Any, one: Any, sums: Any) -> None:
    """Adds to `sums: float64[v, c]` of each variant the rows of `one: [4 w, c]` whose people have no call.

    `calls: uint8[v * w]`, w a multiple of 8.
    """
    variants, columns = sums.shape
    width = len(calls) // variants
    for variant in range(variants):
        target = sums[variant]
        for byte in range(0, width, _BYTES):
            word = word_at(calls, variant * width + byte)
            left = word & word >> _ONE & _LOW
            while left != 0:
                lowest = popcount((left & -left) - _ONE)
                row = one[4 * byte + np.int64(lowest >> _ONE)]
                for column in range(columns):
                    target[column] += row[column]
                left &= left - _ONE


def whole_product(calls: Any, single: Any, one: Any, two: Any) -> tuple[Any, Any]:
    """Sums over people of what one or two copies stand for in each column, and of `single` over who has no call.

    `calls: uint8[v, w]`; `single, one, two: int32[n, c]`, below 2^22 in size and `two` below 2^24, c a multiple of 8. Both answers are
    `float64[v, c]`.
    """
    variants, columns = len(calls), one.shape[1]
    sums, absent = np.zeros((variants, columns)), np.zeros((variants, columns))
    if variants == 0:
        return sums, absent
    calls = _in_words(calls)
    padded = calls.shape[1]
    words = np.empty((padded // _BYTES, variants), np.uint64)
    _turn(calls.view(np.uint64), words)
    for column in range(0, columns, _COLUMNS):
        some = slice(column, column + _COLUMNS)
        first, second = (_padded(values[:, some], 4 * padded) for values in (one, two))
        count = first.shape[1]
        room = np.empty(_BYTES * 256 * count, np.int32), np.zeros((variants, count), np.int32), column
        _look_up(words, first.reshape(-1), second.reshape(-1), room, sums)
    _add_missing(calls.reshape(-1), _padded(single, 4 * padded), absent)
    return sums, absent


def missing_sums(calls: Any, values: Any) -> Any:
    """Sums of the rows of `values: float64[n, c]` whose people have no call, `float64[v, c]` of `calls: uint8[v, w]`."""
    sums = np.zeros((len(calls), values.shape[1]))
    if len(calls):
        calls = _in_words(calls)
        _add_missing(calls.reshape(-1), _padded(values, 4 * calls.shape[1]), sums)
    return sums


def _in_words(calls: Any) -> Any:
    """Calls whose rows are words of eight bytes: a copy where they are not, or are a view of a file's bytes."""
    variants, width = calls.shape
    padded = -(-width // _BYTES) * _BYTES
    if padded == width and calls.flags.c_contiguous and calls.flags.writeable:
        return calls
    own = np.zeros((variants, padded), np.uint8)
    own[:, :width] = calls
    return own


def _padded(values: Any, rows: int) -> Any:
    """Contiguous, with rows of 0 to as many as calls have room for."""
    if len(values) == rows:
        return np.ascontiguousarray(values)
    found = np.zeros((rows, values.shape[1]), values.dtype)
    found[: len(values)] = values
    return found
