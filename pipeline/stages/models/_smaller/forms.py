"""Smaller forms of a published model, and the search for the smallest one that still fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SPREAD = 12  # forms that are looked at before the search narrows


@dataclass(frozen=True)
class Form:
    """A form of a model: the bytes of its file, what it is in words, and what its description says otherwise than the model's own."""

    content: bytes
    said: str
    own: Mapping[str, Any] = field(default_factory=dict)
    learner: Any = None
    """The stage whose model it is, where that is another than learned the model."""


@dataclass(frozen=True)
class Ladder:
    """Forms of a model from step 1, the smallest, up to step `top`, which predicts what the model does."""

    top: int
    at: Callable[[int], Form]


def lowest(top: int, fits: Callable[[int], bool]) -> int:
    """A step that fits while the one below does not, found by a dozen steps evenly apart and then by halves; `top` where no other does.

    Where fitting does not go with the steps it may not be the lowest of all.
    """
    spread = sorted({1 + (top - 1) * place // (SPREAD - 1) for place in range(SPREAD)})
    low, high = 0, top
    found = [step for step in spread if fits(step)]
    if found:
        high = found[0]
        low = max((step for step in spread if step < high), default=0)
    else:
        low = top - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
