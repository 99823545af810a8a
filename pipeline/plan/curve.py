"""T = a + b D/p + c n: what a run takes, of a start, of work that D of data brings and p share, and of n processes that are started.

The same curve says what a worker's memory comes to: a base, and its share of the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PULL = 0.01  # how much a term that others have measured weighs beside a run: it decides only what the runs themselves leave open
SAME = 0.02  # shares that differ by less are of one size
SPREAD = 0.1  # the least that runs of one size are taken to differ by
FEW = 3  # different sizes, from which on each can be left out and foretold by the others


@dataclass(frozen=True)
class Point:
    """What one run came to: its data (of any unit), how many shared it, the processes that were started, and seconds or bytes."""

    size: float
    shared_by: float
    processes: int
    value: float

    @property
    def share(self) -> float:
        """The data of one of those that share it."""
        return self.size / self.shared_by


@dataclass(frozen=True)
class Curve:
    """The three terms: of the start, of the work that a unit of data is, of a process that is started. None is negative."""

    start: float
    work: float
    process: float

    def at(self, size: float, shared_by: float, processes: int) -> float:
        """What it comes to."""
        return self.start + self.work * size / shared_by + self.process * processes


@dataclass(frozen=True)
class Range:
    """What is expected, and between what."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Range:
        """Each by a factor."""
        return Range(self.value * factor, self.low * factor, self.high * factor)


def medians(points: Sequence[Point]) -> list[Point]:
    """One point for all runs of a size, shared by as many, of as many processes: their median, in ascending order of the share."""
    groups: list[list[Point]] = []
    for point in sorted(points, key=lambda point: (point.processes, point.share)):
        last = groups[-1][0] if groups else None
        if last and last.processes == point.processes and point.share <= last.share * (1 + SAME):
            groups[-1].append(point)
        else:
            groups.append([point])
    middle = [
        Point(group[0].size, group[0].shared_by, group[0].processes, float(np.median([point.value for point in group]))) for group in groups
    ]
    return sorted(middle, key=lambda point: point.share)


def least_squares(columns: Floats, values: Floats) -> Floats:
    """The coefficients, none negative, whose squared errors are least; few columns, of which every subset is tried."""
    best, least = np.zeros(columns.shape[1]), float(values @ values)
    for count in range(1, columns.shape[1] + 1):
        for chosen in map(list, combinations(range(columns.shape[1]), count)):
            found = np.linalg.lstsq(columns[:, chosen], values, rcond=None)[0]
            error = columns[:, chosen] @ found - values
            if (found >= 0).all() and (squares := float(error @ error)) < least * (1 - 1e-12):
                best, least = np.zeros(columns.shape[1]), squares
                best[chosen] = found
    return best


def fitted(points: Sequence[Point], start: float, process: float) -> Curve:
    """The curve whose relative errors are least. `start` and `process`, measured elsewhere, stand where the points say nothing of them."""
    rows = np.array([[1.0, point.share, point.processes] for point in points]) / np.array([[point.value] for point in points])
    pulls = np.diag([1 / start if start else 0.0, 0.0, 1 / process if process else 0.0]) * PULL
    known = np.array([PULL if start else 0.0, 0.0, PULL if process else 0.0])
    return Curve(*map(float, least_squares(np.vstack([rows, pulls]), np.append(np.ones(len(points)), known))))


def foretold(points: Sequence[Point], asked: Point, start: float, process: float) -> tuple[Range, Curve]:
    """What `asked` (its value is not looked at) will come to, and the curve that says so.

    The range is what is not known: after one size, whether all of it grows with the data or nothing; after two, whether it grows by a line
    or by a power; after more, how far off a size was that the others foretold. Runs of one size differ, too. And where none had as many
    processes, whether these gain anything by sharing.
    """
    middle = medians(points)
    curve = fitted(middle, start, process)
    value = curve.at(asked.size, asked.shared_by, asked.processes)
    factors = [1 - SPREAD, 1 + SPREAD, *(point.value / _of(middle, point).value for point in points)]
    others = [value]
    if len(middle) == 1:
        others += [middle[0].value, middle[0].value * asked.share / middle[0].share]
    elif len(middle) < FEW and middle[0].share < middle[-1].share:
        power = math.log(middle[-1].value / middle[0].value) / math.log(middle[-1].share / middle[0].share)
        others.append(middle[-1].value * (asked.share / middle[-1].share) ** power)
    if all(point.processes != asked.processes for point in middle):
        others.append(curve.at(asked.size, 1, asked.processes))
    if len(middle) >= FEW:
        factors += left_out(points, start, process)
    return Range(value, min(others) * min(factors), max(others) * max(factors)), curve


def left_out(points: Sequence[Point], start: float, process: float) -> list[float]:
    """What each size came to over what the other sizes alone foretell of it, as a factor."""
    middle, factors = medians(points), []
    for point in middle:
        curve = fitted([other for other in middle if other is not point], start, process)
        factors.append(point.value / curve.at(point.size, point.shared_by, point.processes))
    return factors


def worst(factors: Sequence[float]) -> float:
    """How far off the farthest of these factors is (0.1: a tenth)."""
    return max(abs(factor - 1) for factor in factors)


def _of(middle: Sequence[Point], point: Point) -> Point:
    """The group's median that a point went into."""
    alike = [other for other in middle if other.processes == point.processes]
    return min(alike, key=lambda other: abs(other.share - point.share))
