"""A whole run that is not the current one, since another was published while it ran: what is said of it, and how it is published yet."""

from __future__ import annotations

import json

from pipeline.errors import PlaceError
from pipeline.results.at_url import Store
from pipeline.results.lock import ChangedError
from pipeline.results.manifest import RECORD, RunView, current_id, whole_run
from pipeline.results.private import private
from pipeline.results.store import open_store


def is_whole(store: Store, run: str) -> bool:
    """Whether all files of a run are there, and its manifest."""
    try:
        whole_run(store.place, run)
    except PlaceError:
        return False
    return True


def overtaken_text(store: Store, run: str) -> str:
    """What is said of a run that was overtaken, with the way to publish it, where there is one."""
    what = f"another run published {current_id(store)} while this one ran, and nothing was changed."
    if not is_whole(store, run):
        return f"{what} The files of this run are gone: run again."
    if why := _loses(store, run):
        return f"{what} {why} Run again."
    path = store.path(f"runs/{run}")
    return f"{what} The files of this run are at {path}; to publish them: python -m pipeline.run --publish {path}"


@private()
def publish_again(path: str) -> RunView:
    """Make a whole run, given by its folder (PLACE/runs/ID), the current one.

    Raises PlaceError where it is none, rows that another run appended would be lost, or another run is alive or was quicker.
    """
    place, _, run = path.rstrip("/").rpartition("/runs/")
    if not place or "/" in run:
        raise PlaceError(f"{path}: this is no folder of a run. Give one, RESULTS/runs/ID.")
    store, view = open_store(place), whole_run(place, run)
    try:
        lock = store.lock()
        try:
            seen = store.pointed("current")
            if current_id(store) == run:
                return view
            if why := _loses(store, run):
                raise PlaceError(f"{path}: it is not published: {why} Run its job again.")
            document = {"run": run, "finished": view.finished, "path": f"runs/{run}"}
            store.point("current", document["path"], (json.dumps(document, indent=2) + "\n").encode(), seen)
        finally:
            if lock is not None:
                lock.close()
    except ChangedError as error:
        raise PlaceError(f"{path}: it is not published: {overtaken_text(store, run)}") from error
    except OSError as error:
        raise PlaceError(f"{path}: it is not published ({error}). Mend that and try again.") from error
    return view


def _loses(store: Store, run: str) -> str:
    """Why publishing the run would lose rows: it appends to other files than those that are current now. '' where it would not."""
    record = json.loads(store.read(f"runs/{run}/{RECORD}"))
    current = current_id(store)
    for name, output in ((record.get("job") or {}).get("outputs") or {}).items():
        before = ((record.get("outputs") or {}).get(name) or {}).get("appended_to", {}).get("run")
        if output.get("append") and before != current:
            return f"It appends to the rows of {name!r} that {before or 'no run'} left, and would lose those of {current}."
    return ""
