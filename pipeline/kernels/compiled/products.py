"""Products of packed calls with the columns of a matrix, by lookup tables: nothing is decoded, and sums are float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pipeline.kernels.compiled.jit import compiled

_LANES = 4
_TABLE_BYTES = 1 << 20  # tables of so many bytes stay in a core's own cache while all variants pass
_COLUMNS = 64  # at a time


def _add_rows(_typing: Any, tables: Any, places: Any, target: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    """How numba writes `add_rows`: its signature, and loads, sums and a store of four numbers each."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        """The sum as a tree; adding to memory in numba's own loop would test each time whether rows and target overlap."""
        source, goal = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2))
        four = ir.VectorType(ir.DoubleType(), _LANES).as_pointer()

        def at(base: Any, offset: Any) -> Any:
            """Where four numbers of an array begin."""
            return builder.bitcast(builder.gep(base, [offset]), four)

        rows = [builder.load(at(source, builder.extract_value(arguments[1], i)), align=8) for i in range(len(places))]
        while len(rows) > 1:
            rows = [builder.fadd(one, other) for one, other in zip(rows[::2], rows[1::2], strict=True)]
        sums = at(goal, arguments[3])
        builder.store(builder.fadd(builder.load(sums, align=8), rows[0]), sums, align=8)
        return context.get_dummy_value()

    return types.void(tables, places, target, place), generate


add_rows: Any = intrinsic(_add_rows)
"""Adds to four numbers of `target`, from `place` on, those of `tables` at each of 8 (or 2, 4) places; flat contiguous float64 arrays."""


@compiled
def _fill_tables(values: Any, codes: Any, first: int, tables: Any) -> None:
    """For each byte from `first` on and each of its 256 contents, the sum over its four samples of code times values."""
    for byte in range(len(tables)):
        table = tables[byte]
        for column in range(values.shape[1]):
            table[0, column] = 0.0
        for content in range(1, 256):
            # The last sample that is not 0 is added to what the samples before it gave.
            place = (content >= 4) + (content >= 16) + (content >= 64)
            code = codes[content >> 2 * place]
            target, before, row = table[content], table[content & (1 << 2 * place) - 1], values[4 * (first + byte) + place]
            for column in range(values.shape[1]):
                target[column] = before[column] + code * row[column]


@compiled
def _look_up(rows: Any, values: Any, codes: Any, tables: Any, sums: Any, shape: Any) -> None:
    """Adds to some columns of the flat `sums: float64[v * all columns]` the product of calls and `values: float64[4 w, c]`.

    `rows: uint8[v * w]` are the calls, flat; `tables: float64[bytes, 256, c]` is room for the tables of so many bytes, a multiple of 8;
    c is a multiple of 4; `shape`: v, w, columns of sums, the first of them to add to.
    """
    variants, width, stride, column = shape
    count = values.shape[1]
    step = 256 * count
    flat = tables.reshape(-1)
    for first in range(0, width, len(tables)):
        size = min(len(tables), width - first)
        _fill_tables(values, codes, first, tables[:size])
        for variant in range(variants):
            target = variant * stride + column
            for byte in range(0, size - 7, 8):
                b, t = variant * width + first + byte, byte * step
                t0, t1 = t + rows[b] * count, t + step + rows[b + 1] * count
                t2, t3 = t + 2 * step + rows[b + 2] * count, t + 3 * step + rows[b + 3] * count
                t4, t5 = t + 4 * step + rows[b + 4] * count, t + 5 * step + rows[b + 5] * count
                t6, t7 = t + 6 * step + rows[b + 6] * count, t + 7 * step + rows[b + 7] * count
                for c in range(0, count, 4):
                    add_rows(flat, (t0 + c, t1 + c, t2 + c, t3 + c, t4 + c, t5 + c, t6 + c, t7 + c), sums, target + c)
            for byte in range(size - size % 8, size):
                last = tables[byte, rows[variant * width + first + byte]]
                for c in range(count):
                    sums[target + c] += last[c]


def calls_product(calls: Any, values: Any, codes: tuple[float, float]) -> Any:
    """Sums over samples of what packed calls count (0 where missing) times the columns of values: `float64[v, at least c]`.

    `calls: uint8[v, w]` contiguous, `values: float64[n or n + 1, c]` (rows past 4 w are not used), `codes` of one and two copies of ALT.
    The answer's columns past c are 0. Four samples cost a load and a sum of c numbers, out of a core's own cache.
    """
    width, columns = 4 * calls.shape[1], -(-values.shape[1] // _LANES) * _LANES
    padded, counts = np.zeros((width, columns)), np.array([0.0, *codes, 0.0])
    padded[: min(width, len(values)), : values.shape[1]] = values[:width]
    product = np.zeros((len(calls), columns))
    for column in range(0, columns, _COLUMNS):
        some = np.ascontiguousarray(padded[:, column : column + _COLUMNS])
        size = min(64, max(8, _TABLE_BYTES // (256 * 8 * some.shape[1]) // 8 * 8))
        shape = len(calls), calls.shape[1], columns, column
        _look_up(calls.reshape(-1), some, counts, np.empty((size, 256, some.shape[1])), product.reshape(-1), shape)
    return product
