"""Rounds over the parts of a table: each adds up something small over all parts and makes the next state of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from pipeline.stage import Context
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds
from pipeline.tables.table import Table

State = TypeVar("State")
Sums = TypeVar("Sums")


class Method(Protocol[State, Sums]):
    """What a round does."""

    def sums(self, part: Part, state: State) -> Sums:
        """What a part adds to a round."""
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

    All rounds are submitted at once and nothing is waited for: those after the last that is needed do nothing. One part takes one task.
    """
    parts, submit, name = table.futures(), context.session.submit, context.name
    if len(parts) == 1:
        return submit(_alone, method, parts[0], state, most, name, stage=name)
    for _ in range(most):
        total = table.reduce(partial(_sums, method), partial(_added, method), state)
        state = submit(_next, method, state, total, stage=name)
    return state


def _alone(method: Method[Any, Any], part: Part, state: Any, most: int, stage: str) -> Any:
    rounds = Rounds(stage)
    for at in range(most):
        if method.is_done(state):
            break
        state = method.next(state, method.added([method.sums(part, state)]))
        rounds.done(Round(at + 1, most, method.figures(state)))
    return state


def _sums(method: Method[Any, Any], part: Part, state: Any) -> Any:
    return None if method.is_done(state) else method.sums(part, state)


def _added(method: Method[Any, Any], found: list[Any]) -> Any:
    return None if found[0] is None else method.added(found)


def _next(method: Method[Any, Any], state: Any, total: Any) -> Any:
    return state if total is None else method.next(state, total)
