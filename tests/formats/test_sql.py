"""sql: tables and queries of PostgreSQL and SQLite as their own clients have them, of one moment, and written whole or not at all."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.api import load, open_run
from pipeline.errors import DataError, InputError, JobError, PlaceError, RunError
from pipeline.formats._sql.database import Database
from pipeline.formats.sql import SqlInput, SqlOutput
from pipeline.tables.part import Part, Schema
from tests.databases import PASSWORD
from tests.small import inside, run_main

adbc = pytest.importorskip("adbc_driver_manager", reason="adbc-driver-manager is not installed")

JOB = """\
job: shop
results: results
inputs:
  sales: {{format: sql, url: "${{SHOP_URL}}", table: sales, partition_on: id, parts: 3}}
stages:
  - {{use: derive, from: sales, as: doubled, columns: {{twice: amount * 2}}}}
outputs:
  doubled: {{from: doubled, format: sql, url: "{url}", table: doubled, mode: {mode}}}
"""


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A new database of SQLite, by Python's own client."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        yield connection


def url_of(lite: sqlite3.Connection) -> str:
    return f"sqlite:///{lite.execute('pragma database_list').fetchone()[2]}"


def asked(url: str, *queries: str) -> Any:
    """What PostgreSQL answers to the last of some queries, which are committed."""
    found = None
    with Database.of(url).cursor(write=True) as cursor:
        for query in queries:
            cursor.execute(query)
        if cursor.description:
            found = cursor.fetchall()
        cursor.connection.commit()
    return found


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The URL of a database of PostgreSQL, with an empty schema `mine`."""
    asked(postgres, "drop schema if exists mine cascade", "create schema mine")
    yield postgres
    asked(postgres, "drop schema mine cascade")


def read(reader: SqlInput, parallel: int = 2) -> pl.DataFrame:
    return pl.concat([source.load().frame for source in reader.sources(parallel)])


def reader(url: str, **keys: Any) -> SqlInput:
    return SqlInput.model_validate({"url": url, **keys})


TYPES = """
create table mine.t(
    i2 smallint, i4 int primary key, i8 bigint, f4 real, f8 double precision, n numeric(10, 2), n30 numeric(30, 12), b bool, t text,
    v varchar(9), c char(3), d date, ts timestamp, tz timestamptz, ti time, iv interval, by bytea, u uuid, j jsonb, a int[],
    e mine.mood, o oid
)"""
ROW = r"""
insert into mine.t values (
    1, 2, 9007199254740993, 1.5, 0.1, 12345678.25, -123456789012345678.000000000001, true, 'x', 'ÿ', 'z', '0001-01-31',
    '2021-03-28 01:30:00.123456', '2021-03-28 01:30:00.123456+02', '12:00:01.5', '1 month 2 days', '\xDE00AD',
    '00000000-0000-0000-0000-00000000000a', '{"a": 1}', '{1,NULL,2}', 'ok', 4294967295)"""


def test_sql_input__has_the_types_of_postgresql_exactly(database: str) -> None:
    asked(database, "create type mine.mood as enum ('sad', 'ok')", TYPES, ROW, "insert into mine.t (i4) values (3)")
    found = reader(database, query="select * from mine.t order by i4").pinned()
    wanted = {
        "i2": (pl.Int16(), 1),
        "i4": (pl.Int32(), 2),
        "i8": (pl.Int64(), 9007199254740993),
        "f4": (pl.Float32(), 1.5),
        "f8": (pl.Float64(), 0.1),
        "n": (pl.Decimal(10, 2), Decimal("12345678.25")),
        "n30": (pl.Decimal(30, 12), Decimal("-123456789012345678.000000000001")),
        "b": (pl.Boolean(), True),
        "t": (pl.String(), "x"),
        "v": (pl.String(), "ÿ"),
        "c": (pl.String(), "z  "),
        "d": (pl.Date(), date(1, 1, 31)),
        "ts": (pl.Datetime("us"), datetime(2021, 3, 28, 1, 30, 0, 123456)),
        "tz": (pl.Datetime("us", "UTC"), datetime(2021, 3, 27, 23, 30, 0, 123456, UTC)),
        "ti": (pl.Time(), time(12, 0, 1, 500000)),
        "iv": (pl.String(), "1 mon 2 days"),
        "by": (pl.Binary(), b"\xde\x00\xad"),
        "u": (pl.String(), "00000000-0000-0000-0000-00000000000a"),
        "j": (pl.String(), '{"a": 1}'),
        "a": (pl.List(pl.Int32()), [1, None, 2]),
        "e": (pl.String(), "ok"),
        "o": (pl.Int64(), 4294967295),
    }
    assert found.table_schema() == Schema(pl.Schema({name: dtype for name, (dtype, _) in wanted.items()}))
    rows = read(found)
    assert rows.schema == found.table_schema().columns
    assert rows.row(0) == tuple(value for _, value in wanted.values())
    assert set(rows.drop("i4").row(1)) == {None}
    assert found.rows() == 2


