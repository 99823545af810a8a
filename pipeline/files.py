"""Input files, of this machine or at a URL that fsspec reaches: what they are known by, whether they are there, and their bytes.

A local path costs a call of the system, and what fails is an OSError. A file that is not there is a FileNotFoundError everywhere; a URL
that cannot be asked (no library, no network, no credentials) is an InputError.

Parquet, CSV and other text is scanned by Polars, which reads s3, gs and az by a library of its own; footers, headers, stamps and all other
formats go by fsspec. Both take credentials, region and endpoint from the same environment, and where it names them an endpoint in words
that only one of them knows, S3 is refused.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from pipeline.errors import InputError
from pipeline.urls import hidden, is_web, refusal

POLARS_READS = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl")
"""Kinds of URL that a scan of Polars reads by itself, so that it fetches only the columns and rows that it needs."""

EXTRAS = {"s3": ("s3", "s3a")}
"""Kinds of URL by the extra of this package that installs what reads them."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

Told = TypeVar("Told")

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
    """What a file is known by, looked up anew. Raises FileNotFoundError where there is none."""
    if not is_url(path):
        found = Path(path).stat()
        return Stamp(found.st_size, found.st_mtime_ns)
    if is_web(path):
        from pipeline import web

        size, tag = ask_web(web.known, path)
        return Stamp(size, etag=tag)
    ask_url(path, "invalidate_cache")  # which fsspec keeps of a folder that was listed
    told = ask_url(path, "info")
    return Stamp(int(told.get("size") or 0), etag=next((str(told[key]) for key in _TOLD if told.get(key)), ""))


def exists(path: str | Path) -> bool:
    """Whether there is a file of that path, and no folder."""
    if is_web(path):
        from pipeline import web

        try:
            ask_web(web.known, path)
        except FileNotFoundError:
            return False
        return True
    return bool(ask_url(path, "isfile")) if is_url(path) else Path(path).is_file()


def is_folder(path: str | Path) -> bool:
    """Whether there is a folder of that path; at a URL, whether anything lies below it. Looked up anew. HTTP has none."""
    if not is_url(path):
        return Path(path).is_dir()
    if is_web(path):
        return False
    ask_url(path, "invalidate_cache")
    return bool(ask_url(path, "isdir"))


def names(folder: str | Path) -> list[str]:
    """Names of the files and folders right in a folder, sorted."""
    if not is_url(folder):
        return sorted(entry.name for entry in Path(folder).iterdir())
    return sorted(str(found).rstrip("/").rpartition("/")[2] for found in ask_url(folder, "ls", detail=False))


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
    if is_web(pattern):
        raise InputError(f"{pattern}: no such file, and no pattern: an HTTP server does not list its files. List them in the job.")
    system, _ = _system(pattern)
    told = ask_url(pattern, "glob", detail=True)
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
    if is_web(path):
        from pipeline import web

        return cast("BinaryIO", ask_web(web.opened, path))
    return cast("BinaryIO", ask_url(path, "open", mode="rb")) if is_url(path) else Path(path).open("rb", buffering=buffering)


def read_bytes(path: str | Path) -> bytes:
    """All bytes of a file."""
    with open_file(path) as file:
        return file.read()


def download(url: str, file: Path) -> None:
    """Copy the file at a URL to a local one, block by block."""
    system, inside = _system(url)
    ask(system.get_file, inside, str(file))


def for_polars(path: str) -> str | bytes:
    """What a scan of Polars takes for a file: its path or URL where Polars reads there, else all its bytes."""
    kind = path.partition("://")[0]
    direct = not is_url(path) or (kind in POLARS_READS and not path.endswith((".gz", ".zst")))
    return path if direct else read_bytes(path)


def _need_one_endpoint(url: str) -> None:
    """Raise InputError where the environment names an endpoint of S3 that fsspec takes and Polars does not."""
    known = os.environ.get("AWS_ENDPOINT_URL", "")
    for name in ("FSSPEC_S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        if os.environ.get(name, known) != known:
            what = f"{name} and AWS_ENDPOINT_URL name two services ({os.environ[name]}, {known or 'Amazon'})"
            raise InputError(f"{url}: {what}. Set AWS_ENDPOINT_URL alone, which all libraries here take.")


def _system(path: str | Path) -> tuple[Any, str]:
    """The file system of a URL, and the path in it. Raises InputError where no installed library reads there."""
    if why := refusal(str(path)):
        raise InputError(f"{hidden(str(path))}: {why}.")
    if str(path).partition("://")[0] in EXTRAS["s3"]:
        _need_one_endpoint(str(path))
    import fsspec.core

    try:
        system, inside = fsspec.core.url_to_fs(str(path))
    except (ImportError, ValueError) as error:
        raise InputError(f"{path}: {no_library(str(path), 'reads', error)} or copy the file to a folder and give that path.") from error
    return system, str(inside)


def no_library(url: str, does: str, error: Exception) -> str:
    """What is said of a URL of a kind that no installed library reads (writes), up to the other remedy."""
    extra = next((extra for extra, kinds in EXTRAS.items() if url.partition("://")[0] in kinds), None)
    install = f"Install it with: pip install '.[{extra}]'," if extra else "Install it,"
    return f"no installed library {does} there ({error}). {install}"


def ask_web(asked: Callable[[str], Told], path: str | Path) -> Told:
    """What an HTTP server answers. Raises FileNotFoundError where there is no such file, InputError where it does not answer so."""
    url = urlsplit(str(path))
    if url.password is not None:
        plain = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
        raise InputError(f"{plain}: a password in a URL would stand in records and errors. Give a URL without one.")
    try:
        return asked(str(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {cannot_be_reached(error)}") from error


def ask_url(path: str | Path, method: str, **options: Any) -> Any:
    """What the file system of a URL answers. Raises FileNotFoundError where there is no such file, InputError where it cannot be asked."""
    system, inside = _system(path)
    try:
        return ask(getattr(system, method), inside, **options)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {cannot_be_reached(error)}") from error


def cannot_be_reached(error: OSError) -> str:
    """What is said of a place that does not answer as it should, in one line."""
    why = (str(error) or type(error).__name__).splitlines()[0]
    remedy = " Credentials are taken from the environment of this process and of every worker (docs/stores.md)."
    return f"cannot be reached ({why}).{remedy if isinstance(error, PermissionError) or 'redential' in why else ''}"


def ask(method: Callable[..., Any], *values: Any, **options: Any) -> Any:
    """What a file system of fsspec answers; OSError for whatever its library raises."""
    try:
        return method(*values, **options)
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
