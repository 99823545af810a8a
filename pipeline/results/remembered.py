"""Small values that a stage keeps from run to run, found again by what they are of: trials that a killed run had measured, say.

    PLACE/remembered/KEY/    one value (results/keyed.py)

KEY is a digest of all that the value depends on, so what has changed is not found. Nothing removes one but its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.results.at_url import Store
from pipeline.results.checkpoints import Checkpoint
from pipeline.results.keyed import Keyed, Made

FOLDER = "remembered"
VERSION = 1


@dataclass(frozen=True)
class Remembered:
    """What earlier runs left of one stage: `about` is what all its values depend on, `digest` makes a key of plain values.

    `fresh`: what is there is not to be found.
    """

    folders: Keyed
    about: Sequence[Any]
    digest: Callable[[Any], str]
    fresh: bool = False

    @staticmethod
    def of(store: Store, about: Sequence[Any], digest: Callable[[Any], str], *, fresh: bool = False) -> Remembered | None:
        """In a results folder or a bucket of S3; None where results go to another URL, which keeps nothing."""
        return Remembered(Keyed(store, FOLDER, VERSION), about, digest, fresh) if store.keeps else None

    def find(self, of: Any) -> Mapping[str, Any] | None:
        """The value that was kept of this (plain values); None where there is none."""
        found = None if self.fresh else self.folders.find(self._key(of))
        return None if found is None else found.note

    def keep(self, of: Any, value: Mapping[str, Any]) -> None:
        """Keep a value that JSON can hold. It is whole on the disk when this returns."""
        self.folders.get(self._key(of), lambda _folder: Made((), value))

    def checkpoint(self, of: Any) -> Checkpoint:
        """Where a training of this (plain values) keeps how far it has come."""
        found = Checkpoint(self.folders.store, self._key(of))
        if self.fresh:
            found.forget()
        return found

    def _key(self, of: Any) -> str:
        return self.digest([VERSION, *self.about, of])