def test_sql_input__takes_infinite_values_for_missing_and_counts_them(database: str) -> None:
    asked(
        database,
        "create table mine.t as select * from (values (1, 'infinity'::date, 'infinity'::timestamptz, 'nan'::float8),"
        "(2, '2020-01-01', '-infinity', '-infinity'), (3, null, null, null)) as v(id, d, z, f)",
    )
    found = reader(database, query="select * from mine.t order by id").pinned()  # which holds the moment
    (source,) = found.sources(1)
    part = source.load()
    assert part.frame.rows() == [(1, None, None, None), (2, date(2020, 1, 1), None, None), (3, None, None, None)]
    assert part.counts == {"infinities": 4}


def test_sql_input__refuses_numbers_without_a_scale_and_reads_them_as_stated(database: str) -> None:
    asked(database, "create table mine.t(n numeric, w numeric(50, 2), x int)", "insert into mine.t values (1.005, 2, 3)")
    with pytest.raises(InputError, match=r"column 'n' is numeric without a scale, .* in a query \(.n.::numeric\(18, 4\)\), or state"):
        reader(database, table="mine.t").pinned()
    with pytest.raises(InputError, match="column 'w' is numeric of 50 digits, 2 of them after the point"):
        reader(database, query="select w from mine.t").pinned()
    found = reader(database, table="mine.t", columns={"n": "string", "w": "float64", "x": "uint8"})
    assert read(found).rows() == [("1.005", 2.0, 3)]
    assert found.table_schema().columns == pl.Schema({"n": pl.String, "w": pl.Float64, "x": pl.UInt8})
    with pytest.raises(DataError, match=r"the rows cannot be read .* out of range"):
        read(reader(database, query="select 70000 as x", columns={"x": "int8"}))


@pytest.mark.parametrize("parts", [1, 2, 6])
def test_sql_input__reads_every_row_once_in_any_parts(database: str, parts: int) -> None:
    asked(
        database,
        "create table mine.t(id bigint, x int)",
        "insert into mine.t select i * i, i from generate_series(-7, 12) as i",
        "insert into mine.t values (null, 99), (9223372036854775807, 100), (-9223372036854775808, 101)",
    )
    found = reader(database, table="mine.t", partition_on="id", parts=parts).pinned()
    assert sorted(read(found)["x"]) == [*range(-7, 13), 99, 100, 101]
    assert len(found.sources(3)) <= parts
    assert read(reader(database, query="select * from mine.t where x = 99", partition_on="id")).rows() == [(None, 99)]


def test_sql_input__sees_one_moment_in_all_parts_and_its_fingerprint_says_which(database: str) -> None:
    asked(database, "create table mine.t(id int)", "insert into mine.t values (1), (2)")
    first = reader(database, table="mine.t", partition_on="id", parts=2).pinned()
    asked(database, "delete from mine.t", "insert into mine.t values (3)")
    sources = pickle.loads(pickle.dumps(first.sources(2)))
    assert [row for source in sources for row in source.load().frame["id"]] == [1, 2]
    assert (first.rows(), reader(database, table="mine.t").pinned().rows()) == (2, 1)
    again = reader(database, table="mine.t").pinned()
    assert again.state() == reader(database, table="mine.t").pinned().state() != first.state()
    assert first.about() == {"database": first.path[0], "snapshot": first.state()[1]}
    del first
    with pytest.raises(DataError, match=r"the rows cannot be read .*invalid snapshot identifier"):
        sources[0].load()


def test_sql_input__never_writes(database: str, lite: sqlite3.Connection) -> None:
    asked(database, "create table mine.t(id int)")
    with pytest.raises(InputError, match="the rows cannot be counted"):
        reader(database, query="delete from mine.t returning id").rows()
    with pytest.raises(InputError, match="the query gives 'id' twice"):
        reader(database, query="select id, id from mine.t").pinned()
    with Database.of(database).cursor() as cursor, pytest.raises(adbc.Error, match="read-only transaction"):
        cursor.execute("delete from mine.t")
    lite.execute("create table t(id)")
    with Database.of(url_of(lite)).cursor() as cursor, pytest.raises(adbc.Error, match="readonly database"):
        cursor.execute("insert into t values (1)")


