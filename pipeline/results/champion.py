"""The champion: the run whose models are in use, a link beside `current` that no run moves by itself.

PLACE/champion -> runs/ID    the run in use; PLACE/champion/models/NAME.json is what `score` is told
PLACE/champion.json          the same, since when and why, and those before it, the last one first
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath

from pipeline.errors import PlaceError
from pipeline.results.at_url import Store
from pipeline.results.manifest import current_id, whole_run
from pipeline.results.private import private
from pipeline.results.store import open_store

NAME = "champion"
REMEMBERED = 20


@dataclass(frozen=True)
class Champion:
    """The run in use, since when (ISO 8601, UTC), why, and the runs that were before it, the last one first."""

    run: str
    since: str
    why: str
    before: Sequence[str] = ()


def read_champion(place: str) -> Champion | None:
    """The champion of a results folder or URL; None where there is none. Raises PlaceError where it cannot be read."""
    try:
        return _read(open_store(place))
    except OSError as error:
        raise PlaceError(f"{place}: {error}. Promote a run again.") from error


@private()
def promote(place: str, run: str = "current", why: str = "promoted by hand") -> Champion:
    """Make a complete run that has models the champion; `current` is the run that was published last.

    Raises PlaceError where there is no such run, it is not whole, it has no model, or a living run writes there.
    """
    store = open_store(place)
    with _locked(store):
        try:
            seen = store.pointed(NAME)  # before it is read: who moves it afterwards is noticed
            name = current_id(store) if run == "current" else run
            former = _read(store)
        except OSError as error:
            raise PlaceError(f"{place}: {error}. Promote a run by its id.") from error
        if name is None:
            raise PlaceError(f"{place}: no run has been published there. Run a job that trains a model.")
        view = whole_run(place, name)
        if not any(entry.path.startswith("models/") for entry in view.files):
            raise PlaceError(f"{place}: the run {name} has no model. Promote one that trained a model.")
        if former is not None and former.run == name:
            return former
        before = [] if former is None else [former.run, *(one for one in former.before if one not in {name, former.run})]
        return _point(store, Champion(name, _now(), why, before[:REMEMBERED]), seen)


@private()
def roll_back(place: str) -> Champion:
    """Make the champion before this one the champion again. Raises PlaceError where there is none, or its run is not whole."""
    store = open_store(place)
    with _locked(store):
        seen, former = _pointed(store), read_champion(place)
        if former is None or not former.before:
            raise PlaceError(f"{place}: there is no champion before this one to go back to. Promote a run by its id.")
        name, *before = former.before
        whole_run(place, name)
        return _point(store, Champion(name, _now(), f"rolled back from {former.run}", before), seen)


def held_runs(store: Store) -> list[str]:
    """The runs that must stay: the champion and the one before it. Raises OSError where it cannot be said which they are."""
    found = _read(store)
    return [] if found is None else [found.run, *found.before[:1]]


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    """The only writer meanwhile. Raises PlaceError where a living run holds the lock, or no run has been published."""
    try:
        if not store.folders("runs"):
            raise PlaceError(f"{store.place}: no run has been published there. Run a job that trains a model.")
        lock = store.lock()
    except OSError as error:
        raise PlaceError(f"{store.place}: nothing can be written there ({error}). Make it writable.") from error
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


def _read(store: Store) -> Champion | None:
    """The champion; the link counts before champion.json. Raises OSError for a file that is damaged."""
    try:
        document = json.loads(store.read(f"{NAME}.json"))
        found = Champion(document["run"], document["since"], document["why"], tuple(document["before"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{store.path(f'{NAME}.json')} is damaged ({error!r})") from error
    target = store.linked(NAME)
    return found if target is None else replace(found, run=PurePosixPath(target).name)


def _pointed(store: Store) -> str:
    try:
        return store.pointed(NAME)
    except OSError as error:
        raise PlaceError(f"{store.place}: {error}. Try again.") from error


def _point(store: Store, champion: Champion, seen: str) -> Champion:
    document = {**asdict(champion), "path": f"runs/{champion.run}"}
    try:
        store.point(NAME, f"runs/{champion.run}", (json.dumps(document, indent=1) + "\n").encode(), seen)
    except OSError as error:
        raise PlaceError(f"{store.place}: the champion is unchanged: {error}. Mend that and try again.") from error
    return champion


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
