"""excel: a sheet of a workbook as its cells have it, types over all rows, and what is said of workbooks that do not fit."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from xml.sax.saxutils import escape

import polars as pl
import pytest

from pipeline.errors import InputError, PlaceError
from pipeline.formats.excel import ExcelInput
from pipeline.testing.formats import assert_reads, read_table

TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml"
Cells = Sequence[Sequence[str | float | bool | None]]


def cell(column: int, row: int, value: str | float | bool | None) -> str:
    """One cell after ECMA-376, its text inline."""
    place = f"{chr(65 + column)}{row}"
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def workbook(path: Path, **sheets: Cells) -> Path:
    """A workbook of these sheets."""
    names = list(sheets)
    listed = "".join(f'<sheet name="{name}" sheetId="{number}" r:id="r{number}"/>' for number, name in enumerate(names, 1))
    parts = "".join(f'<Override PartName="/xl/s{number}.xml" ContentType="{XLSX}.worksheet+xml"/>' for number in range(1, len(names) + 1))
    relations = "".join(
        f'<Relationship Id="r{number}" Type="{DOCUMENT}/worksheet" Target="s{number}.xml"/>' for number in range(1, len(names) + 1)
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.'
        f'relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{XLSX}.sheet.main+xml"/>{parts}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="{DOCUMENT}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{DOCUMENT}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{RELATIONS}">{relations}</Relationships>',
    }
    for number, cells in enumerate(sheets.values(), 1):
        rows = "".join(
            f'<row r="{row}">{"".join(cell(column, row, value) for column, value in enumerate(values))}</row>'
            for row, values in enumerate(cells, 1)
        )
        files[f"xl/s{number}.xml"] = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>{text}')
    return path


def reader(path: Path, **given: object) -> ExcelInput:
    return ExcelInput.model_validate({"path": str(path), **given})


ROWS: Cells = [["id", "name", "x", "ok"], [1, "a<b", 0.5, True], [2, None, None, False], [3, "é", -2, None]]
FRAME = pl.DataFrame({"id": [1, 2, 3], "name": ["a<b", None, "é"], "x": [0.5, None, -2.0], "ok": [True, False, None]})


def test_excel_input__reads_a_sheet_in_any_parts(tmp_path: Path) -> None:
    workbook(tmp_path / "a.xlsx", people=ROWS, more=[["a heading"], ["k"], [7], [None], [8]])
    types = {"columns": {"id": "int64"}}
    assert_reads(reader(tmp_path, **types), FRAME)
    assert_reads(reader(tmp_path, sheet="people", **types), FRAME)
    assert_reads(reader(tmp_path, sheet="more", skip=1, columns={"k": "int16"}), pl.DataFrame({"k": [7, 8]}, schema={"k": pl.Int16}))


def test_excel_input__takes_types_from_all_rows(tmp_path: Path) -> None:
    workbook(tmp_path / "a.xlsx", rows=[["k"], *([number] for number in range(3000)), ["late"]])
    found = read_table(reader(tmp_path)).frame["k"]
    assert found.dtype == pl.String
    assert (found.len(), found.null_count(), found[-1]) == (3001, 0, "late")


def test_excel_input__gives_columns_the_types_stated(tmp_path: Path) -> None:
    workbook(tmp_path / "a.xlsx", rows=[["day", "k"], ["2020-01-31", 1], [None, 2.5]])
    assert read_table(reader(tmp_path, columns={"day": "date"})).frame.rows() == [(date(2020, 1, 31), 1.0), (None, 2.5)]
    for name, stated, first in (("day", "int8", "2020-01-31"), ("day", "boolean", "2020-01-31"), ("k", "int64", "2.5")):
        with pytest.raises(
            InputError, match=rf"a\.xlsx: column '{name}' is \w+, and not all of it is {stated}: {first}, say\. State another"
        ):
            reader(tmp_path, columns={name: stated}).table_schema()
    with pytest.raises(InputError, match=r"a\.xlsx: columns names 'dya', which the sheet does not have\. It has: day, k"):
        reader(tmp_path, columns={"dya": "date"}).table_schema()


def test_excel_input__cuts_no_value_to_a_type_that_is_stated(tmp_path: Path) -> None:
    workbook(tmp_path / "a.xlsx", rows=[["text", "whole", "half"], [" 7 ", 2**24 + 1, 0.5], ["8", 3, None]])
    found = read_table(reader(tmp_path, columns={"text": "int8", "half": "float32"})).frame
    assert found.rows() == [(7, 2**24 + 1, 0.5), (8, 3, None)]
    for name, stated in (("whole", "float32"), ("whole", "int16"), ("half", "int64")):
        with pytest.raises(InputError, match=f"column '{name}' is .*, and not all of it is {stated}: (16777217|0.5), say"):
            reader(tmp_path, columns={name: stated}).table_schema()


def test_excel_input__says_nothing_of_a_column_without_a_cell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    workbook(tmp_path / "a.xlsx", rows=[["k", "none"], [1, None], [2, None]])
    assert read_table(reader(tmp_path)).frame["none"].to_list() == [None, None]
    assert not caplog.records


def test_excel_input__refuses_what_is_no_workbook_or_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workbook(tmp_path / "a.xlsx", people=ROWS)
    with pytest.raises(InputError, match=r"a\.xlsx: sheet 'pople' of it cannot be read as a table \(.*\)\. Is it a workbook"):
        reader(tmp_path, sheet="pople").table_schema()
    whole = (tmp_path / "a.xlsx").read_bytes()
    (tmp_path / "b.xlsx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"b\.xlsx: its first sheet cannot be read as a table"):
        reader(tmp_path / "b.xlsx").table_schema()
    monkeypatch.setattr("pipeline.formats.excel.find_spec", lambda _: None)
    with pytest.raises(
        PlaceError, match=r"fastexcel, which reads workbooks, is not installed\. Install it with: pip install '\.\[excel\]'"
    ):
        reader(tmp_path).table_schema()


def test_quarantine__of_a_workbook_has_the_rows_of_its_sheet(tmp_path: Path) -> None:
    workbook(tmp_path / "x.xlsx", a=[["a title"], ["id", "name"], [1, "a"], ["x", "b"], [None], [3, "c"], ["y", None]])
    given = {"path": str(tmp_path / "x.xlsx"), "skip": 1, "columns": {"id": "int64"}}
    sifting = ExcelInput.model_validate({**given, "on_bad_rows": "quarantine"})
    assert read_table(sifting).frame.to_dict(as_series=False) == {"id": [1, 3], "name": ["a", "c"]}
    (sieve,) = sifting.sieves(2)
    bad, rows = sieve.sifted()
    assert (bad["line"].to_list(), rows) == ([4, 7], 4)
    assert bad["text"].to_list() == ['{"id": "x", "name": "b"}', '{"id": "y", "name": null}']
    assert bad["reason"][0] == "column 'id' is int64, and x is none"
    with pytest.raises(InputError, match=r"column 'id' is String, and not all of it is int64"):
        read_table(ExcelInput.model_validate(given))
