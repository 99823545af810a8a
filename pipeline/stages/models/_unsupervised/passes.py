"""Rounds over the parts of a table: each adds up something small over all parts and makes the next state of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pipeline.stage import Context
from pipeline.tables.handed import here, parts_of
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds
from pipeline.tables.table import Table

TOGETHER = 8
"""Parts of one task, and sums."""

State = TypeVar("State")
Sums = TypeVar("Sums")


class Method(Protocol[State, Sums]):
    """What a round does."""

    def sums(self, part: Any, state: State) -> Sums:
        """What a part, or what was made of it, adds to a round."""
        ...

    def added(self, found: Sequence[Sums]) -> Sums:
        """The sum over some parts."""
        ...

    def next(self, state: State, total: Sums) -> State:
        """The state after a round."""
        ...

    def is_done(self, state: State) -> bool:
        """Whether there is nothing left to do."""
        ...

    def figures(self, state: State) -> Mapping[str, float]:
        """What to tell of a round."""
        ...


def passed(method: Method[Any, Any], table: Table, state: Any, most: int, context: Context) -> Any:
    """A future of the state after so many rounds at most, over the parts of a table that is held.

    All rounds are submitted at once and nothing is waited for: those after the last that is needed do nothing. One part takes one task for
    all rounds. In one process a task takes several parts where there are more than threads and they are in memory: a task costs a
    millisecond. What is added to what is the same wherever, or the last digits would differ.
    """
    parts, session, name = parts_of(table), context.session, context.name
    if len(parts) == 1:
        return session.submit(_alone, method, parts[0], state, most, name, stage=name)
    several = 1 if session.workers > 1 or table.is_beyond else min(TOGETHER, max(1, len(parts) // session.threads))
    for _ in range(most):
        blocks = [
            [session.submit(_sums, method, state, *group, stage=name) for group in _groups(block, several)]
            for block in _groups(parts, TOGETHER)
        ]
        sums = blocks[0] if len(blocks) == 1 else [session.submit(_added, method, *block, stage=name) for block in blocks]
        while len(sums) > TOGETHER:
            sums = [session.submit(_added, method, *group, stage=name) for group in _groups(sums, TOGETHER)]
        state = session.submit(_next, method, state, *sums, stage=name)
    return state


def _groups(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [values[at : at + size] for at in range(0, len(values), size)]


def _alone(method: Method[Any, Any], part: Part, state: Any, most: int, stage: str) -> Any:
    rounds = Rounds(stage)
    for at in range(most):
        if method.is_done(state):
            break
        state = method.next(state, method.added([method.sums(part, state)]))
        rounds.done(Round(at + 1, most, method.figures(state)))
    return state


def _sums(method: Method[Any, Any], state: Any, *parts: Part) -> list[Any]:
    """Of each part, none where there is nothing left to do."""
    return [] if method.is_done(state) else [method.sums(here(part), state) for part in parts]


def _added(method: Method[Any, Any], *found: list[Any]) -> list[Any]:
    values = [one for some in found for one in some]
    return [method.added(values)] if values else []


def _next(method: Method[Any, Any], state: Any, *found: list[Any]) -> Any:
    return method.next(state, *total) if (total := _added(method, *found)) else state
