"""Which task goes first."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.tables.as_one import Picked
from pipeline.tables.priority import priority
from pipeline.tables.steps import Step


@dataclass(frozen=True)
class Urgent:
    """A task that says how urgent it is."""

    urgency: float


def test_a_deeper_task__goes_first_and_of_one_depth_the_more_urgent_one() -> None:
    order = [priority(depth, Urgent(urgency), (), ahead=False) for depth, urgency in ((1, 0.0), (1, 0.3), (1, 0.9), (2, 0.0))]
    assert order == sorted(order)
    assert len({*order}) == 4
    assert priority(1, len, (), ahead=True) > order[-1]


@dataclass(frozen=True)
class Source:
    """A thousand rows of a file."""

    def places(self) -> list[tuple[str, int, int | None]]:
        """They."""
        return [("a.parquet", 0, 1_000)]


def test_of_tasks_on_files__the_one_that_reads_more_goes_first() -> None:
    def reads(*row_bytes: int) -> Step:
        """A step over files of which so many bytes a row are read; over all columns where there is none."""
        read = Step("read", "rows", source=Source())
        picked = [Step("frame", "rows", (read,), Picked(("a",), each)) for each in row_bytes] or [read]
        return Step("concat", "rows", (Step("frame", "rows", (Step("concat", "rows", (*picked,)),), len),))

    order = [priority(1, len, (step,), ahead=False) for step in (reads(4), reads(24), reads(24, 24), reads())]
    assert order == sorted(order)
    assert len({*order}) == 4
