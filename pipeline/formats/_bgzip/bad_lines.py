"""Lines that a parser refuses, found by halving, with their numbers in the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pipeline.bounds import Bounds
from pipeline.errors import InputError
from pipeline.formats._bad_rows import BadRow
from pipeline.formats._bgzip.blocks import TextRange
from pipeline.formats._bgzip.lines import read_lines

Parsed = TypeVar("Parsed")


def sift(path: str, lines: bytes, first: int, parse: Callable[[bytes], Parsed]) -> tuple[list[Parsed], list[BadRow]]:
    """What `parse` makes of whole lines, and those lines that it refuses; `first` is the number of the first line.

    Refused lines are found by halving, so few of them cost little.
    """
    good, bad, waiting = list[Parsed](), list[BadRow](), [(lines, first)]
    while waiting:
        text, number = waiting.pop()
        try:
            good.append(parse(text))
        except InputError as error:
            count = text.count(b"\n") + (not text.endswith(b"\n"))
            if count == 1:
                bad.append(BadRow(number, text.decode(errors="replace"), error.text.removeprefix(f"{path}: ")))
                continue
            middle = text.rfind(b"\n", 0, len(text) // 2) + 1 or text.find(b"\n") + 1
            waiting += [(text[middle:], number + text.count(b"\n", 0, middle)), (text[:middle], number)]
    return good, bad


def sift_range(part: TextRange, limits: Bounds, parse: Callable[[bytes], Parsed]) -> tuple[list[Parsed], list[BadRow]]:
    """The same of a range; where a line is refused, those before the range are counted."""
    good, bad, first = list[Parsed](), list[BadRow](), 1
    for lines in read_lines(part, limits):
        found, refused = sift(part.path, lines, first, parse)
        good += found
        bad += refused
        first += lines.count(b"\n")
    before = _lines_before(part, limits) if bad and part.start else 0
    return good, [row._replace(line=row.line + before) for row in bad]


def _lines_before(part: TextRange, limits: Bounds) -> int:
    return sum(chunk.count(b"\n") for chunk in read_lines(TextRange(part.path, part.kind, 0, part.start), limits))
