"""CIGAR strings, beside a plain reading of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pipeline.kernels.cigars import expanded, operations, reference_lengths

CIGARS = ["60M", "", "10S50M", "5H3S20M3D40M2I7M1S", "123456789N1=2X", "", "1M", "12M300N48M4P1M"]


def plain() -> list[tuple[int, int, int, int, int]]:
    found = []
    for read, cigar in enumerate(CIGARS):
        on_reference = on_read = 0
        for length, letter in re.findall(r"(\d+)([A-Z=])", cigar):
            found.append((read, ord(letter), int(length), on_reference, on_read))
            on_reference += int(length) * (letter in "MDN=X")
            on_read += int(length) * (letter in "MIS=X")
    return found


def test_operations__are_those_of_a_plain_reading() -> None:
    text = np.frombuffer("".join(CIGARS).encode(), np.uint8)
    offsets = np.cumsum([0, *map(len, CIGARS)])
    found = operations(text, offsets)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == plain()
    lengths = [sum(length for of, letter, length, *_ in plain() if of == read and chr(letter) in "MDN=X") for read in range(len(CIGARS))]
    assert reference_lengths(found, len(CIGARS)).tolist() == lengths
    assert {*map(chr, found.aligned.code.tolist())} == {*"M=X"}


@pytest.mark.parametrize("reads", [0, 3])
def test_operations__of_nothing_are_none(reads: int) -> None:
    found = operations(np.zeros(0, np.uint8), np.zeros(reads + 1, np.int64))
    assert [len(column) for column in found] == [0] * 5
    assert reference_lengths(found, reads).tolist() == [0] * reads


def test_expanded__gives_every_number_of_ranges() -> None:
    numbers, which = expanded(np.array([5, 9, -2, 7]), np.array([2, 0, 3, 1]))
    assert numbers.tolist() == [5, 6, -2, -1, 0, 7]
    assert which.tolist() == [0, 0, 2, 2, 2, 3]
    assert [len(found) for found in expanded(np.zeros(0, np.int64), np.zeros(0, np.int64))] == [0, 0]