LITE = [
    "create table t(i integer, r, f real, s text, b blob, n, d text, ts text, ok integer)",
    "insert into t values (1, 1, 0.1, 'x', x'00ff', null, '2020-01-31', '2020-01-31 12:00:00.5', 1)",
    "insert into t values (9007199254740993, 2.5, null, '', x'', null, '0001-12-31', '2020-01-31T12:00:00', 0)",
    "insert into t(i) values (null)",
]


def test_sql_input__has_the_types_that_rows_of_sqlite_hold(lite: sqlite3.Connection) -> None:
    for query in LITE:
        lite.execute(query)
    lite.commit()
    found = reader(url_of(lite), table="t", columns={"d": "date", "ts": "datetime", "ok": "boolean"}).pinned()
    kinds: list[Any] = [pl.Int64, pl.Float64, pl.Float64, pl.String, pl.Binary, pl.String, pl.Date, pl.Datetime("us"), pl.Boolean]
    assert found.table_schema().columns == pl.Schema(zip(["i", "r", "f", "s", "b", "n", "d", "ts", "ok"], kinds, strict=True))
    rows = read(found)
    assert rows.schema == found.table_schema().columns
    assert rows.rows() == [
        (1, 1.0, 0.1, "x", b"\x00\xff", None, date(2020, 1, 31), datetime(2020, 1, 31, 12, 0, 0, 500000), True),
        (9007199254740993, 2.5, None, "", b"", None, date(1, 12, 31), datetime(2020, 1, 31, 12), False),
        (None,) * 9,
    ]
    assert found.rows() == 3
    assert found.files() == [found.path[0].removeprefix("sqlite:///")]


def test_sql_input__of_sqlite_does_not_guess_by_the_first_rows(lite: sqlite3.Connection) -> None:
    lite.execute("create table t(id integer, s)")
    lite.executemany("insert into t values (?, ?)", [(number, None if number < 5000 else "late") for number in range(5003)])
    lite.commit()
    found = read(reader(url_of(lite), table="t", partition_on="id", parts=4))
    assert found["s"].value_counts(sort=True).rows() == [(None, 5000), ("late", 3)]
    lite.execute("insert into t values (6000, 7)")
    lite.commit()
    with pytest.raises(InputError, match=r"column 's' holds integer and text, which are not of one type\. Cast it .* such as s: string"):
        reader(url_of(lite), table="t").pinned()
    assert read(reader(url_of(lite), table="t", columns={"s": "string"}))["s"].to_list()[-2:] == ["late", "7"]
    with pytest.raises(InputError, match="column 's' holds integer and text, which is no int64"):
        reader(url_of(lite), table="t", columns={"s": "int64"}).pinned()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"table": "nope"}, "the database cannot be read .*no such table: nope"),
        ({"query": "selec 1"}, r'the database cannot be read .*near "1": syntax error'),
        ({"table": "t", "columns": {"idd": "string"}}, r"there is no column 'idd'\. Did you mean 'id'"),
        ({"table": "t", "partition_on": "s"}, "partition_on needs whole numbers, and 's' is String"),
    ],
)
def test_sql_input__is_refused_in_a_line(lite: sqlite3.Connection, keys: dict[str, Any], message: str) -> None:
    lite.execute("create table t(id integer, s text)")
    lite.commit()
    with pytest.raises(InputError, match=message) as raised:
        reader(url_of(lite), **keys).pinned().sources(2)
    assert "\n" not in str(raised.value)


