"""Which task goes first."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.tables.priority import priority


@dataclass(frozen=True)
class Urgent:
    """A task that says how urgent it is."""

    urgency: float


def test_a_deeper_task__goes_first_and_of_one_depth_the_more_urgent_one() -> None:
    order = [priority(depth, Urgent(urgency), (), ahead=False) for depth, urgency in ((1, 0.0), (1, 0.3), (1, 0.9), (2, 0.0))]
    assert order == sorted(order)
    assert len({*order}) == 4
    assert priority(1, len, (), ahead=True) > order[-1]
