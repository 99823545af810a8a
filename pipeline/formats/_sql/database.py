"""A database by its URL: the password apart from it, connections that end, and errors in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from pipeline.errors import PipelineError, PlaceError

SQLITE = "sqlite:///"
KINDS = ("postgresql://", "postgres://", SQLITE)
BEGIN = "set transaction isolation level repeatable read read only"


@dataclass(frozen=True)
class Database:
    """Where a database is: its URL without the password, and that apart, which nothing shows."""

    url: str
    password: str = field(default="", repr=False)

    @staticmethod
    def of(text: str) -> Database:
        """The database of a URL as a job has it. Raises ValueError, without the password, where it is none that can be read."""
        if not text.startswith(KINDS):
            kind = text.partition("://")[0] if "://" in text else "no URL"
            raise ValueError(f"a URL postgresql://USER@HOST/DATABASE or sqlite:///FILE is needed, and this is {kind}")
        parts = urlsplit(text)
        if any("password" in key for key, _ in parse_qsl(parts.query, keep_blank_values=True)):
            raise ValueError("a password belongs before the host (postgresql://USER:${PASSWORD}@HOST/DATABASE) or in PGPASSWORD")
        user, at, host = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        return Database(urlunsplit(parts._replace(netloc=f"{name}{at}{host}")) if parts.netloc else text, unquote(password))

    @property
    def kind(self) -> Literal["postgresql", "sqlite"]:
        """Whose it is."""
        return "sqlite" if self.url.startswith(SQLITE) else "postgresql"

    @property
    def file(self) -> str:
        """The file of SQLite's."""
        return unquote(self.url.removeprefix(SQLITE).partition("?")[0])

    @contextmanager
    def cursor(self, *, write: bool = False, snapshot: str = "") -> Iterator[Any]:
        """A cursor of a connection of its own, in a transaction that only who writes commits.

        Others see the rows of one moment: of `snapshot`, where it is given. Raises PlaceError where the driver is not installed.
        """
        with closing(self.connect(write=write)) as connection, closing(connection.cursor()) as cursor:
            if self.kind == "postgresql" and not write:
                cursor.execute(BEGIN)
                if snapshot:
                    cursor.execute(f"set transaction snapshot '{snapshot}'")
            yield cursor

    def connect(self, *, write: bool = False) -> Any:
        """A connection, to be closed."""
        driver = f"adbc_driver_{self.kind}"
        if find_spec(driver) is None:
            raise PlaceError(f"{driver}, which reads and writes {self.kind}, is not installed. Install it with: pip install '.[sql]'")
        return import_module(f"{driver}.dbapi").connect(self._target(write=write))

    def _target(self, *, write: bool) -> str:
        """What the driver takes; the only text that has the password."""
        if self.kind == "sqlite":
            return f"file:{quote(str(Path(self.file).absolute()))}?mode={'rwc' if write else 'ro'}"
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        secret = f":{quote(self.password, safe='')}" if self.password else ""
        return urlunsplit(parts._replace(netloc=f"{user}{secret}{at}{host}"))

    @contextmanager
    def asked(self, what: str, error: type[PipelineError]) -> Iterator[None]:
        """Turn what the driver says into such an error, in a line; without what it was raised from, which may name the password."""
        if find_spec("adbc_driver_manager") is None:
            raise PlaceError("adbc_driver_manager, which databases are read by, is not installed. Install it with: pip install '.[sql]'")
        failed = import_module("adbc_driver_manager").Error
        try:
            yield
        except failed as found:
            said = self._line(str(found))
        else:
            return
        raise error(f"{self.url}: {what} ({said})")

    def _line(self, said: str) -> str:
        """The telling line of what a driver says."""
        lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no reason was given"]
        line = next((line.partition("ERROR:")[2].strip() for line in lines if "ERROR:" in line), lines[0])
        return line.replace(self.password, "***") if self.password else line


def quoted(name: str) -> str:
    """A name of a table or column in SQL; a point divides schema and table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def column(name: str) -> str:
    """A column's name in SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
