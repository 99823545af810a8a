"""A place that fsspec reaches, behind the few file operations that publishing needs: what a store is, and what it is at any URL.

Names are relative to the place and use `/`. Every failure is an OSError, whatever a remote library raises.

A write is one upload, which object stores (s3, gs, az) show as a whole or not at all. There are no links and no renames, and but for S3
(on_s3.py) no lock: that only one run writes at a time is the user's affair. A pointer is looked at again just before it is written, so
that a run that another one has overtaken says so; of two that publish in the same moment the later one stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pipeline.files import ask
from pipeline.results.lock import ChangedError, Lock


class Store:
    """A place that fsspec reaches: no lock, no links, current.json alone says what is current."""

    keeps: ClassVar[bool] = False
    """Whether folders by key can be kept here, and what a killed run left is known for that: where there is a lock."""
    lockless: ClassVar[str] = "there is no lock"
    """Why there is none, where one could be."""

    def __init__(self, place: str, root: str) -> None:
        self.place = place
        self.root = root.rstrip("/")

    @cached_property
    def fs(self) -> Any:
        """The file system of fsspec."""
        import fsspec.core

        found, _ = fsspec.core.url_to_fs(self.place)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without the file system: a worker's event loop would import its library as it unpickles, beside a task that imports it."""
        return {name: value for name, value in vars(self).items() if name != "fs"}

    def path(self, name: str) -> str:
        """The URL of `name`, as other libraries take it."""
        return f"{self.place.rstrip('/')}/{name}".rstrip("/")

    def lock(self) -> Lock | None:
        """Become the only writer; None where there is no lock to take. Raises PlaceError where a living run holds it."""
        return None

    def make(self, name: str) -> None:
        """Make the folder `name` and those above it, where the service has folders."""
        ask(self.fs.makedirs, self._at(name), exist_ok=True)

    def read(self, name: str) -> bytes:
        """The whole file; raises FileNotFoundError."""
        return bytes(ask(self.fs.cat_file, self._at(name)))

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        self.fs.invalidate_cache()
        return bool(ask(self.fs.exists, self._at(name)))

    def write(self, name: str, data: bytes) -> None:
        """Write the whole file: a reader sees all of it, or the one before. Durable once it is sealed and its folder synced."""
        ask(self.fs.pipe_file, self._at(name), data)

    def write_durably(self, name: str, data: bytes) -> None:
        """Write the whole file, so that it is there after a loss of power, too; an upload that has ended is."""
        self.write(name, data)

    def overwrite(self, name: str, data: bytes) -> None:
        """Write the whole file where there may be no room for a second one beside it."""
        self.write(name, data)

    def tag(self, name: str) -> str:
        """What the content of a file is known by; '' where there is no such file."""
        try:
            return hashlib.sha256(self.read(name)).hexdigest()
        except FileNotFoundError:
            return ""

    def replace(self, name: str, data: bytes, tag: str) -> str:
        """Write a file that still has that tag ('': that is not there yet); returns its new one. Raises ChangedError otherwise."""
        if self.tag(name) != tag:
            raise ChangedError(f"{self.path(name)} was written by another run meanwhile")
        self.write(name, data)
        return hashlib.sha256(data).hexdigest()

    def upload(self, file: Path, name: str) -> None:
        """Copy a local file to `name`, block by block."""
        self.make(name.rpartition("/")[0])
        ask(self.fs.put_file, str(file), self._at(name))

    def share(self, name: str, to: str) -> None:
        """Give the content of a file that no one writes to any more another name; whichever is removed, the other stays."""
        ask(self.fs.cp_file, self._at(name), self._at(to))

    def seal(self, name: str, sha256: str) -> tuple[int, str]:
        """Make a written file durable; returns its bytes and its checksum, which is computed in blocks where `sha256` is ''."""
        return int(ask(self.fs.size, self._at(name))), sha256 or self.digest(name)

    def digest(self, name: str) -> str:
        """SHA-256 of a file, in hexadecimal."""
        return str(ask(_sha256, self.fs, self._at(name)))

    def sync(self, folders: Collection[str]) -> None:
        """Make the names in these folders durable; an upload that has ended is."""

    def sizes(self, name: str) -> dict[str, int]:
        """Bytes of every file below the folder `name`, by its name relative to that; empty where there is none."""
        self.fs.invalidate_cache()
        found = ask(self.fs.find, self._at(name), detail=True)
        return {path[len(self._at(name)) + 1 :]: int(info["size"]) for path, info in found.items()}

    def folders(self, name: str) -> list[str]:
        """Names of the folders (not links) right in the folder `name`; empty where there is none."""
        self.fs.invalidate_cache()
        try:
            found = ask(self.fs.ls, self._at(name), detail=True)
        except FileNotFoundError:
            return []
        return [info["name"].rstrip("/").rpartition("/")[2] for info in found if info["type"] == "directory"]

    def remove(self, name: str) -> None:
        """Remove a file or a folder with all that it holds; what is gone already is no error."""
        try:
            ask(self.fs.rm, self._at(name), recursive=True)
        except FileNotFoundError:
            return

    def linked(self, name: str) -> str | None:
        """What the link `name` points to; None where there is no link."""
        return None

    def pointed(self, name: str) -> str:
        """What the pointer `name` (current, say) is known by as it is now, for `point`."""
        return self.tag(f"{name}.json")

    def point(self, name: str, target: str, document: bytes, seen: str | None = None) -> list[str]:
        """Make the link `name` point to `target` in one step and write NAME.json, `document`; returns warnings.

        `seen` is what the pointer was known by when it was read, None where nobody else can have moved it. Raises OSError where it still
        points to the former one, ChangedError (one of these) where another run has moved it since.
        """
        del target  # a link's business
        if seen is None:
            self.write(f"{name}.json", document)
        else:
            self.replace(f"{name}.json", document, seen)
        return []

    def _at(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")


def _sha256(fs: Any, path: str) -> str:
    with fs.open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