def test_sql_input__refuses_what_would_be_another_value(database: str, lite: sqlite3.Connection) -> None:
    lite.execute("create table t(x)")
    lite.executemany("insert into t values (?)", [(0.5,), (2**53,)])
    lite.commit()
    assert read(reader(url_of(lite), table="t"))["x"].to_list() == [0.5, 2.0**53]
    lite.execute("insert into t values (9007199254740993)")
    lite.commit()
    with pytest.raises(InputError, match="column 'x' holds great integer and integer and real, which are not of one type"):
        reader(url_of(lite), table="t").pinned()
    assert read(reader(url_of(lite), table="t", columns={"x": "string"}))["x"].to_list()[-1] == "9007199254740993"
    for value in ("'24:00'::time", "'10000-01-01'::date", "'0001-01-01 BC'::timestamptz", "'{{1,2},{3,4}}'::int[]"):
        with pytest.raises(DataError, match=r"the rows cannot be read .*none that is read, say string in columns"):
            read(reader(database, query=f"select {value} as x"))
        assert read(reader(database, query=f"select {value} as x", columns={"x": "string"})).height == 1
    assert read(reader(database, query="select 'NaN'::numeric(5, 1) as x, array[]::int[] as y")).rows() == [(None, [])]


def test_sql_input__of_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.db: no such file"):
        reader(f"sqlite:///{tmp_path}/none.db", table="t").pinned()
    assert list(tmp_path.iterdir()) == []


FRAME = pl.DataFrame(
    {
        "id": [1, 2, None],
        "s": ["a", None, "ÿ"],
        "x": [0.1, None, -0.0],
        "d": [date(2020, 1, 31), None, date(1, 1, 1)],
        "p": [Decimal("1.50"), None, Decimal("-2.25")],
        "z": pl.Series([datetime(2021, 3, 28, 1, 30, tzinfo=UTC), None, None], dtype=pl.Datetime("us", "UTC")),
        "n": pl.Series([datetime(2021, 3, 28, 1, 30), None, None], dtype=pl.Datetime("ms")),
        "ti": [time(1, 2, 3, 4), None, None],
        "y": [b"\x00\xff", None, b""],
        "ok": [True, None, False],
        "u": pl.Series([2**63 - 1, None, 0], dtype=pl.UInt64),
    }
)


def deliver(writer: SqlOutput, frame: pl.DataFrame, folder: Path, parts: int = 1) -> None:
    """As a run that is published does."""
    writer.check(Schema(frame.schema), frame.columns)
    files = [str(folder / f"part-{number}.parquet") for number in range(parts)]
    for number, file in enumerate(files):
        low, high = frame.height * number // parts, frame.height * (number + 1) // parts
        writer.write(Part(frame[low:high]), {}, file)
    writer.deliver(files, "20261122T093012Z-3f2a9c")


def writer(url: str, mode: str = "fail", table: str = "out") -> SqlOutput:
    return SqlOutput.model_validate({"url": url, "table": table, "mode": mode})


@pytest.mark.parametrize("parts", [1, 7])
def test_sql_output__of_postgresql_is_read_back_as_it_was(database: str, tmp_path: Path, parts: int) -> None:
    frame = FRAME.with_columns(l=pl.Series([[1], None, []], dtype=pl.List(pl.Int64)))
    deliver(writer(database, table="mine.Out put"), frame, tmp_path, parts)
    columns = ", ".join(f'"{name}"' if name != "p" else '"p"::numeric(10, 2)' for name in frame.columns)
    found = read(reader(database, query=f'select {columns} from mine."Out put"', columns={"u": "uint64"}))
    assert_frame_equal(found, frame.cast({"p": pl.Decimal(10, 2), "n": pl.Datetime("us")}), check_row_order=False)
    held = "select data_type from information_schema.columns where table_schema = 'mine' and column_name in ('p', 'z', 'u')"
    kinds = asked(database, held)
    assert sorted(kind for (kind,) in kinds) == ["numeric", "numeric", "timestamp with time zone"]


def test_sql_output__of_sqlite_has_what_it_has_types_for_and_the_rest_as_text(lite: sqlite3.Connection, tmp_path: Path) -> None:
    deliver(writer(url_of(lite)), FRAME, tmp_path, 2)
    assert lite.execute("select * from out where id = 1").fetchall() == [
        (1, "a", 0.1, "2020-01-31", "1.50", "2021-03-28 01:30:00.000000+00:00", "2021-03-28 01:30:00.000000", "01:02:03.000004",
         b"\x00\xff", 1, 2**63 - 1),
    ]  # fmt: skip
    assert lite.execute("select count(*), count(s) from out").fetchone() == (3, 2)
    with pytest.raises(JobError, match=r"column 'l' is List.*, and sqlite has no type for it"):
        writer(url_of(lite)).check(Schema(pl.Schema({"l": pl.List(pl.Int64)})), ["l"])


