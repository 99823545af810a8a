"""What a results folder no longer needs: complete runs beyond the newest, and what runs left that were killed."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from pipeline.results.at_url import Store
from pipeline.results.champion import held_runs
from pipeline.results.lock import ChangedError
from pipeline.results.manifest import MANIFEST, RECORD, RUNNING

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")
DIED = "the run ended without a word: its process was killed, or its machine stopped"


def expired_runs(store: Store, current: str, keep: int, *, alone: bool) -> list[str]:
    """What to remove, in this order: complete runs beyond the newest `keep`, and unfinished ones but the record of the last that failed.

    The champion, and the one before it, stay. `alone`: nobody else can be writing there; else an unfinished run may be a living one.
    Raises OSError where it cannot be said which they are.
    """
    held = {current, *held_runs(store)}
    runs = sorted((name for name in store.folders("runs") if RUN_ID.fullmatch(name) and name not in held), reverse=True)
    files = {name: store.sizes(f"runs/{name}") for name in runs}
    complete = [name for name in runs if MANIFEST in files[name]]
    unfinished = [name for name in runs if MANIFEST not in files[name]] if alone else []
    last_failed = next((name for name in unfinished if RECORD in files[name]), None)
    removed = complete[keep:] + [name for name in unfinished if name != last_failed]
    left = {name.partition("/")[0] for name in files[last_failed]} - {RECORD} if last_failed else set[str]()
    # Without its manifest a half-removed run is no complete one, and without its record it is not kept as a failed one.
    whole = [f"runs/{name}{part}" for name in removed for part in (f"/{MANIFEST}", f"/{RECORD}", "")]
    return [*whole, *(f"runs/{last_failed}/{name}" for name in sorted(left))]


def mark_dead(store: Store) -> None:
    """Have run.json of runs that were killed say so; for who holds the lock, so that no other run is alive.

    One that is alive all the same (its lease was lost) writes its own record over this, and this never over that.
    """
    for name in store.folders("runs"):
        record = f"runs/{name}/{RECORD}"
        if not RUN_ID.fullmatch(name) or store.has(f"runs/{name}/{MANIFEST}"):
            continue
        with suppress(FileNotFoundError, ValueError, ChangedError):
            tag = store.tag(record)
            document = json.loads(store.read(record))
            if document.get("status") == RUNNING:
                store.replace(record, (json.dumps({**document, "status": "died", "error": DIED}, indent=2) + "\n").encode(), tag)
