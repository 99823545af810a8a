"""Folders found by a key: made once by whoever needs one first, and believed only where they are whole.

    FOLDER/KEY/                  one of them; it has this name only once it is whole
    FOLDER/KEY/manifest.json     its version and key, the size of each file, and its maker's note; written last
    FOLDER/.KEY.1f2e3d4c/        one that is being made, or that a run left when it died

Two runs may make the same folder at once: the first stays, the second takes it and drops its own. Nothing here removes a whole one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pipeline.errors import PlaceError, RunError
from pipeline.results.manifest import MANIFEST, checked_name
from pipeline.results.store import LocalStore, Store


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


class Keyed:
    """The folders in one folder of a results place; `version` is of what they hold, and one of another version is made anew.

    Raises PlaceError where the place is a URL, which has no rename that is one step.
    """

    def __init__(self, store: Store, folder: str, version: int) -> None:
        if not isinstance(store, LocalStore):
            raise PlaceError(f"{store.place}: {folder}/ is kept in a folder of this machine, not at a URL; give one with --out")
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
        beside = self._beside(key)
        self.store.make(beside)
        try:
            self._seal(beside, key, make(self.store.path(beside)))
            self._place(beside, key)
        finally:
            self.store.remove(beside)
        made = self.find(key)
        if made is None:
            raise RunError(f"{self.store.path(f'{self.folder}/{key}')}: what was made here is not whole. Run again.")
        return made

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

    def _seal(self, name: str, key: str, made: Made) -> None:
        """Make the files durable, then write the manifest that says so."""
        files = [{"path": checked_name(file), "bytes": self.store.seal(f"{name}/{file}", "not needed")[0]} for file in made.files]
        document = {"version": self.version, "key": key, "files": files, "note": dict(made.note)}
        self.store.write(f"{name}/{MANIFEST}", (json.dumps(document, indent=2) + "\n").encode())
        self.store.seal(f"{name}/{MANIFEST}", "not needed")
        self.store.sync({str(PurePosixPath(name, file).parent) for file in (MANIFEST, *made.files)})

    def _place(self, beside: str, key: str) -> None:
        """Give the folder its name, and put a torn one that has it aside; a whole one stays."""
        while self.find(key) is None:
            if self.store.rename(beside, f"{self.folder}/{key}"):
                self.store.sync([self.folder])
                return
            self._set_aside(key)

    def _set_aside(self, key: str) -> None:
        """Take a torn folder out of the way; one that another run has just put there goes back."""
        name, aside = f"{self.folder}/{key}", self._beside(key)
        if self._read(name, key) is None and self.store.rename(name, aside):
            if self._read(aside, key):
                self.store.rename(aside, name)
            self.store.remove(aside)
