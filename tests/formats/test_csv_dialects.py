"""CSV as people have it: encodings, decimal commas, no header line, comments, first lines, forms of dates; DuckDB or Python agrees."""

from __future__ import annotations

import gzip
import random
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from pipeline.errors import DataError, InputError, RunError
from pipeline.formats.csv import CsvInput
from pipeline.testing.formats import read_table

WORDS = ["é", "ß", "x;y", 'say "so"', "a\nb", "", "# no comment", "\n#nor this", "naïve, yes"]
RULES = "quote = '\"', escape = '\"', auto_detect = false, allow_quoted_nulls = false, parallel = false"


def reader(path: Path, **given: Any) -> CsvInput:
    return CsvInput.model_validate({"path": str(path), **given})


def rows_of(path: Path, **given: Any) -> list[tuple[Any, ...]]:
    """All rows, the same in 1, 2 and 7 parts."""
    found = [read_table(reader(path, parts=parts, **given)).frame.rows() for parts in (1, 2, 7)]
    assert found[0] == found[1] == found[2]
    return found[0]


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    data = text.encode(encoding)
    packed = {".gz": gzip.compress, ".zst": lambda plain: pa.compress(plain, "zstd", asbytes=True)}
    path.write_bytes(packed.get(path.suffix, lambda plain: plain)(data))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize(("encoding", "known_as"), [("latin-1", "latin-1"), ("utf-16", "utf-16")])
def test_csv_input__decodes_as_duckdb_does(tmp_path: Path, encoding: str, known_as: str, suffix: str) -> None:
    chance = random.Random(7)
    lines = [
        f"{number};{chance.choice(['ä', 'ß', 'x', 'Ñandú'])};{chance.randrange(10**6)},{chance.randrange(100):02d}" for number in range(500)
    ]
    path = written(tmp_path / f"x{suffix}", "k;städte;x\n" + "\n".join(lines) + "\n", encoding)
    plain = written(tmp_path / "plain.txt", "k;städte;x\n" + "\n".join(lines) + "\n", encoding)
    types = "columns = {'k': 'bigint', 'städte': 'varchar', 'x': 'double'}"
    sql = f"from read_csv('{plain}', delim = ';', header = true, decimal_separator = ',', encoding = '{known_as}', {types}, {RULES})"
    assert rows_of(path, separator=";", encoding=encoding, decimal=",") == duckdb.sql(sql).fetchall()


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        ("windows-1252", "cp1252"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("windows-1251", "cp1251"),
        ("mac-roman", "mac-roman"),
    ],
)
def test_csv_input__decodes_whatever_python_encodes(tmp_path: Path, encoding: str, codec: str) -> None:
    text = "имя" if codec == "cp1251" else "naïve" if "-1252" in encoding else "né"
    path = written(tmp_path / "x.csv", f'name,k\n{text},1\n"{text}\n{text}",2\n', codec)
    assert rows_of(path, encoding=encoding) == [(text, 1), (f"{text}\n{text}", 2)]


def test_csv_input__refuses_what_is_not_of_the_encoding(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "k,t\n1,x\n", "utf-8")
    with pytest.raises((InputError, DataError), match=r"x\.csv: not UTF-16 text .* Say what it is with encoding: "):
        reader(path, encoding="utf-16").table_schema()
    path.write_bytes("k,t\n1,x\n".encode("utf-16")[:-1])
    with pytest.raises((InputError, DataError), match=r"x\.csv: not UTF-16 text .*truncated"):
        reader(path, encoding="utf-16").table_schema()
    with pytest.raises(InputError, match=r"y\.csv: not UTF-8 text .* Save it as UTF-8 .*, or say what it is with encoding: windows-1252"):
        reader(written(tmp_path / "y.csv", "k\né\n", "latin-1")).table_schema()


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst"])
@pytest.mark.parametrize("quoting", [False, True])
def test_csv_input__leaves_out_first_lines_and_comments_and_nothing_else(tmp_path: Path, suffix: str, quoting: bool) -> None:
    for seed in range(12):
        chance, expected, lines = random.Random(f"{seed}{quoting}"), list[tuple[int, str]](), ['an "odd, line', "and, one, more"]
        head = chance.choice([True, False])
        if head:
            lines += ["# by: someone", "k,t"]
        for number in range(chance.randrange(1, 30)):
            word = chance.choice(WORDS)
            expected.append((number, word))
            quoted = word.replace('"', '""')
            lines.append(f'{number},"{quoted}"' if quoting or set(word) & set('\n",') or not word else f"{number},{word}")
            lines += [chance.choice(["# why, not", "#", '#"', "# two\n#, lines"])] if chance.random() < 0.3 else []
        path = written(tmp_path / f"{seed}{suffix}", "\n".join(lines) + chance.choice(["", "\n"]))
        types = {"columns": {"k" if head else "column_1": "int64", "t" if head else "column_2": "string"}}
        assert rows_of(path, skip=2, comment="#", header=head, **types) == expected, lines


