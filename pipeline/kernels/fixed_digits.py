"""Whole numbers that are too long for a machine's own, as arrays of digits of 16 bits, the lowest first: exact sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BITS = 16
VALUE_DIGITS = 4
"""Digits of a value, `int64`: the last one has its sign."""


def digits_of(values: Array) -> Array:
    """Digits `int64[..., 4]` of whole numbers `int64[...]`."""
    low = [values >> (BITS * place) & 0xFFFF for place in range(VALUE_DIGITS - 1)]
    return np.stack([*low, values >> (BITS * (VALUE_DIGITS - 1))], axis=-1)


def times(left: Array, right: Array) -> Array:
    """Products of numbers, digit by digit and not carried, `int64[..., a + b - 1]`; sums of digits must stay below 2^63."""
    a, b = left.shape[-1], right.shape[-1]
    found = np.zeros((*np.broadcast_shapes(left.shape[:-1], right.shape[:-1]), a + b - 1), np.int64)
    for place in range(b):
        found[..., place : place + a] += left * right[..., place, None]
    return found


def carried(digits: Array, width: int) -> Array:
    """The same numbers modulo 2^(16 width) with every digit in its range, `uint16[..., width]`."""
    found = np.empty((*digits.shape[:-1], width), np.uint16)
    carry = np.zeros(digits.shape[:-1], np.int64)
    for place in range(width):
        total = carry + digits[..., place] if place < digits.shape[-1] else carry
        found[..., place] = total & 0xFFFF
        carry = total >> BITS
    return found


def numbers_of(digits: Array) -> Array:
    """Python's whole numbers of digits `uint16[..., width]`, of which the highest bit is the sign: an array of objects."""
    size = 2 * digits.shape[-1]
    content = np.ascontiguousarray(digits, "<u2").tobytes()
    found = np.empty(len(content) // size, object)
    found[:] = [int.from_bytes(content[start : start + size], "little", signed=True) for start in range(0, len(content), size)]
    return found.reshape(digits.shape[:-1])
