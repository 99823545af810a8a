"""T = a + b D/p + c n: found again from runs that follow it, as SciPy finds it, and honest about what runs leave open."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from pipeline.plan.curve import SPREAD, Curve, Point, fitted, foretold, least_squares, left_out, medians

TRUE = Curve(start=2.0, work=3.0, process=0.5)


def point(size: float, shared_by: int = 1, processes: int = 0, off: float = 1.0) -> Point:
    """A run that follows the curve, but for a factor."""
    return Point(size, shared_by, processes, TRUE.at(size, shared_by, processes) * off)


def test_least_squares__are_those_of_scipy_and_none_is_negative() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        columns, values = random.normal(size=(6, 3)), random.normal(size=6)
        found = least_squares(columns, values)
        assert (found >= 0).all()
        np.testing.assert_allclose(found, nnls(columns, values)[0], atol=1e-9)


def test_a_curve__is_found_again_from_sizes_and_workers_that_differ() -> None:
    points = [point(size, min(workers, 2), workers * (workers > 1)) for size in (1, 2, 4) for workers in (1, 2, 4, 8)]
    found = fitted(points, 0.0, 0.0)
    assert (found.start, found.work, found.process) == pytest.approx((2.0, 3.0, 0.5))
    assert left_out(points, 0.0, 0.0) == pytest.approx([1] * len(medians(points)))


def test_what_runs_leave_open__is_what_others_measured() -> None:
    """Runs of one size say nothing of a start, those of one number of processes nothing of a process; those of two sizes do."""
    alone = fitted([point(4, 2, 2)], 2.0, 0.5)
    assert (alone.start, alone.work, alone.process) == pytest.approx((2.0, 3.0, 0.5))
    both = fitted([point(1), point(8)], 0.4, 0.5)
    assert (both.start, both.work, both.process) == pytest.approx((2.0, 3.0, 0.5), rel=0.03)


def test_one_size__leaves_all_between_nothing_that_grows_and_everything() -> None:
    known, _ = foretold([point(1)], Point(4, 1, 0, 0.0), 2.0, 0.5)
    assert known.value == pytest.approx(TRUE.at(4, 1, 0))
    assert (known.low, known.high) == pytest.approx((TRUE.at(1, 1, 0) * (1 - SPREAD), 4 * TRUE.at(1, 1, 0) * (1 + SPREAD)))
    again, _ = foretold([point(1)], Point(1, 1, 0, 0.0), 2.0, 0.5)
    assert (again.low, again.high) == pytest.approx((again.value * (1 - SPREAD), again.value * (1 + SPREAD)))


def test_more_sizes__leave_less() -> None:
    asked = Point(16, 1, 0, 0.0)
    two, _ = foretold([point(1), point(4)], asked, 1.0, 0.5)
    four, _ = foretold([point(1), point(2), point(4), point(8)], asked, 1.0, 0.5)
    truth = TRUE.at(16, 1, 0)
    assert two.low < truth < two.high
    assert four.value == pytest.approx(truth, rel=0.01)
    assert (four.high - four.low) / four.value == pytest.approx(2 * SPREAD, abs=0.02)


def test_runs_of_one_size__count_by_their_median_and_widen_the_range() -> None:
    points = [point(1), point(1), point(1, off=2.0), point(4), point(8)]
    known, curve = foretold(points, Point(4, 1, 0, 0.0), 1.0, 0.5)
    assert len(medians(points)) == 3
    assert curve.start == pytest.approx(2.0, rel=0.01)
    assert known.high == pytest.approx(2 * known.value, rel=0.01)
    assert known.low == pytest.approx((1 - SPREAD) * known.value)


def test_work_that_grows_by_a_power__is_within_the_range_of_two_sizes() -> None:
    grown = [Point(size, 1, 0, 0.1 * size**1.5) for size in (1, 4)]
    known, _ = foretold(grown, Point(16, 1, 0, 0.0), 0.01, 0.0)
    assert known.low < 0.1 * 16**1.5 < known.high
