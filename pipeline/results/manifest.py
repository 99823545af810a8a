"""What a complete run is: the manifest that lists its files, the pointer to the current run, and the checks of both.

Reading needs no lock: a reader sees one whole run or the one before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pipeline.errors import PlaceError, near
from pipeline.results.at_url import Store
from pipeline.results.store import open_store

MANIFEST, RECORD = "manifest.json", "run.json"
RUNNING = "running"  # the status in the record of a run that has begun


@dataclass(frozen=True)
class Entry:
    """A published file: its path relative to the run folder, and its rows (None for what is no table).

    `bytes` and `sha256` may be left out, the commit finds them; a `bytes` that the file does not have fails the commit.
    """

    path: str
    rows: int | None = None
    bytes: int = -1
    sha256: str = ""


@dataclass(frozen=True)
class RunView:
    """A complete run: its id, its folder, when it finished (ISO 8601, UTC) and its files."""

    id: str
    path: str
    finished: str
    files: tuple[Entry, ...]

    def paths(self, output: str) -> list[str]:
        """Absolute paths of the files of one output, sorted: the file of that name, or those in the folder of that name."""
        return [f"{self.path}/{entry.path}" for entry in self.files if f"{entry.path}/".startswith(f"{output}/")]


def read_current(place: str) -> RunView | None:
    """The current run of a results folder or URL, None where there is none yet; looks at names and sizes (`verify` at checksums too).

    Raises PlaceError where the current run is not whole.
    """
    store = open_store(place)
    try:
        name = current_id(store)
    except OSError as error:
        raise _damaged(place, str(error)) from error
    view, problems = (None, []) if name is None else _looked_at(store, name)
    if problems:
        raise _damaged(place, "; ".join(problems[:5]))
    return view


def _damaged(place: str, shown: str) -> PlaceError:
    return PlaceError(f"{place}: the current result is damaged: {shown}. Run the job again, or let `current` point to a run that is whole.")


def run_path(place: str) -> str:
    """The run folder that is meant: `place` itself where it is one, else the current run of the results folder or URL `place`.

    Raises PlaceError where there is neither.
    """
    store = open_store(place)
    try:
        if store.has(MANIFEST):
            return store.path("")
        if store.has(RECORD):
            raise PlaceError(f"{place}: {_unfinished(store)}")
        name = current_id(store)
    except OSError as error:
        raise PlaceError(f"{place}: {error}. Give the folder of a run.") from error
    if name is None:
        raise PlaceError(f"{place}: no run has been published there. Give a results folder, or the folder of a run.")
    return store.path(f"runs/{name}")


def run_view(path: str) -> RunView:
    """The run of a run folder, by its manifest alone. Raises PlaceError where that is damaged."""
    try:
        return _view(open_store(path))
    except (OSError, ValueError) as error:
        raise PlaceError(f"{path}: {error}. Give the folder of a whole run.") from error


def _unfinished(store: Store) -> str:
    """What is said of a run without a manifest, by its record."""
    try:
        status = str(json.loads(store.read(RECORD)).get("status"))
    except (ValueError, AttributeError):
        status = "nothing that can be read"
    more = ": it is under way, or was killed, which the next run on the place will say" if status == RUNNING else ""
    return f"this run was never published, and is not whole. Its {RECORD} says {status}{more}."


def verify(run_path: str) -> list[str]:
    """What is wrong with a run folder, file by file: missing, of another size, or of another checksum than its manifest says."""
    store = open_store(run_path)
    try:
        view = _view(store)
        problems = _misfits(store, view)
        for entry in view.files:
            if entry.path not in problems and store.digest(entry.path) != entry.sha256:
                problems[entry.path] = f"{entry.path} has another checksum than {MANIFEST} says"
    except (OSError, ValueError) as error:
        return [str(error)]
    return list(problems.values())


def current_id(store: Store) -> str | None:
    """The id of the current run, None where there is none; the link counts before current.json. Raises OSError where that is damaged."""
    target = store.linked("current")
    try:
        name = str(json.loads(store.read("current.json"))["run"]) if target is None else PurePosixPath(target).name
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{store.path('current.json')} is damaged ({error!r})") from error
    return name


def whole_run(place: str, name: str) -> RunView:
    """A complete run of a results folder or URL, by its id; looks at names and sizes. Raises PlaceError where there is none."""
    store = open_store(place)
    view, problems = _looked_at(store, name)
    if view is None or problems:
        try:
            others = store.folders("runs")
        except OSError:  # which `problems` tell of
            others = []
        raise PlaceError(f"{place}: there is no whole run {name!r}: {'; '.join(problems[:5])}.{near(name, others)}")
    return view


def _looked_at(store: Store, name: str) -> tuple[RunView | None, list[str]]:
    """A run by its id, and what is wrong with it."""
    try:
        run = open_store(store.path(f"runs/{name}"))
        view = _view(run)
        return view, list(_misfits(run, view).values())
    except (OSError, ValueError) as error:
        return None, [str(error)]


def current_run(place: str) -> str | None:
    """The id of the current run of a results folder or URL; None where there is none, or a damaged one."""
    try:
        return current_id(open_store(place))
    except OSError:
        return None


def checked_name(name: str) -> str:
    """The name, where it stays inside the run folder and is not the manifest's; raises ValueError."""
    if name == MANIFEST or "\\" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise ValueError(
            f"{name!r} is not a name that a file of a run can have: give a relative one such as associations/part-00000.parquet"
        )
    return name


def by_path(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Entries by their paths. Raises ValueError for one that is listed twice, or a name that no file can have."""
    listed: dict[str, Entry] = {}
    for entry in entries:
        if listed.setdefault(checked_name(entry.path), entry) is not entry:
            raise ValueError(f"{entry.path!r} is listed twice; give every file once")
    return listed


def _view(store: Store) -> RunView:
    try:
        document = json.loads(store.read(MANIFEST))
        files = tuple(Entry(checked_name(item["path"]), item["rows"], item["bytes"], item["sha256"]) for item in document["files"])
        return RunView(document["run"], store.path(""), document["finished"], files)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{store.path(MANIFEST)} is damaged ({error!r})") from error


def _misfits(store: Store, view: RunView) -> dict[str, str]:
    sizes = store.sizes("")
    missing = {entry.path: f"{entry.path} is missing" for entry in view.files if entry.path not in sizes}
    torn = {e.path: f"{e.path} has {sizes[e.path]} bytes, not {e.bytes}" for e in view.files if sizes.get(e.path, e.bytes) != e.bytes}
    return {**missing, **torn}