def test_csv_input__without_a_header_line_has_names_as_given(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "1,x,2.5\n2,,\n")
    assert read_table(reader(path, header=False)).frame.columns == ["column_1", "column_2", "column_3"]
    found = read_table(reader(path, header=False, names=["k", "t", "x"], columns={"k": "int8"})).frame
    assert found.to_dict(as_series=False) == {"k": [1, 2], "t": ["x", None], "x": [2.5, None]}
    sql = f"from read_csv('{path}', header = false, delim = ',', columns = {{'k': 'tinyint', 't': 'varchar', 'x': 'double'}}, {RULES})"
    assert found.rows() == duckdb.sql(sql).fetchall()


MOMENTS = [
    "2020-01-31T12:13:14", "2020-01-31 12:13:14", "2020-01-31T12:13", "2020-01-31 12:13", "2020-01-31", "2020-01-31T12:13:14.5",
    "1000-01-01 00:00:00", "9999-12-31T23:59:59.999999", "2020-02-29T00:00:00Z", "2020-01-31T23:13:14-05:30", "2020-01-31 12:13:14+0200",
]  # fmt: skip


@pytest.mark.parametrize("first", range(len(MOMENTS)))
def test_csv_input__reads_dates_of_iso_8601_as_python_does_whatever_comes_first(tmp_path: Path, first: int) -> None:
    texts = MOMENTS[first:] + MOMENTS[:first]
    path = written(tmp_path / "x.csv", "d,s\n" + "".join(f"{text[:10]},{text}\n,\n" for text in texts))
    moments = [datetime.fromisoformat(text) for text in texts]
    plain = [moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment for moment in moments]
    expected = [(date.fromisoformat(text[:10]), moment) for text, moment in zip(texts, plain, strict=True)]
    assert rows_of(path, columns={"d": "date", "s": "datetime"})[::2] == expected
    assert rows_of(path, columns={"d": "date", "s": "datetime"})[1::2] == [(None, None)] * len(texts)


