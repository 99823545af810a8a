"""Blocks of people, so that pairs of people are worked tile by tile: the pairs of two blocks, or of one. Not a stage."""

from __future__ import annotations

from typing import Any

from pipeline.stages.genomics._genotypes import autosomal_calls, of_block
from pipeline.tables.part import Part

_LEAST, _MOST = 1_024, 4_096
"""People of a block: fewer make tiles that end sooner than they are handed out, more do not lie in memory two by two."""
_BLOCKS = 40
_LONG_S = 600
_EVEN = 32
"""Blocks begin at whole bytes of packed calls, and at whole words of eight of them."""


def people_blocks(people: int, *, large: bool = False) -> list[slice]:
    """All people in blocks of about the same size, whichever workers there are; `large` ones for a GPU, which waits between tiles."""
    wanted = _MOST if large else min(max(people // _BLOCKS, _LEAST), _MOST)
    size = -(-people // max(1, -(-people // wanted)) // _EVEN) * _EVEN
    return [slice(start, min(start + size, people)) for start in range(0, people, max(size, 1))]


def pair_work(people: int, variants: int, rate: float, more: float = 0.0) -> str:
    """How many pairs there are at most, and how long they take: so many pairs times variants a second of a core, and `more` seconds a pair.

    Rates are those of a processor that counts bits in vectors (benchmarks/people.py, two cores of a Xeon of 2023).
    """
    pairs = people * (people - 1) // 2
    seconds = pairs * (variants / rate + more)
    size, unit = (1, "s") if seconds < _LONG_S else (60, "min") if seconds < 60 * _LONG_S else (3_600, "h")
    return (
        f"pairs: at most {pairs:,} of {people:,} people, each of {variants:,} variants: some {max(1.0, seconds / size):,.0f} {unit} of one "
        "core, which all tasks share"
    )


def calls_of(part: Part, people: Part, block: slice) -> Any:
    """The packed calls of a block of people on autosomes, `uint8[v, ceil(people of the block / 4)]`."""
    return autosomal_calls(of_block(part, block), people.frame)
