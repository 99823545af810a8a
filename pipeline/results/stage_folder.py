"""Checkpoints of stages: a table's parts as files in a folder that is named by what the table is known by.

    PLACE/checkpoints/KEY/part-00003.SHAPE.1f2e.arrow    a part's frame, beside it its arrays (.calls.npy), and what they are (.json)
    PLACE/checkpoints/KEY/manifest.json                  every file with its bytes and SHA-256, every part with its rows: it is whole

A task writes only to names that are its own. SHAPE says into how many parts, and by how many workers, the table is divided: a part alone
is of use only where that is the same; a whole table always. Nothing is believed whose checksums do not agree.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipeline.results.at_url import Store
from pipeline.results.manifest import MANIFEST
from pipeline.results.on_disk import LocalStore

FOLDER = "checkpoints"
VERSION = 1
HASH_THREADS = 4


@dataclass(frozen=True)
class File:
    """A file of a checkpoint: its name in the folder, its bytes and its SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Piece:
    """A part as files, the frame's first: its rows and bytes in memory, what was counted on the way to it, and its arrays' names."""

    files: tuple[File, ...]
    rows: int
    bytes: int
    counts: Mapping[str, int] = field(default_factory=dict)
    arrays: tuple[str, ...] = ()

    @staticmethod
    def of(document: Mapping[str, Any]) -> Piece:
        """What `asdict` gave. Raises KeyError or TypeError for what is none."""
        files = tuple(File(str(one["name"]), int(one["bytes"]), str(one["sha256"])) for one in document["files"])
        return Piece(files, int(document["rows"]), int(document["bytes"]), dict(document["counts"]), tuple(document["arrays"]))


@dataclass(frozen=True)
class StageFolder:
    """The folder of one key; tasks take it with them."""

    store: Store
    key: str

    def path(self, name: str) -> str:
        """A file of it, as other libraries take it."""
        return self.store.path(self._at(name))

    @property
    def is_local(self) -> bool:
        """Whether its files are on a disk of this machine, or one that is mounted here."""
        return isinstance(self.store, LocalStore)

    def read(self, name: str) -> bytes:
        """A whole file. Raises FileNotFoundError."""
        return self.store.read(self._at(name))

    def write(self, name: str, buffers: Sequence[Any]) -> File:
        """Write a file whose name nobody else uses; its checksum is that of what was to be written."""
        total, size = hashlib.sha256(), 0
        for buffer in buffers:
            view = memoryview(buffer)
            size += view.nbytes
            total.update(view)
        self.store.make(f"{FOLDER}/{self.key}")
        if isinstance(self.store, LocalStore):
            with Path(self.path(name)).open("xb") as file:
                for buffer in buffers:
                    file.write(buffer)
        else:
            self.store.write(self._at(name), b"".join(buffers))
        return File(name, size, total.hexdigest())

    def note(self, stem: str, piece: Piece) -> None:
        """Say that a part's files are there: from now on it counts."""
        self.store.write(self._at(f"{stem}.json"), json.dumps(asdict(piece)).encode())

    def notes(self) -> dict[str, int]:
        """Names of what says which parts are there, without `.json`."""
        return {
            name[:-5]: size
            for name, size in self.store.sizes(f"{FOLDER}/{self.key}").items()
            if name != MANIFEST and name.endswith(".json")
        }

    def noted(self, stem: str) -> Piece | None:
        """What was said of a part; None where it is torn."""
        try:
            return Piece.of(json.loads(self.read(f"{stem}.json")))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def seal(self, document: Mapping[str, Any]) -> None:
        """Write the manifest: `pieces` of the document are all that count."""
        self.store.make(f"{FOLDER}/{self.key}")
        text = json.dumps({"version": VERSION, "key": self.key, **document}, indent=1)
        self.store.write_durably(self._at(MANIFEST), text.encode())

    def manifest(self) -> dict[str, Any] | None:
        """The manifest; None where there is none. Raises ValueError, with why, where it is torn or another folder's."""
        try:
            document = json.loads(self.read(MANIFEST))
            version, key = document["version"], document["key"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError("its manifest is torn") from error
        if key != self.key:
            raise ValueError("it is another one's, by its manifest")
        if version != VERSION:
            raise ValueError("it is of another version of this program")
        return dict(document)

    def check(self, pieces: Sequence[Piece]) -> None:
        """Read all files of these. Raises ValueError, with the name, for one that is not as it was written."""
        files = [file for piece in pieces for file in piece.files]
        with ThreadPoolExecutor(HASH_THREADS) as pool:
            for file, found in zip(files, pool.map(self._digest, files), strict=True):
                if found != file.sha256:
                    raise ValueError(f"{file.name} {'is missing' if found is None else 'has another checksum than it was written with'}")

    def remove(self) -> None:
        """Remove all of it; the manifest first, so that half of it is nothing."""
        self.store.remove(self._at(MANIFEST))
        self.store.remove(f"{FOLDER}/{self.key}")

    def drop(self, names: Sequence[str]) -> None:
        """Remove some files."""
        for name in names:
            self.store.remove(self._at(name))

    def _digest(self, file: File) -> str | None:
        try:
            return self.store.digest(self._at(file.name))
        except FileNotFoundError:
            return None

    def _at(self, name: str) -> str:
        return f"{FOLDER}/{self.key}/{name}"


def own_stem(stem: str) -> str:
    """A name that no other attempt of the same task uses."""
    return f"{stem}.{secrets.token_hex(4)}"