@pytest.mark.parametrize("before", [0, 1, 50_000])
@pytest.mark.parametrize(
    ("dtype", "text", "key"),
    [
        ("date", "01/02/2020", "date_format: %d.%m.%Y"),
        ("date", "31.01.2020", "date_format: %d.%m.%Y"),
        ("date", "31-01-20", "date_format: %d.%m.%Y"),
        ("date", "2020-02-30", "date_format: %d.%m.%Y"),
        ("datetime", "01/02/2020 01:02", "datetime_format: %d.%m.%Y %H:%M"),
        ("datetime", "31-01-20 01:02:03", "datetime_format: %d.%m.%Y %H:%M"),
        ("datetime", "2020-01-31T24:00:00", "datetime_format: %d.%m.%Y %H:%M"),
    ],
)
def test_csv_input__takes_no_other_order_of_day_and_month_wherever_it_stands(
    tmp_path: Path, dtype: str, text: str, key: str, before: int
) -> None:
    path = written(tmp_path / "x.csv", "k,t\n" + "1,2020-01-31\n" * before + f"1,{text}\n")
    message = rf"x\.csv:{before + 2}: column 't' is {'Date, ' if dtype == 'date' else 'Datetime.*'}and '{text}' is none\. .*\({key}\)"
    for parts in (1, 3):
        with pytest.raises(RunError, match=message):
            read_table(reader(path, columns={"t": dtype}, parts=parts))


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("31.01.2020", "%d.%m.%Y", date(2020, 1, 31)),
        ("01/02/2020", "%m/%d/%Y", date(2020, 1, 2)),
        ("01/02/2020", "%d/%m/%Y", date(2020, 2, 1)),
        ("2 Mar 2021", "%d %b %Y", date(2021, 3, 2)),
        ("20240229", "%Y%m%d", date(2024, 2, 29)),
    ],
)
def test_csv_input__reads_dates_of_a_form_as_duckdb_does(tmp_path: Path, text: str, form: str, value: date) -> None:
    path = written(tmp_path / "x.csv", f'k,d,s\n1,{text},{text} 13:05:07\n2,,\n3,"{text}",NA\n')
    given = {"columns": {"d": "date", "s": "datetime"}, "date_format": form, "datetime_format": f"{form} %H:%M:%S"}
    moment = datetime(value.year, value.month, value.day, 13, 5, 7)
    assert rows_of(path, **given) == [(1, value, moment), (2, None, None), (3, value, None)]
    types = "columns = {'k': 'bigint', 'd': 'date', 's': 'timestamp'}, nullstr = ['', 'NA']"
    forms = f"dateformat = '{form}', timestampformat = '{form} %H:%M:%S'"
    assert (
        rows_of(path, **given) == duckdb.sql(f"from read_csv('{path}', header = true, delim = ',', {types}, {forms}, {RULES})").fetchall()
    )


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        (
            "k;x\n1;1,5\n2;1.234,5\n",
            {"columns": {"x": "float64"}},
            r":3: column 'x' is Float64 with a decimal comma, and '1\.234,5' is none",
        ),
        ("k;x\n1;1,5\n2;1.234\n", {"columns": {"x": "float64"}}, r":3: column 'x' is Float64 with a decimal comma, and '1\.234' is none"),
        (
            "#\nk;d\n#\n1;31.01.2020\n#\n2;30.02.2020\n",
            {"columns": {"d": "date"}, "date_format": "%d.%m.%Y", "comment": "#"},
            r":6: column 'd' is Date in the form %d\.%m\.%Y, and '30\.02\.2020' is none",
        ),
        (
            "a\nb\n1;2\n#\n3;x\n",
            {"header": False, "names": ["k", "x"], "columns": {"x": "int8"}, "skip": 2, "comment": "#"},
            r":5: column 'x'",
        ),
        ('# "a\nk;x\n1;2\n# b\n3\n', {"comment": "#"}, r":5: 1 field where the header line has 2"),
        ("1;2\n3\n", {"header": False}, r":2: 1 field where the table has 2"),
        ('#"\nk;x\n1;"a\n', {"comment": "#"}, r":3: a quote begins in this row and is never closed"),
        ("1;2\n3;4;5\n", {"header": False}, r":2: 3 fields where the table has 2"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_csv_input__says_the_line_of_the_file(tmp_path: Path, text: str, given: dict[str, Any], message: str, encoding: str) -> None:
    path = written(tmp_path / "x.csv", text, encoding)
    with pytest.raises((InputError, DataError, RunError), match=r"x\.csv" + message):
        read_table(reader(path, separator=";", decimal=",", encoding=encoding, **given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": ["k", "x"]}, r"names are for files without a header line\. Say header: false"),
        ({"names": ["k"], "header": False}, r"x\.csv: its first row has 2 fields, and names has 1\. Name all columns"),
        ({"names": ["k", "k"], "header": False}, r"names names 'k' 2 times|names .*every column needs a name of its own"),
        ({"decimal": ","}, r"the separator is ',', as the decimal mark is"),
        ({"columns": {"y": "int8"}, "header": False}, r"columns names 'y', which is none of the columns' names"),
    ],
)
def test_csv_input__refuses_keys_that_do_not_go_together(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        reader(written(tmp_path / "x.csv", "1,2\n"), **given).table_schema()


def test_csv_input__counts_infinities_of_any_encoding(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "k;x\n1;inf\n2;1,5\n", "utf-16")
    counting = reader(path, encoding="utf-16", separator=";", decimal=",", columns={"x": "float64"}).infinities()
    assert counting is not None
    assert counting() == 1


def test_csv_input__takes_files_of_one_table_by_names(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", "k,t\n1,x\n2,\n")
    written(tmp_path / "b.csv", "t,k\ny,3\n")
    assert rows_of(tmp_path) == [(1, "x"), (2, None), (3, "y")]
    written(tmp_path / "c.csv", "more,k\n0.5,4\n")
    with pytest.raises(InputError, match=r"c\.csv: has no column 't', which .*a\.csv has\. .*Say missing: nulls to take"):
        reader(tmp_path).table_schema()
    sql = f"select k, t, more from read_csv('{tmp_path}/*.csv', union_by_name = true, header = true, delim = ',') order by k"
    assert (rows_of(tmp_path, missing="nulls")) == (duckdb.sql(sql).fetchall())
    counting = reader(tmp_path, missing="nulls").infinities()
    assert counting is not None
    assert counting() == 0
    written(tmp_path / "d.csv", "k,t\nx,y\n")
    with pytest.raises(InputError, match=r"d\.csv: column 'k' reads as String, and as Int64 in .*a\.csv\. State its type in columns"):
        reader(tmp_path, missing="nulls").table_schema()