def test_sql_output__replaces_appends_or_fails(database: str, lite: sqlite3.Connection, tmp_path: Path) -> None:
    two, other = pl.DataFrame({"id": [1, 2], "s": ["a", "b"]}), pl.DataFrame({"s": ["c"], "id": [3]})
    for url, table in ((database, "mine.out"), (url_of(lite), "out")):
        deliver(writer(url, "append", table), two, tmp_path)
        deliver(writer(url, "append", table), other, tmp_path)
        assert sorted(read(reader(url, table=table)).rows()) == [(1, "a"), (2, "b"), (3, "c")]
        with pytest.raises(JobError, match=rf"there is a table {table} already\. Say mode: replace or append"):
            deliver(writer(url, "fail", table), two, tmp_path)
        with pytest.raises(JobError, match=rf"the table {table} has no column 'x' \(it has: id, s\)"):
            deliver(writer(url, "append", table), two.with_columns(x=1), tmp_path)
        deliver(writer(url, "replace", table), two.with_columns(x=1), tmp_path)
        assert sorted(read(reader(url, table=table)).rows()) == [(1, "a", 1), (2, "b", 1)]
        with pytest.raises(RunError, match=f"a table {table} was made there meanwhile; it is as it was"):
            writer(url, "fail", table).deliver([str(tmp_path / "part-0.parquet")], "run")


@pytest.mark.parametrize(("step", "mode"), list(product(("adbc_ingest", "execute", "commit"), ("replace", "append"))))
def test_sql_output__that_fails_at_any_step_leaves_the_old_table(
    database: str, lite: sqlite3.Connection, tmp_path: Path, step: str, mode: str
) -> None:
    import adbc_driver_manager.dbapi as dbapi

    frame = pl.DataFrame({"id": [1]})
    for url, table in ((database, "mine.out"), (url_of(lite), "out")):
        deliver(writer(url, table=table), frame, tmp_path)
        kind = dbapi.Connection if step == "commit" else dbapi.Cursor
        real = getattr(kind, step)

        def fails(self: Any, *values: Any, real: Any = real, **options: Any) -> Any:
            """Do it, and fail then, but for questions."""
            done = real(self, *values, **options) if step != "commit" else None
            if values and str(values[0]).startswith("select"):
                return done
            raise adbc.OperationalError("the server\nwent away", status_code=adbc.AdbcStatusCode.IO)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, step, fails)
            with pytest.raises(RunError, match=rf"table {table} was not written and is as it was \(the server\)"):
                writer(url, mode, table).deliver([str(tmp_path / "part-0.parquet")], "run")
        assert read(reader(url, table=table)).rows() == [(1,)]
        assert len(asked(database, "select 1 from pg_tables where schemaname = 'mine'")) == 1
    assert [name for (name,) in lite.execute("select name from sqlite_schema")] == ["out"]


def test_sql_job__shows_its_password_nowhere(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(database, "create table sales as select i as id, i * 10 as amount from generate_series(1, 5) as i")
    monkeypatch.setenv("SHOP_URL", database)
    (tmp_path / "job.yaml").write_text(JOB.format(url="${SHOP_URL}", mode="replace"))
    with inside(tmp_path):
        said = [run_main("job.yaml", "--explain"), run_main("job.yaml", "--json"), run_main("job.yaml", "--quiet")]
        found = open_run("results")
    assert [ended.code for ended in said] == [0, 0, 0]
    told = "".join(ended.out + ended.err for ended in said)
    files = [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert PASSWORD not in told + "".join(files)
    assert sorted(asked(database, "select id, twice from doubled")) == [(number, 20 * number) for number in range(1, 6)]
    assert found.table("doubled").to_polars().height == 5
    assert found.record["inputs"]["sales"]["database"].startswith("postgresql://tester@/postgres?host=")
    assert "snapshot" in found.record["inputs"]["sales"]
    asked(database, "drop table sales", "drop table doubled")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql://tester:{PASSWORD}x@HOST", "password authentication failed"),
        (f"postgresql://tester:{PASSWORD}@127.0.0.1:1/db", "Connection refused"),
        (f"postgresql://tester:{PASSWORD}@127.0.0.1:1/db?nonsense=1", "invalid URI query parameter"),
        (f"postgresql://127.0.0.1:1/db?password={PASSWORD}", "a password belongs before the host"),
        (f"mysql://tester:{PASSWORD}@127.0.0.1/db", "a URL postgresql://USER@HOST/DATABASE or sqlite:///FILE is needed, and this is mysql"),
        (f"{PASSWORD}", "and this is no URL"),
    ],
)
@pytest.mark.parametrize("where", ["inputs.sales.url", "outputs.doubled.url"])
def test_sql_job__that_is_refused_shows_no_password(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, said: str, where: str
) -> None:
    asked(database, "create table if not exists sales as select 1 as id, 1 as amount")
    monkeypatch.setenv("SHOP_URL", database)
    monkeypatch.setenv("OTHER_URL", url.replace("HOST", database.partition("@")[2]))
    (tmp_path / "job.yaml").write_text(JOB.format(url="${SHOP_URL}", mode="replace"))
    with inside(tmp_path):
        ended = run_main("job.yaml", "--check", "--set", f"{where}=${{OTHER_URL}}")
    assert ended.code == 2
    assert said in ended.err
    assert PASSWORD not in ended.err
    asked(database, "drop table sales")


