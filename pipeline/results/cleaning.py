"""What checkpoints a results place has, and their removal when somebody asks for it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pipeline.errors import PlaceError
from pipeline.results.at_url import Store
from pipeline.results.manifest import MANIFEST
from pipeline.results.stage_folder import FOLDER
from pipeline.results.stage_limits import last_uses, remove, sizes, unfinished
from pipeline.results.store import open_store


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint: which table it is of, its bytes, when it was made and last used ('' where that is not known)."""

    key: str
    table: str
    bytes: int
    made: str
    used: str

    def __str__(self) -> str:
        when = f", made {self.made}" if self.made else ""
        return f"{self.table}: {self.bytes / 1e6:,.1f} MB{when}{f', used {self.used[:19]}' if self.used else ''} ({FOLDER}/{self.key})"


def checkpoints(place: str) -> list[Checkpoint]:
    """Those of a results place, the one first that was not used for longest. Raises PlaceError where the place cannot be read."""
    store = open_store(place)
    try:
        there, uses = sizes(store), last_uses(store)
        found = [Checkpoint(key, *_about(store, key), uses.get(key, "")) for key in there]
    except OSError as error:
        raise PlaceError(f"{place}: {error}. Mend that, or choose another place with --out.") from error
    return [Checkpoint(one.key, one.table, there[one.key], one.made, one.used) for one in sorted(found, key=lambda one: one.used)]


def clean(place: str) -> list[Checkpoint]:
    """Remove all checkpoints of a results place, and what runs left that were killed; runs, imports and what is remembered stay.

    Raises PlaceError where a living run writes there.
    """
    removed, store = checkpoints(place), open_store(place)
    if not removed and not store.sizes(FOLDER):
        return []
    lock = store.lock()
    try:
        for one in removed:
            remove(store, one.key)
        for name in unfinished(store):
            store.remove(name)
    except OSError as error:
        raise PlaceError(f"{place}: {error}. Mend that, and say it again.") from error
    finally:
        if lock is not None:
            lock.close()
    return removed


def _about(store: Store, key: str) -> tuple[str, int, str]:
    try:
        document = json.loads(store.read(f"{FOLDER}/{key}/{MANIFEST}"))
        return str(document["table"]), 0, str(document.get("made", ""))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return "damaged", 0, ""
