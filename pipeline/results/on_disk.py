"""Results in a folder of this machine, or one that is mounted here: a lock, links, durable writes (fsync) and atomic renames."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from pipeline.results.at_url import Store
from pipeline.results.links import refuse_links
from pipeline.results.lock import ChangedError, Lock, take_lock

_WAITS = (0.0, 0.01, 0.1, 1.0)  # seconds before a folder is removed again, into which somebody wrote while it was


class LocalStore(Store):
    """A folder of this machine, or one that is mounted here."""

    keeps: ClassVar[bool] = True
    lockless: ClassVar[str] = "this file system has no locks"

    def path(self, name: str) -> str:
        """The absolute path of `name`."""
        return self._at(name)

    def lock(self) -> Lock | None:
        """Take the file `lock`, which the system frees when its owner dies; None where the file system has no locks.

        Raises PlaceError where a link would lead what is written, or removed, out of the folder.
        """
        refuse_links(Path(self.root), self.place)
        lock = take_lock(Path(self._at("lock")), self.place)
        if lock is not None:
            for name in ("current", "champion"):
                for torn in Path(self.root).glob(f".{name}*.tmp"):
                    torn.unlink(missing_ok=True)
        return lock

    def make(self, name: str) -> None:
        """Make the folder `name` and those above it."""
        Path(self._at(name)).mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes:
        """The whole file; raises FileNotFoundError."""
        return Path(self._at(name)).read_bytes()

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return Path(self._at(name)).exists()

    def upload(self, file: Path, name: str) -> None:
        """Copy a local file to `name`."""
        self.make(name.rpartition("/")[0])
        shutil.copyfile(file, self._at(name))

    def digest(self, name: str) -> str:
        """SHA-256 of a file, in hexadecimal."""
        with Path(self._at(name)).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def sizes(self, name: str) -> dict[str, int]:
        """Bytes of every file below the folder `name`, by its name relative to that; empty where there is none. Links are not gone down."""
        return dict(_files(self._at(name), ""))

    def folders(self, name: str) -> list[str]:
        """Names of the folders (not links) right in the folder `name`; empty where there is none."""
        try:
            with os.scandir(self._at(name)) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def remove(self, name: str) -> None:
        """Remove a file or a folder with all that it holds; so goes what a task that is just ending writes there meanwhile."""
        path = Path(self._at(name))
        for wait in _WAITS:
            time.sleep(wait)
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            except FileNotFoundError:
                pass  # all of it is gone, or what was to be removed next
            except OSError as error:
                if error.errno != errno.ENOTEMPTY or wait == _WAITS[-1]:
                    raise
            if not os.path.lexists(path):
                return

    def write(self, name: str, data: bytes) -> None:
        """Write beside the file, then rename it into its place."""
        _replace(self._beside(name, data), self._at(name))

    def write_durably(self, name: str, data: bytes) -> None:
        """Write beside the file and sync that, then rename it into its place: whole after a loss of power, too."""
        beside = self._beside(name, data)
        with _removed_on_error(beside), beside.open("rb") as file:
            os.fsync(file.fileno())
        _replace(beside, self._at(name))

    def overwrite(self, name: str, data: bytes) -> None:
        """Write over a file in its place, in the room that it has."""
        with Path(self._at(name)).open("r+b") as file:
            file.write(data)
            file.truncate()

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

    def pointed(self, name: str) -> str:
        """The link's target, where there is one; else what NAME.json is known by."""
        return self.linked(name) or super().pointed(name)

    def point(self, name: str, target: str, document: bytes, seen: str | None = None) -> list[str]:
        """Swap the link by one rename, then NAME.json by another; where there are no links, the second is the swap."""
        if seen is not None and self.pointed(name) != seen:
            raise ChangedError(f"{self.path(name)} was written by another run meanwhile")
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


def _files(folder: str, beside: str) -> Iterator[tuple[str, int]]:
    """Every file below a folder, behind `beside`, with its bytes; what goes meanwhile is not there."""
    try:
        with os.scandir(folder) as entries:
            found = [*entries]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path, f"{beside}{entry.name}/")
        else:
            with suppress(FileNotFoundError):
                yield f"{beside}{entry.name}", entry.stat().st_size


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
