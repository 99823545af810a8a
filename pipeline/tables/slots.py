"""Futures in a tree of steps: taken out before it is submitted, as Dask finds them among a task's arguments alone, and put back inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.backend.devices import Backend
from pipeline.tables.part import Part
from pipeline.tables.steps import Step, evaluate


@dataclass(frozen=True)
class Slot:
    """The place of a task's argument inside a tree: Dask hands a task's dependencies over as plain arguments."""

    index: int


def substitute(step: Step, change: Callable[[Any], Any]) -> Step:
    """The same tree with every source and small value put through `change`."""
    return replace(
        step,
        inputs=tuple(substitute(child, change) for child in step.inputs),
        small=tuple(change(value) for value in step.small),
        source=change(step.source),
    )


def staying(step: Step) -> Step:
    """The tree, whose queries leave on the GPU what they give."""
    return replace(step, inputs=tuple(map(staying, step.inputs)), stays=True)


def extract(step: Step, is_future: Callable[[Any], bool]) -> tuple[Step, list[Any]]:
    """The tree with slots in place of futures, and those futures in the slots' order."""
    found: list[Any] = []

    def change(value: Any) -> Any:
        """A slot for a future; other values as they are."""
        if not is_future(value):
            return value
        if all(value is not known for known in found):
            found.append(value)
        return Slot(next(i for i, known in enumerate(found) if known is value))

    return substitute(step, change), found


def fill(step: Step, values: Sequence[Any]) -> Step:
    """The tree that `extract` made, with values in its slots."""
    return substitute(step, lambda value: values[value.index] if isinstance(value, Slot) else value)


def evaluate_into(step: Step, backend: Backend, function: Callable[..., Any], given: int, *arguments: Any) -> Any:
    """What a function makes of the part that a tree stands for, and of as many arguments; the others fill its slots."""
    return function(evaluate(fill(step, arguments[given:]), backend), *arguments[:given])


def evaluate_filled(step: Step, backend: Backend, *arguments: Any) -> Part:
    """Run a tree in this task; `arguments` fill its slots. Raises as `evaluate` does."""
    return evaluate(fill(step, arguments), backend)
