"""Files that are read piece by piece, on a disk or at a URL, of which no more is fetched than is read; and what lies beside them."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

from pipeline.errors import InputError
from pipeline.files import ask, ask_url, ask_web, cannot_be_reached, is_url
from pipeline.ranges import FIRST, Ranged
from pipeline.urls import is_web


def open_pieces(path: str | Path, buffering: int = -1) -> io.BufferedReader:
    """The bytes of a file, to be read and sought in; from a URL come about as many as are read. Reading raises OSError.

    `buffering` as `open` has it, for a local file.
    """
    if not is_url(path):
        return cast("io.BufferedReader", Path(path).open("rb", buffering=buffering))
    if is_web(path):
        from pipeline import web

        return cast("io.BufferedReader", ask_web(partial(web.opened, block=FIRST), path))
    file = ask_url(path, "open", mode="rb", block_size=FIRST)

    def fetch(start: int, end: int) -> bytes:
        """A range of it."""
        ask(file.seek, start)
        return cast("bytes", ask(file.read, end - start))

    return io.BufferedReader(Ranged(ask(file.seek, 0, io.SEEK_END), fetch), FIRST)


@contextmanager
def as_file(pieces: Iterable[bytes], ending: str) -> Iterator[str]:
    """The path of a temporary file of this machine, for libraries that open files alone; it is gone at the end, and stays what is open."""
    with tempfile.NamedTemporaryFile(prefix="pipeline-", suffix=ending) as file:
        file.writelines(pieces)
        file.flush()
        yield file.name


def need_pieces(path: str) -> None:
    """Raise InputError where a file lies on an HTTP server that cannot give pieces of it. One that is not there is none of these."""
    if is_web(path) and (why := _lacks(path)):
        remedy = "Copy it, and what lies beside it, to a folder that every worker sees or to a bucket, and give that path."
        raise InputError(f"{path}: is read piece by piece, and {why}. {remedy}")


@lru_cache(maxsize=1024)
def _lacks(url: str) -> str:
    from pipeline import web

    try:
        return ask_web(web.lacks, url)
    except FileNotFoundError:
        return ""


def why_unreadable(path: str | Path, error: OSError) -> str:
    """What is said of a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        where = "may it be seen with the credentials here" if is_url(path) else "it is taken from the folder in which the run was started"
        return f"there is no such file; check the path ({where})"
    return cannot_be_reached(error) if is_url(path) else f"cannot be read ({error.strerror or error})"


def with_ending(path: str | Path, ending: str) -> str:
    """The file that lies beside another one under its name with this ending, `.fam` say, instead of its own."""
    place, query = _place(path)
    folder, slash, name = place.rpartition("/")
    return f"{folder}{slash}{name.rpartition('.')[0] or name}{ending}{query}"


def with_more(path: str | Path, more: str) -> str:
    """The file that lies beside another one under its whole name and more, `.tbi` say."""
    place, query = _place(path)
    return f"{place}{more}{query}"


def ends_with(path: str | Path, ending: str) -> bool:
    """Whether the name of a file ends so."""
    return _place(path)[0].endswith(ending)


def _place(path: str | Path) -> tuple[str, str]:
    """A path, and what a URL of the web has after ? (who may read it, say), which holds for the files beside it, too."""
    place, mark, query = str(path).partition("?") if is_web(path) else (str(path), "", "")
    return place, mark + query
