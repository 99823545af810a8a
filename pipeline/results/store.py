"""Where results lie: any fsspec URL, or a local folder, behind the few file operations that publishing needs.

Names are relative to the place and use `/`. Every failure is an OSError, whatever a remote library raises.

A local folder has a lock, links, durable writes (fsync) and atomic renames. A URL has none of these: a write there is one upload, which
object stores (s3, gs, az) show as a whole or not at all, and that only one run writes at a time is the user's affair.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec.core

from pipeline.errors import PlaceError
from pipeline.files import absolute, ask, is_url
from pipeline.results.lock import take_lock


def open_store(place: str) -> Store:
    """The store at a folder or a URL; raises PlaceError where no installed library handles that kind of URL."""
    if not is_url(place):
        return LocalStore(place, absolute(place))
    try:
        _, root = fsspec.core.url_to_fs(place)
    except (ImportError, ValueError) as error:
        raise PlaceError(
            f"{place}: no installed library writes there ({error}). Install it, or choose another place with --out."
        ) from error
    return Store(place, str(root))


class Store:
    """A place that fsspec reaches: no lock, no links, current.json alone says what is current."""

    def __init__(self, place: str, root: str) -> None:
        self.place = place
        self.root = root.rstrip("/")
        self.fs, _ = fsspec.core.url_to_fs(place)

    def path(self, name: str) -> str:
        """The URL of `name`, as other libraries take it."""
        return f"{self.place.rstrip('/')}/{name}".rstrip("/")

    def lock(self) -> int | None:
        """Become the only writer; None where there is no lock to take. Raises PlaceError where a living run holds it."""
        return None

    def make(self, name: str) -> None:
        """Make the folder `name` and those above it, where the service has folders."""
        ask(self.fs.makedirs, self._at(name), exist_ok=True)

    def read(self, name: str) -> bytes:
        """The whole file; raises FileNotFoundError."""
        return bytes(ask(self.fs.cat_file, self._at(name)))

    def write(self, name: str, data: bytes) -> None:
        """Write the whole file: a reader sees all of it, or the one before. Durable once it is sealed and its folder synced."""
        ask(self.fs.pipe_file, self._at(name), data)

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

    def point(self, name: str, target: str, document: bytes) -> list[str]:
        """Make the link `name` (current, say) point to `target` in one step and write NAME.json, `document`; returns warnings.

        Raises OSError where it still points to the former one.
        """
        del target  # a link's business
        self.write(f"{name}.json", document)
        return []

    def _at(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")


class LocalStore(Store):
    """A folder of this machine, or one that is mounted here."""

    def path(self, name: str) -> str:
        """The absolute path of `name`."""
        return self._at(name)

    def lock(self) -> int | None:
        """Take the file `lock`, which the system frees when its owner dies; returns the descriptor to close."""
        descriptor = take_lock(Path(self._at("lock")), self.place)
        if descriptor is not None:
            for name in ("current", "champion"):
                for torn in Path(self.root).glob(f".{name}*.tmp"):
                    torn.unlink(missing_ok=True)
        return descriptor

    def write(self, name: str, data: bytes) -> None:
        """Write beside the file, then rename it into its place."""
        _replace(self._beside(name, data), self._at(name))

    def write_durably(self, name: str, data: bytes) -> None:
        """Write beside the file and sync that, then rename it into its place: whole after a loss of power, too."""
        beside = self._beside(name, data)
        with _removed_on_error(beside), beside.open("rb") as file:
            os.fsync(file.fileno())
        _replace(beside, self._at(name))

    def share(self, name: str, to: str) -> None:
        """A second link to the file, or a copy where the file system has no links."""
        try:
            Path(self._at(to)).hardlink_to(self._at(name))
        except FileExistsError:
            raise
        except OSError:
            shutil.copyfile(self._at(name), self._at(to))

    def seal(self, name: str, sha256: str) -> tuple[int, str]:
        """Sync the file, and hash it where its checksum is not known."""
        with Path(self._at(name)).open("rb") as file:
            if sys.platform != "win32":
                os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size, sha256 or self.digest(name)

    def sync(self, folders: Collection[str]) -> None:
        """Sync the folders themselves, where the file system can."""
        for name in folders if sys.platform != "win32" else ():
            descriptor = os.open(self._at(name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
            finally:
                os.close(descriptor)

    def rename(self, name: str, to: str) -> bool:
        """Give a folder another name in one step; False where there is none, or a file or a folder that is not empty has the name."""
        try:
            Path(self._at(name)).rename(self._at(to))
        except (FileExistsError, FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            return False
        return True

    def linked(self, name: str) -> str | None:
        """What the link `name` points to; None where there is no link."""
        link = Path(self._at(name))
        return link.readlink().as_posix() if link.is_symlink() else None

    def point(self, name: str, target: str, document: bytes) -> list[str]:
        """Swap the link by one rename, then NAME.json by another; where there are no links, the second is the swap."""
        beside = self._beside(f"{name}.json", document)
        with _removed_on_error(beside):
            self.seal(beside.name, "not needed")
            linked = self._swap_link(name, target)
        try:
            _replace(beside, self._at(f"{name}.json"))
        except OSError as error:
            if not linked:
                raise
            warnings = [f"{self.path(f'{name}.json')}: not renewed ({error}); the link `{name}` is right"]
        else:
            warnings = []
        self.sync([""])
        return warnings

    def _swap_link(self, name: str, target: str) -> bool:
        """Whether the link now points to `target`; False where this file system has no links."""
        link = Path(self._at(name))
        beside = link.with_name(f".{name}.{secrets.token_hex(4)}.tmp")
        try:
            beside.symlink_to(target, target_is_directory=True)
        except OSError:
            if link.is_symlink():
                raise
            return False
        _replace(beside, str(link))
        return True

    def _beside(self, name: str, data: bytes) -> Path:
        path = Path(self._at(name))
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        with _removed_on_error(beside), beside.open("xb") as file:
            file.write(data)
        return beside


@contextmanager
def _removed_on_error(beside: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _replace(beside: Path, path: str) -> None:
    with _removed_on_error(beside):
        beside.replace(path)


def _sha256(fs: Any, path: str) -> str:
    with fs.open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
