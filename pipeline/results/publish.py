"""Publish a run's files all at once or not at all.

    PLACE/current -> runs/ID     the current run: one atomic rename of a link
    PLACE/current.json           the same; alone where there are no links (URLs)
    PLACE/runs/ID/               a folder that no other run uses; its manifest.json, written last, makes it complete
    PLACE/imports/               inputs kept as Parquet: nothing here touches them
    PLACE/checkpoints/           where trainings stand that a run was killed in: removed once a run is published
    PLACE/lock                   one writer at a time; a dead writer's lock is free (on S3 a lease, at other URLs nothing)

A run that dies at any moment leaves the former result as it was, and one that finds another's result published since it began leaves that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from pipeline.errors import PlaceError, RunError
from pipeline.results.at_url import Store
from pipeline.results.full import is_full
from pipeline.results.keyed import torn_folders
from pipeline.results.lock import ChangedError, Lock
from pipeline.results.manifest import MANIFEST, RECORD, RUNNING, Entry, RunView, by_path, checked_name, current_id
from pipeline.results.names import new_run_id
from pipeline.results.overtaken import is_whole, overtaken_text
from pipeline.results.retention import expired_runs, mark_dead
from pipeline.results.sealing import Sealing
from pipeline.results.stage_limits import Limits, keep_within, note_use, unfinished
from pipeline.results.store import open_store

SHORT = ("run", "status", "error", "started", "finished", "seconds")  # of a record that has no more room

Note = Callable[[tuple[Entry, ...]], Any]


@dataclass(frozen=True)
class Results:
    """A results folder or fsspec URL; `keep` complete runs stay besides the current one."""

    place: str
    keep: int = 5
    limits: Limits = field(default_factory=Limits)

    def open_run(self) -> RunFolder:
        """Make the place, take its lock and make a new run folder in it; raises PlaceError before anything else is done."""
        store = open_store(self.place)
        lock: Lock | None = None
        try:
            store.make("runs")
            lock = store.lock()
            if store.linked("current") is None and "current" in store.folders(""):
                raise FileExistsError(f"{store.path('current')} is a folder where a link belongs (move it away)")
            if lock is not None:
                mark_dead(store)
            run = RunFolder(store, lock, self.keep)
            run.limits = self.limits
            run.write_json(RECORD, {"run": run.id, "status": RUNNING})
        except (OSError, PlaceError) as error:
            if lock is not None:
                lock.close()
            if isinstance(error, PlaceError):
                raise
            remedy = "Make it writable, or choose another place with --out."
            why = f"{error.strerror}: {error.filename}" if error.strerror and error.filename else str(error)
            raise PlaceError(f"{self.place}: results cannot be written there ({why}). {remedy}") from error
        return run


class RunFolder:
    """The folder of one run while it is written; `with` abandons a run that was not committed.

    `path` is absolute, or a URL; `warnings` tell what went wrong and did no harm. A task may run twice: each attempt writes a name of its
    own (`attempt_name`), and the entries given to `commit` decide which files count. `overtaken` is whether it is whole, and another run
    was published while it ran.
    """

    def __init__(self, store: Store, lock: Lock | None, keep: int) -> None:
        self.id = new_run_id(store.folders("runs"))
        self.path = store.path(f"runs/{self.id}")
        self.warnings: list[str] = []
        self.overtaken = False
        self.limits, self.used = Limits(), set[str]()  # of checkpoints, and those that this run made or read
        self.sealing = Sealing(store, f"runs/{self.id}")
        if lock is None and store.keeps:
            self.warnings.append(f"{store.place}: {store.lockless}; let only one run at a time write there")
        self._seen = None if lock is not None and lock.excludes else store.pointed("current")
        self._store, self._lock, self._keep, self._open = store, lock, keep, True
        self._small: dict[str, Entry] = {}  # and those kept of former runs

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def file(self, name: str) -> str:
        """The absolute path (or URL) for the file `name` (`associations/part-00000.parquet`), its folder made."""
        relative = checked_name(name)
        self._store.make(f"runs/{self.id}/{relative}".rpartition("/")[0])
        return f"{self.path}/{relative}"

    def write_bytes(self, name: str, data: bytes) -> str:
        """Write a small file at once, over a former one of that name; the commit lists it by itself. Returns its path."""
        path = self.file(name)
        self._store.write(f"runs/{self.id}/{name}", data)
        self._small[name] = Entry(name, None, len(data))
        return path

    def write_json(self, name: str, value: Any) -> str:
        """Write a value as JSON, as `write_bytes` does; raises ValueError for NaN and infinity, which JSON does not have."""
        return self.write_bytes(name, _json(value))

    def keep(self, run: str, entries: Iterable[Entry]) -> None:
        """Publish files of a former run, too, under their names: linked or copied, so that its removal does not touch them.

        Raises RunError where one cannot be had.
        """
        for entry in entries:
            try:
                self.file(entry.path)
                self._store.share(f"runs/{run}/{entry.path}", f"runs/{self.id}/{entry.path}")
            except OSError as error:
                raise RunError(f"{self.path}/{entry.path}: the file of run {run} could not be kept ({error}). Run again.") from error
            self._small[entry.path] = entry

    def commit(self, entries: Iterable[Entry] = (), note: tuple[str, Note] | None = None) -> RunView:
        """Make this run the current one: sync and hash its files, write the manifest, swap; then remove what is no longer needed.

        `note` is the name of one more file, and what it says (as JSON) of the files with their checksums.

        Raises RunError where that fails: the former result is still the current one, and run.json can still be rewritten. Where another
        run was published meanwhile, this one is `overtaken` and stays as it is.
        """
        if not self._open:
            raise RuntimeError(f"{self.path} is closed: open a new run")
        listed = {**self._small, **by_path(entries)}
        try:
            sealed = self.sealing.of(listed.values())
            if note is not None:
                self.write_json(note[0], note[1](sealed))
                listed[note[0]] = self._small[note[0]]
                sealed = tuple(sorted((*sealed, *self.sealing.of([listed[note[0]]])), key=lambda entry: entry.path))
            view = RunView(self.id, self.path, datetime.now(UTC).isoformat(timespec="seconds"), sealed)
            document = {"run": self.id, "finished": view.finished}
            manifest = f"runs/{self.id}/{MANIFEST}"
            self._store.write(manifest, _json({**document, "files": [asdict(entry) for entry in view.files]}))
            self._store.seal(manifest, "not needed")
            self._store.sync({parent.as_posix() for name in (MANIFEST, *listed) for parent in PurePosixPath("runs", self.id, name).parents})
            self._point({**document, "path": f"runs/{self.id}"})
        except OSError as error:
            if isinstance(error, ChangedError) or (self._seen is not None and self._store.pointed("current") != self._seen):
                self._stand_aside()
                raise RunError(f"{self._store.place}: {overtaken_text(self._store, self.id)}") from error
            raise RunError(f"{self.path}: not published, the former result is unchanged: {error}. Mend that and run again.") from error
        self._tidy(set(listed))
        self._close()
        return view

    def _stand_aside(self) -> None:
        """Leave what another run has published; a run that is whole stays as it is, with its manifest and its record."""
        if is_whole(self._store, self.id):
            self.overtaken = True
            self._close()

    def write_last(self, document: dict[str, Any]) -> None:
        """Write run.json, the last file of a run that failed; in short over the former one where the disk has no room for another."""
        try:
            self.write_json(RECORD, document)
        except OSError as error:
            if not is_full(error):
                raise
            self._store.overwrite(f"runs/{self.id}/{RECORD}", _json({name: document.get(name) for name in SHORT}))

    def clear(self) -> None:
        """Remove the files of a run that was not committed, but for its run.json."""
        run = f"runs/{self.id}"
        try:
            if self._open and current_id(self._store) != self.id:
                names = {name.partition("/")[0] for name in self._store.sizes(run)} | set(self._store.folders(run))
                self._remove(f"{run}/{name}" for name in sorted(names - {RECORD}))
        except OSError as error:
            self.warnings.append(f"{self.path}: not cleared: {error}")

    def abandon(self) -> None:
        """Give up a run that was not committed: keep its run.json, remove its other files, free the lock. Does nothing after a commit."""
        try:
            self.clear()
        finally:
            self._close()

    def discard(self) -> None:
        """Give up a run that never began: nothing of it stays."""
        self.abandon()
        self._remove([f"runs/{self.id}/{RECORD}", f"runs/{self.id}"])

    def _point(self, document: dict[str, str]) -> None:
        try:
            self.warnings += self._store.point("current", document["path"], _json(document), self._seen)
        except OSError as error:
            if isinstance(error, ChangedError) or current_id(self._store) != self.id:
                raise
            self.warnings.append(f"{self.path}: published, but: {error}")

    def _tidy(self, listed: set[str]) -> None:
        run, alone = f"runs/{self.id}", self._lock is not None and self._lock.held()
        if self._lock is not None and not alone:  # another run has taken the lease: what is no longer needed is its affair
            return
        try:
            unlisted = [f"{run}/{name}" for name in self._store.sizes(run) if name not in {*listed, MANIFEST}]
            expired = expired_runs(self._store, self.id, self._keep, alone=alone)
            torn = [*torn_folders(self._store), *unfinished(self._store)] if alone else []
            if alone and self._store.keeps and self.used:
                note_use(self._store, self.used)
                keep_within(self._store, self.limits)
        except OSError as error:
            self.warnings.append(f"{self._store.place}: old runs not looked for: {error}")
            return
        self._remove([*unlisted, *expired, *torn])

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._store.remove(name)
            except OSError as error:
                self.warnings.append(f"{self._store.path(name)}: not removed: {error}")

    def _close(self) -> None:
        self.sealing.close()
        if self._open and self._lock is not None:
            self._lock.close()
        self._open = False


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
