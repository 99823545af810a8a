"""Which runs of a results folder are no longer needed."""

from __future__ import annotations

import re

from pipeline.results.champion import held_runs
from pipeline.results.manifest import MANIFEST, RECORD
from pipeline.results.store import Store

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


def expired_runs(store: Store, current: str, keep: int, *, alone: bool) -> list[str]:
    """Complete runs beyond the newest `keep`, and unfinished ones but the last that failed; `alone`: nobody else can be writing there.

    The champion, and the one before it, stay. Raises OSError where it cannot be said which they are.
    """
    held = {current, *held_runs(store)}
    runs = sorted((name for name in store.folders("runs") if RUN_ID.fullmatch(name) and name not in held), reverse=True)
    files = {name: store.sizes(f"runs/{name}") for name in runs}
    complete = [name for name in runs if MANIFEST in files[name]]
    # Where nothing is locked, a run without a manifest may be a living one.
    unfinished = [name for name in runs if MANIFEST not in files[name]] if alone else []
    last_failed = next((name for name in unfinished if RECORD in files[name]), None)
    return complete[keep:] + [name for name in unfinished if name != last_failed]
