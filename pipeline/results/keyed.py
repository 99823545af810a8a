"""Folders found by a key: made once by whoever needs one first, and believed only where they are whole.

    FOLDER/KEY/                  one of them; it has this name only once it is whole
    FOLDER/KEY/manifest.json     its version and key, the size of each file, and its maker's note; written last
    FOLDER/.KEY.1f2e3d4c/        one that is being made, or that a run left when it died
    FOLDER/KEY/1f2e3d4c/         the same in a bucket, which has no renames: the manifest says whose files are KEY's

Two runs may make the same folder at once: the first stays, the second takes it and drops its own. Nothing here removes a whole one.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pipeline.errors import PlaceError, RunError
from pipeline.results.at_url import Store
from pipeline.results.lock import ChangedError
from pipeline.results.manifest import MANIFEST, checked_name
from pipeline.results.on_disk import LocalStore

FOLDERS = ("imports", "remembered")
"""Which folders of a results place hold such folders."""


@dataclass(frozen=True)
class Made:
    """What a maker wrote into its folder: the files' names, relative to it and in order, and a note that JSON can hold."""

    files: Sequence[str]
    note: Mapping[str, Any]


@dataclass(frozen=True)
class KeyedFolder:
    """A whole folder: the absolute paths of its files, in their order, and its maker's note."""

    files: tuple[str, ...]
    note: Mapping[str, Any]


_WAITS = (0.0, 0.01, 0.1, 1.0)  # seconds in which a run that has put another's whole folder aside with a torn one in mind puts it back


class Keyed:
    """The folders in one folder of a results place; `version` is of what they hold, and one of another version is made anew.

    Raises PlaceError where the place is a URL that has neither renames nor conditional writes.
    """

    def __init__(self, store: Store, folder: str, version: int) -> None:
        if not store.keeps:
            raise PlaceError(f"{store.place}: {folder}/ is kept in a folder of this machine or a bucket of S3; give one with --out")
        self.store, self.folder, self.version = store, folder, version

    def find(self, key: str) -> KeyedFolder | None:
        """The folder of that key; None where there is none, or it lacks a file, has one of another size, or is not this key's."""
        return self._read(f"{self.folder}/{key}", key)

    def get(self, key: str, make: Callable[[str], Made]) -> KeyedFolder:
        """The folder of that key: the one that is there, else a new one that `make` fills, given its path.

        Where `make` raises, nothing stays. RunError where what was made is not whole.
        """
        if found := self.find(key):
            return found
        if isinstance(self.store, LocalStore):
            self._make_beside(self.store, key, make)
        else:
            self._make_within(key, make)
        for wait in _WAITS:
            time.sleep(wait)
            if made := self.find(key):
                return made
        raise RunError(f"{self.store.path(f'{self.folder}/{key}')}: what was made here is not whole. Run again.")

    def _make_beside(self, store: LocalStore, key: str, make: Callable[[str], Made]) -> None:
        """Make a folder of another name and rename it."""
        beside = self._beside(key)
        store.make(beside)
        try:
            self._seal(beside, key, make(store.path(beside)))
            self._place(store, beside, key)
        finally:
            store.remove(beside)

    def _make_within(self, key: str, make: Callable[[str], Made]) -> None:
        """Make the files within the folder, under a name of this maker's own, and write the manifest if nobody has."""
        own, manifest = secrets.token_hex(4), f"{self.folder}/{key}/{MANIFEST}"
        seen, is_ours = self.store.tag(manifest), False  # of a folder that is torn, or of none
        try:
            made = make(self.store.path(f"{self.folder}/{key}/{own}"))
            document = self._document(f"{self.folder}/{key}", key, Made([f"{own}/{file}" for file in made.files], made.note))
            if self.find(key) is None:
                self.store.replace(manifest, document, seen)
                is_ours = True
        except ChangedError:
            return
        finally:
            if not is_ours:
                self.store.remove(f"{self.folder}/{key}/{own}")

    def _beside(self, key: str) -> str:
        return f"{self.folder}/.{key}.{secrets.token_hex(4)}"

    def _read(self, name: str, key: str) -> KeyedFolder | None:
        sizes = self.store.sizes(name)
        try:
            document = json.loads(self.store.read(f"{name}/{MANIFEST}"))
            files = {str(entry["path"]): int(entry["bytes"]) for entry in document["files"]}
            known, note = (document["version"], document["key"]), dict(document["note"])
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None
        if known != (self.version, key) or any(sizes.get(file) != size for file, size in files.items()):
            return None
        return KeyedFolder(tuple(self.store.path(f"{name}/{file}") for file in files), note)

    def _document(self, name: str, key: str, made: Made) -> bytes:
        """Make the files durable; the manifest that says so."""
        files = [{"path": checked_name(file), "bytes": self.store.seal(f"{name}/{file}", "not needed")[0]} for file in made.files]
        document = {"version": self.version, "key": key, "files": files, "note": dict(made.note)}
        return (json.dumps(document, indent=2) + "\n").encode()

    def _seal(self, name: str, key: str, made: Made) -> None:
        self.store.write(f"{name}/{MANIFEST}", self._document(name, key, made))
        self.store.seal(f"{name}/{MANIFEST}", "not needed")
        self.store.sync({str(PurePosixPath(name, file).parent) for file in (MANIFEST, *made.files)})

    def _place(self, store: LocalStore, beside: str, key: str) -> None:
        """Give the folder its name, and put a torn one that has it aside; a whole one stays."""
        while self.find(key) is None:
            if store.rename(beside, f"{self.folder}/{key}"):
                store.sync([self.folder])
                return
            self._set_aside(store, key)

    def _set_aside(self, store: LocalStore, key: str) -> None:
        """Take a torn folder out of the way; one that another run has just put there goes back."""
        name, aside = f"{self.folder}/{key}", self._beside(key)
        if self._read(name, key) is None and store.rename(name, aside):
            if self._read(aside, key):
                store.rename(aside, name)
            store.remove(aside)


def torn_folders(store: Store) -> list[str]:
    """Folders that a run which was killed was making; for who holds the lock, so that no other run makes one."""
    found = [f"{folder}/{name}" for folder in FOLDERS for name in (store.folders(folder) if store.keeps else ())]
    if isinstance(store, LocalStore):  # there a folder has its own name only once it is whole
        return [name for name in found if PurePosixPath(name).name.startswith(".")]
    return [name for name in found if not store.has(f"{name}/{MANIFEST}")]
