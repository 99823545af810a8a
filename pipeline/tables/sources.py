"""What a source may know beside its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

Range = tuple[str, int, int | None]  # a file, the first of its rows (the first one is 0), and how many; None: all that follow


@runtime_checkable
class Placed(Protocol):
    """A source that knows which rows of which files its rows are."""

    def places(self) -> Sequence[Range]:
        """The ranges that its rows are of, in order."""


@runtime_checkable
class Glanced(Protocol):
    """A source of which some rows are had without reading all of it."""

    def some(self, share: float) -> Any:
        """A source of about such a share of its rows, which counts nothing; itself where that takes as long."""


@runtime_checkable
class Explains(Protocol):
    """A source that can say more of a failed read than the error does."""

    def explain(self) -> str | None:
        """What is wrong with its files, where and with the remedy; None where nothing is."""
