"""Input files, of this machine or at a URL that fsspec reaches: what they are known by, whether they are there, and their bytes.

A local path costs a call of the system. What fails is an OSError, whatever a remote library raises; a URL of a kind that no installed
library reads is an InputError.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

import fsspec.core

from pipeline.errors import InputError

POLARS_READS = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl")
"""Kinds of URL that a scan of Polars reads by itself, so that it fetches only the columns and rows that it needs."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_TOLD = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class Stamp:
    """What a file is known by without being read: its bytes, and when it changed, in nanoseconds.

    At a URL `changed` is 0, and `etag` the tag, the digest or the time that the service tells, '' where it tells none.
    """

    size: int
    changed: int = 0
    etag: str = ""


def is_url(path: str | Path) -> bool:
    """Whether a path is a URL of another kind than file://."""
    scheme, _, rest = str(path).partition("://")
    return bool(rest) and scheme not in ("file", "local")


def local_path(path: str | Path) -> str:
    """A path that is no URL, without the file:// it may begin with."""
    return str(path).removeprefix("file://").removeprefix("local://")


def absolute(path: str | Path) -> str:
    """A path as any folder's process can use it; a URL is one already."""
    return str(path) if is_url(path) else str(Path(local_path(path)).absolute())


def stamp(path: str | Path) -> Stamp:
    """What a file is known by. Raises FileNotFoundError where there is none."""
    if not is_url(path):
        found = Path(path).stat()
        return Stamp(found.st_size, found.st_mtime_ns)
    told = _ask_url(path, "info")
    return Stamp(int(told.get("size") or 0), etag=next((str(told[key]) for key in _TOLD if told.get(key)), ""))


def exists(path: str | Path) -> bool:
    """Whether there is a file of that path, and no folder."""
    return bool(_ask_url(path, "isfile")) if is_url(path) else Path(path).is_file()


def is_folder(path: str | Path) -> bool:
    """Whether there is a folder of that path; at a URL, whether anything lies below it. Looked up anew."""
    if not is_url(path):
        return Path(path).is_dir()
    _ask_url(path, "invalidate_cache")
    return bool(_ask_url(path, "isdir"))


def names(folder: str | Path) -> list[str]:
    """Names of the files and folders right in a folder, sorted."""
    if not is_url(folder):
        return sorted(entry.name for entry in Path(folder).iterdir())
    return sorted(str(found).rstrip("/").rpartition("/")[2] for found in _ask_url(folder, "ls", detail=False))


def beside(folder: str | Path, name: str) -> str:
    """The path of a name in a folder."""
    return f"{str(folder).rstrip('/')}/{name}" if is_url(folder) else str(Path(folder) / name)


def parent(path: str | Path) -> str:
    """The folder that a path lies in."""
    return str(path).rstrip("/").rpartition("/")[0] if is_url(path) else str(Path(path).parent)


def matching(pattern: str) -> list[str]:
    """The files that a pattern with *, ? or [] matches, sorted; ** reaches any number of folders."""
    if not is_url(pattern):
        return sorted(found for found in glob.glob(pattern, recursive=True) if not Path(found).is_dir())
    system, _ = _system(pattern)
    told = _ask_url(pattern, "glob", detail=True)
    return sorted(system.unstrip_protocol(found) for found, about in told.items() if about["type"] != "directory")


def folder_values(path: str) -> dict[str, str | None]:
    """What the folders KEY=VALUE of a path say, from the outermost: None for the value that Hive has for a missing one."""
    pairs = [folder.partition("=") for folder in path.replace("\\", "/").split("/")[:-1]]
    return {key: None if value == HIVE_NULL else unquote(value) for key, equals, value in pairs if key and equals}


def within(path: str, output: str) -> str:
    """What a file of an output is called in the output's folder, with the folders KEY=VALUE that it lies in."""
    whole = path.rpartition(f"/{output}/")[2]
    return whole if "=" in whole else whole.rpartition("/")[2]


def open_file(path: str | Path, buffering: int = -1) -> BinaryIO:
    """The bytes of a file, to be read and sought in; `buffering` as `open` has it, for a local file."""
    return cast("BinaryIO", _ask_url(path, "open", mode="rb")) if is_url(path) else Path(path).open("rb", buffering=buffering)


def read_bytes(path: str | Path) -> bytes:
    """All bytes of a file."""
    with open_file(path) as file:
        return file.read()


def for_polars(path: str) -> str | bytes:
    """What a scan of Polars takes for a file: its path or URL where Polars reads there, else all its bytes."""
    kind = path.partition("://")[0]
    direct = not is_url(path) or (kind in POLARS_READS and not path.endswith((".gz", ".zst")))
    return path if direct else read_bytes(path)


def _system(path: str | Path) -> tuple[Any, str]:
    """The file system of a URL, and the path in it. Raises InputError where no installed library reads there."""
    try:
        system, inside = fsspec.core.url_to_fs(str(path))
    except (ImportError, ValueError) as error:
        remedy = "Install it, or copy the file to a folder and give that path."
        raise InputError(f"{path}: no installed library reads there ({error}). {remedy}") from error
    return system, str(inside)


def _ask_url(path: str | Path, method: str, **options: Any) -> Any:
    """What the file system of a URL answers."""
    system, inside = _system(path)
    return ask(getattr(system, method), inside, **options)


def ask(method: Callable[..., Any], *values: Any, **options: Any) -> Any:
    """What a file system of fsspec answers; OSError for whatever its library raises."""
    try:
        return method(*values, **options)
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
