"""How many checkpoints stay: those that were used last, up to a number and to so many bytes of all together."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.results.at_url import Store
from pipeline.results.manifest import MANIFEST
from pipeline.results.stage_folder import FOLDER

USED = f"{FOLDER}/used.json"


BESIDE = 20


@dataclass(frozen=True)
class Limits:
    """How many tables may stay, and how many bytes of all together; of what stages give beside their tables BESIDE times as many."""

    keep: int = 50
    bytes: int = 20 * 10**9


def note_use(store: Store, keys: Iterable[str]) -> None:
    """Note that these were made, or read, just now."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    store.make(FOLDER)
    store.write(USED, json.dumps({**last_uses(store), **dict.fromkeys(keys, now)}, indent=1).encode())


def last_uses(store: Store) -> dict[str, str]:
    """When each was last used; nothing where that is not known, and then all are as old."""
    try:
        known = json.loads(store.read(USED))
    except (FileNotFoundError, ValueError):
        return {}
    return {str(key): str(when) for key, when in known.items()} if isinstance(known, dict) else {}


def sizes(store: Store) -> dict[str, int]:
    """Bytes of every whole checkpoint, by its key."""
    return {key: sum(files.values()) for key, files in _folders(store).items() if MANIFEST in files}


def keep_within(store: Store, limits: Limits, held: Collection[str] = ()) -> list[str]:
    """Remove those beyond the limits, the one first that was not used for longest; those that are `held` last. Returns what was removed."""
    there, uses = sizes(store), last_uses(store)
    order = sorted(there, key=lambda key: (key in held, uses.get(key, "")), reverse=True)
    tables = {key for key, files in _folders(store).items() if any(file.startswith("part-") for file in files)}
    stays, total = {True: 0, False: 0}, 0
    removed = list[str]()
    for key in order:
        is_table = key in tables
        if stays[is_table] < limits.keep * (1 if is_table else BESIDE) and total + there[key] <= limits.bytes:
            stays[is_table], total = stays[is_table] + 1, total + there[key]
        else:
            removed.append(key)
    for key in removed:
        remove(store, key)
    return removed


def unfinished(store: Store) -> list[str]:
    """What a run that has ended has no use for: parts of tables that were not kept whole, and how far trainings had come."""
    folders = _folders(store)
    if not any(MANIFEST in files for key, files in folders.items() if key):
        return [FOLDER]
    loose = [name for name in folders.get("", {}) if f"{FOLDER}/{name}" != USED]
    return [f"{FOLDER}/{name}" for name in (*loose, *(key for key, files in folders.items() if key and MANIFEST not in files))]


def remove(store: Store, key: str) -> None:
    """Remove a checkpoint, its manifest first: half of it is nothing."""
    store.remove(f"{FOLDER}/{key}/{MANIFEST}")
    store.remove(f"{FOLDER}/{key}")


def _folders(store: Store) -> Mapping[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, size in store.sizes(FOLDER).items():
        key, _, file = name.rpartition("/")
        found.setdefault(key, {})[file] = size
    return found