def test_sql_job__whose_run_is_killed_before_it_is_published_leaves_the_old_table(lite: sqlite3.Connection, tmp_path: Path) -> None:
    lite.execute("create table sales(id integer, amount integer)")
    lite.execute("insert into sales values (1, 10)")
    lite.commit()
    (tmp_path / "job.yaml").write_text(JOB.format(url=url_of(lite), mode="replace").replace("${SHOP_URL}", url_of(lite)))
    with inside(tmp_path), pytest.MonkeyPatch.context() as patch:
        load("job.yaml").run()
        lite.execute("insert into sales values (2, 20)")
        lite.commit()

        def killed(*_: object) -> None:
            raise KeyboardInterrupt("killed")

        patch.setattr("pipeline.results.publish.RunFolder.commit", killed)
        with pytest.raises(KeyboardInterrupt, match="killed"):
            load("job.yaml").run()
        assert lite.execute("select * from doubled").fetchall() == [(1, 10, 20)]
        patch.undo()
        load("job.yaml").run()
        assert lite.execute("select * from doubled").fetchall() == [(1, 10, 20), (2, 20, 40)]


def test_sql_job__of_sqlite_notices_what_changes_under_it(lite: sqlite3.Connection, tmp_path: Path) -> None:
    lite.execute("create table t(id integer)")
    lite.commit()
    inputs = f"inputs:\n  t: {{format: sql, url: '{url_of(lite)}', table: t}}\n"
    (tmp_path / "job.yaml").write_text(f"job: x\n{inputs}outputs:\n  t: {{from: t}}\n")
    job = load(tmp_path / "job.yaml", results=str(tmp_path / "results"))
    plan = job.plan()
    lite.execute("insert into t values (1)")
    lite.commit()
    assert job.plan().fingerprints != plan.fingerprints
    assert [file for files in plan.stamps.values() for file in files] == [url_of(lite).removeprefix("sqlite:///")]


@pytest.mark.parametrize("kind", [SqlInput, SqlOutput])
def test_sql__without_a_driver_names_the_extra(kind: type[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    made: Any = kind.model_validate({"url": f"sqlite:///{tmp_path}/x.db", "table": "t"})
    for library in ("adbc_driver_sqlite", "adbc_driver_manager"):
        monkeypatch.setattr("pipeline.formats._sql.database.find_spec", lambda name, library=library: None if name == library else name)
        with pytest.raises(PlaceError, match=rf"{library}, .* is not installed\. Install it with: pip install '\.\[sql\]'"):
            made.pinned() if kind is SqlInput else made.check(Schema(pl.Schema({"a": pl.Int64})), ["a"])


def test_sql__keeps_the_password_apart_from_all_that_is_shown() -> None:
    made = reader("postgresql://me:p%40ss@db.example:5433/shop?sslmode=require", table="t")
    assert made.path == ("postgresql://me@db.example:5433/shop?sslmode=require",)
    assert made.database.password == "p@ss"
    assert made.database._target(write=False) == "postgresql://me:p%40ss@db.example:5433/shop?sslmode=require"
    for shown in (repr(made), str(made.model_dump()), repr(made.database), json.dumps(made.state()), str(made.about())):
        assert "ss@" not in shown
        assert "p%40ss" not in shown
    assert pickle.loads(pickle.dumps(made)).database == made.model_copy().database == made.database
    assert reader("sqlite:///a/b.db", table="t").absolute().path == (f"sqlite:///{Path.cwd()}/a/b.db",)
    assert writer("postgresql://me:pass@h/d").model_dump() == {"url": "postgresql://me@h/d", "table": "out", "mode": "fail"}
