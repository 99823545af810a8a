"""Tables and queries of databases, read and written by ADBC: PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import polars as pl
from pydantic import AfterValidator, Field, ModelWrapValidatorHandler, PrivateAttr, model_validator
from pydantic.functional_validators import BeforeValidator

from pipeline.errors import InputError, JobError, RunError, near
from pipeline.format import InputFormat, OutputFormat
from pipeline.formats._finite import INFINITIES
from pipeline.formats._sql.columns import SqlColumn, postgres_columns, sqlite_columns
from pipeline.formats._sql.database import SQLITE, Database, column, quoted
from pipeline.formats._sql.delivery import check_table, check_types, deliver
from pipeline.formats._sql.snapshot import Snapshot
from pipeline.formats._sql.source import SqlSource, ranges
from pipeline.tables.counts import Count
from pipeline.tables.dtypes import DtypeName
from pipeline.tables.part import Part, Schema

URL = "postgresql://USER@HOST/DATABASE or sqlite:///FILE. A password comes from the environment: ${NAME}, PGPASSWORD or ~/.pgpass."
"""What such a URL is."""


def _open(data: Any, key: str) -> tuple[Any, str]:
    """The fields of a model, the password taken out of its URL, and the password."""
    url = data.get(key) if isinstance(data, dict) else None
    if not isinstance(url, str):
        return data, ""
    database = Database.of(url)
    return {**data, key: database.url}, database.password


class SqlInput(InputFormat):
    """A table or a query of a database, as it was when the job was planned; where SQLite cannot show that any more, the run fails."""

    name = "sql"
    asides = InputFormat.asides | {"partition_on"}
    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    path: Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)] = Field(
        alias="url", min_length=1, max_length=1, description=URL
    )
    table: str | None = Field(None, min_length=1, description="The table, or SCHEMA.TABLE; or give `query`.")
    query: str | None = Field(None, min_length=1, description="A query that only reads; or give `table`.")
    columns: dict[str, DtypeName] = Field(default_factory=dict, description="Types of columns that are to be read as others than theirs.")
    partition_on: str | None = Field(None, min_length=1, description="A column of whole numbers, by whose ranges `parts` tasks read.")
    _password: str = PrivateAttr("")
    _snapshot: Snapshot | None = PrivateAttr(None)
    _found: tuple[SqlColumn, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _hide(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Take the password out of the URL before anything sees it."""
        data, password = _open(data, "url")
        found = handler(data)
        if (found.table is None) == (found.query is None):
            raise ValueError("one of table and query is needed")
        if found.parts and found.parts > 1 and found.partition_on is None:
            raise ValueError("parts needs partition_on, a column of whole numbers whose ranges the parts are")
        found._password = password
        return found

    @property
    def database(self) -> Database:
        """Where the rows are."""
        return Database(self.path[0], self._password)

    @property
    def _rows(self) -> str:
        return (self.query or f"select * from {quoted(self.table or '')}").strip().rstrip(";")

    @property
    def _moment(self) -> str:
        return self._snapshot.name if self._snapshot else ""

    def files(self) -> list[str]:
        """SQLite's file, and its log where there is one; of other databases none. Raises InputError where there is no such file."""
        if self.database.kind != "sqlite":
            return []
        if not Path(self.database.file).is_file():
            raise InputError(f"{self.database.file}: no such file")
        log = Path(f"{self.database.file}-wal")
        return [self.database.file, *([str(log)] if log.is_file() and log.stat().st_size else [])]

    def pinned(self) -> Self:
        """The same reader of the rows as they are now; of PostgreSQL, a snapshot that is held while the plan is."""
        self.files()
        reader = self.model_copy()
        with self.database.asked("the database cannot be read", InputError):
            if self.database.kind == "postgresql":
                reader._snapshot = Snapshot(self.database)
            reader._found = tuple(reader._columns())
        return reader

    def _columns(self) -> Sequence[SqlColumn]:
        """The columns. Raises InputError for stated ones that are not there."""
        describe = postgres_columns if self.database.kind == "postgresql" else sqlite_columns
        with self._cursor() as cursor:
            found = describe(cursor, self._rows, self.columns, self.path[0])
        names = [one.name for one in found]
        for name in (*self.columns, *([self.partition_on] if self.partition_on else ())):
            if name not in names:
                raise InputError(f"{self.path[0]}: there is no column {name!r}.{near(name, names)}")
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"{self.path[0]}: the query gives {twice[0]!r} twice. Name one of them otherwise (... as other).")
        return found

    def _cursor(self) -> Any:
        return self.database.cursor(snapshot=self._moment)

    def _asked(self, query: str) -> tuple[Any, ...]:
        with self.database.asked("the rows cannot be counted", InputError), self._cursor() as cursor:
            cursor.execute(query)
            return tuple(cursor.fetchone())

    def table_schema(self) -> Schema:
        """The columns and their types."""
        return Schema(pl.Schema({found.name: found.dtype for found in self._known()}))

    def _known(self) -> tuple[SqlColumn, ...]:
        return self._found or self.pinned()._found

    def sources(self, parallel: int) -> Sequence[SqlSource]:
        """One, or ranges of the column that says them."""
        source = SqlSource(self.database, self._rows, self._known(), self._moment)
        if self.partition_on is None:
            return [source]
        dtype = self.table_schema().columns[self.partition_on]
        if not dtype.is_integer():
            raise InputError(f"{self.path[0]}: partition_on needs whole numbers, and {self.partition_on!r} is {dtype}")
        sql = column(self.partition_on)
        low, high = self._asked(f"select min({sql}), max({sql}) from ({self._rows}) as q")
        return ranges(source, self.partition_on, self.parts or parallel, None if low is None else (int(low), int(high)))

    def rows(self) -> int:
        """As the database counts them."""
        return int(self._asked(f"select count(*) from ({self._rows}) as q")[0])

    def about(self) -> Mapping[str, Any]:
        """The database, and the moment whose rows are read, as PostgreSQL has it."""
        return {"database": self.path[0], **({"snapshot": self._snapshot.state} if self._snapshot else {})}

    def state(self) -> Sequence[str]:
        """The database, and in PostgreSQL what had been written there at that moment."""
        return [self.path[0], *([self._snapshot.state] if self._snapshot else ())]

    def absolute(self) -> Self:
        """The same reader with the absolute path of SQLite's file."""
        if self.database.kind != "sqlite":
            return self
        return self.model_copy(update={"path": (f"{SQLITE}{Path(self.database.file).absolute()}",)})

    def infinities(self) -> Callable[[], int] | None:
        """None: they are counted as the rows are read."""
        return None


class SqlOutput(OutputFormat):
    """A table of a database, written in one transaction once the run is published; the run's folder has the rows as Parquet, too."""

    name = "sql"
    suffix = ".parquet"

    url: Annotated[str, AfterValidator(lambda value: value)] = Field(description=URL)
    table: str = Field(min_length=1, description="The table, or SCHEMA.TABLE; made where there is none.")
    mode: Literal["replace", "append", "fail"] = Field(
        "fail", description="What becomes of a table that is there: it is replaced by a new one, rows are added, or nothing is begun."
    )
    _password: str = PrivateAttr("")

    @model_validator(mode="wrap")
    @classmethod
    def _hide(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Take the password out of the URL before anything sees it."""
        data, password = _open(data, "url")
        found = handler(data)
        found._password = password
        return found

    @property
    def database(self) -> Database:
        """Where the table is."""
        return Database(self.url, self._password)

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for types that the database does not have, and where a table that is there does not fit."""
        check_types({name: schema.columns[name] for name in columns}, self.database.kind)
        with self.database.asked("the database cannot be written", JobError):
            check_table(self.database, self.table, self.mode, columns)

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame as Parquet."""
        part.frame.write_parquet(path, compression="zstd")

    def deliver(self, files: Sequence[str], run: str) -> None:
        """Write the rows in one transaction. Raises RunError where it fails: the table is as it was."""
        what = f"table {self.table} was not written and is as it was"
        with self.database.asked(what, RunError):
            deliver(self.database, self.table, self.mode, files)

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The rows of a file of the run."""
        return pl.scan_parquet(source)
