"""Texts in stretches: Python's csv module reads the rows, in any number of parts, and each part reads its own bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.files import stamp
from pipeline.formats import _json_lines
from pipeline.formats._json_lines import columns_of
from pipeline.formats._text_stretches import Stretch, Text, row_starts
from pipeline.formats.csv import CsvInput
from pipeline.formats.jsonl import JsonlInput
from tests.formats.reading import parts_of

PARTS = (1, 2, 3, 8, 40)
FIELDS = ["a", "é", "x,y", 'say "so"', "two\nlines", "\n", "", "\r\n", 'n, "o"\n', "plain and long enough to be cut within"]


GIVEN: dict[str, dict[str, Any]] = {
    "rows.csv": {}, "packed.csv.gz": {}, "packed.csv.zst": {}, "marked.csv": {}, "below.csv": {"skip": 2},
    "other.csv": {"encoding": "utf-16"},
}  # fmt: skip


def text_of(seed: int, ends: str = "\n", *, blanks: bool = False, rows: int = 60) -> str:
    chance, text = random.Random(seed), io.StringIO()
    writer = csv.writer(text, lineterminator=ends)
    writer.writerow(["k", "t", 'u "v"'])
    for number in range(rows):
        writer.writerow([number, *(chance.choice(FIELDS) for _ in range(2))])
        if blanks and chance.random() < 0.3:
            text.write(ends * chance.randrange(1, 4))
    return text.getvalue()


def reader(path: Path, **given: Any) -> CsvInput:
    return CsvInput.model_validate({"path": str(path), "columns": {"k": "int64", "t": "string", 'u "v"': "string"}, **given})


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", range(4))
def test_parts__have_the_rows_of_pythons_csv_module(seed: int, ends: str, tmp_path: Path) -> None:
    text = text_of(seed, ends)
    rows = [(int(row[0]), row[1], row[2]) for row in list(csv.reader(io.StringIO(text, newline="")))[1:]]
    (tmp_path / "rows.csv").write_bytes(text.encode())
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "other.csv").write_bytes(text.encode("utf-16"))
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "below.csv").write_bytes(b'a "title"\n\n' + text.encode())
    for name, given in GIVEN.items():
        if not (tmp_path / name).exists():
            continue
        for parts in PARTS:
            found = parts_of(reader(tmp_path / name, parts=parts, null_values=["NA"], **given))
            assert [(k, t or "", u or "") for part in found for k, t, u in part.frame.rows()] == rows, (name, parts)
            assert len(found) == parts


def test_empty_lines__are_rows_of_missing_values_wherever_a_part_begins(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text_of(5, blanks=True))
    given = {"short_rows": "fill", "null_values": ["NA"]}
    whole = parts_of(reader(tmp_path / "rows.csv", **given))[0].frame
    assert whole["k"].null_count() > 10
    for parts in PARTS:
        found = parts_of(reader(tmp_path / "rows.csv", parts=parts, **given))
        assert pl.concat([part.frame for part in found]).rows() == whole.rows()
    first = tmp_path / "first.csv"
    first.write_text("\n\n\nk,t\n1,x\n\n2,y\n3,z\n")
    for parts in (1, 2, 5, 24):
        found = parts_of(CsvInput.model_validate({"path": str(first), "parts": parts, "short_rows": "fill"}))
        assert [row for part in found for row in part.frame.rows()] == [(1, "x"), (None, None), (2, "y"), (3, "z")]


def test_a_part__begins_with_a_row_that_lacks_fields_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("k,t\n" + "1\n" * 6)
    for parts in (1, 3, 6):
        found = parts_of(CsvInput.model_validate({"path": str(tmp_path / "rows.csv"), "parts": parts, "short_rows": "fill"}))
        assert [row for part in found for row in part.frame.rows()] == [(1, None)] * 6


def test_rows__are_numbered_through_all_parts(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text_of(1))
    sources = reader(tmp_path / "rows.csv", parts=7, short_rows="fill").sources(2)
    places = [place for source in sources for place in source.places()]
    assert [first for _, first, _ in places] == [sum(rows or 0 for _, _, rows in places[:number]) for number in range(7)]
    assert sum(rows or 0 for _, _, rows in places) == 60


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_lines_of_json__are_read_once_in_any_parts(suffix: str, tmp_path: Path) -> None:
    rows = [{"k": number, "t": 'a "quote' if number % 3 else "two\nlines"} for number in range(50)]
    data = "".join(json.dumps(row) + "\n" * (1 + number % 2) for number, row in enumerate(rows)).encode()
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    for parts in PARTS:
        found = parts_of(JsonlInput.model_validate({"path": str(path), "parts": parts}))
        assert [row for part in found for row in part.frame.to_dicts()] == rows
        assert len(found) == parts


def test_parts__are_of_about_as_many_bytes_and_each_reads_its_own_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t\n" + "".join(f"{number},{'x' * (number % 50)}\n" for number in range(20_000)))
    sources = CsvInput.model_validate({"path": str(path), "parts": 10}).sources(2)
    sizes = [source.stretch.stop - source.stretch.start for source in sources if source.stretch]
    assert sum(sizes) == path.stat().st_size
    assert max(sizes) < 1.3 * min(sizes)
    read = list[int]()

    def text(self: Stretch, text: Text) -> bytes:
        found = whole(self, text)
        read.append(len(found))
        return found

    whole = Stretch.read
    monkeypatch.setattr(Stretch, "read", text)
    assert parts_of(CsvInput.model_validate({"path": str(path), "parts": 10}))
    assert read == sizes


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_row_starts__are_where_rows_begin(block: int) -> None:
    data = text_of(2, "\r\n", blanks=True).encode()
    starts, size = row_starts((data[at : at + block] for at in range(0, len(data), block)), quoted=True)
    assert size == len(data)
    rows = [row for low, high in pairwise([0, *starts, size]) for row in csv.reader(io.StringIO(data[low:high].decode(), newline=""))]
    assert rows == list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert all(data[start : start + 1] not in b"\r\n" for start in starts)
    assert len(starts) > 20


@pytest.mark.parametrize("seed", range(3))
def test_finer_parts_of_texts_that_cannot_be_sought_in__lie_in_the_folder(seed: int, tmp_path: Path) -> None:
    text = text_of(seed, rows=3000)
    rows = [(int(row[0]), row[1], row[2]) for row in list(csv.reader(io.StringIO(text, newline="")))[1:]]
    (tmp_path / "rows.csv").write_bytes(text.encode())
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "packed.csv.zst").write_bytes(pa.compress(text.encode(), "zstd", asbytes=True))
    (tmp_path / "other.csv").write_bytes(text.encode("utf-16"))
    for name, given in GIVEN.items():
        if (tmp_path / name).exists():
            folder = tmp_path / f"of {name}"
            folder.mkdir()
            finer = reader(tmp_path / name, null_values=["NA"], **given).finer(1, 20, str(folder))
            found = parts_of(finer)
            assert [(k, t or "", u or "") for part in found for k, t, u in part.frame.rows()] == rows, name
            assert 8 <= len(found) <= 60
            laid = [path for path in folder.rglob("*") if path.is_file()]
            assert len(laid) == (0 if name == "rows.csv" else len(found))
            sizes = [len(gzip.decompress(path.read_bytes())) for path in laid]
            assert sum(sizes) == (len(text.encode()) if laid else 0)


def test_lines_of_packed_json__lie_in_the_folder(tmp_path: Path) -> None:
    rows = [{"k": number, "t": 'a "quote' if number % 3 else "two\nlines"} for number in range(3000)]
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    found = parts_of(JsonlInput.model_validate({"path": str(tmp_path / "rows.jsonl.gz")}).finer(1, 8, str(tmp_path)))
    assert [row for part in found for row in part.frame.to_dicts()] == rows
    assert len(found) > 4


@pytest.mark.parametrize("size", [1, 100, 3000])
@pytest.mark.parametrize(
    "lines",
    [
        [{"a": None}, {"a": 1}, {"b": "x", "a": 2.5}],
        [{"a": 2**64}, {"a": 1}, {"c": [1]}, {"c": [None]}, {"c": [0.5], "a": -(2**63)}],
        [{"s": {"x": 1}}, {"s": {"y": "z", "x": 2**70}}, {"s": None}, {"s": {"x": 0.5}}],
        [{"a": 1}, {"a": "x"}, {"a": None}],
        [{"a": [1], "b": 1}, {"b": 2, "a": [0.5]}],
        [{"a": None, "b": 1}, {"a": 2, "b": None}, {"a": 0.5, "b": 2**63}],
        [{"a": True}, {"a": 1}],
    ],
)
def test_columns_of_packed_json__are_those_of_all_its_lines(
    lines: list[dict[str, Any]], size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_json_lines, "PIECE_BYTES", size)
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "rows.jsonl").write_bytes(data)
    read = [JsonlInput.model_validate({"path": str(tmp_path / name), "columns": {}}) for name in ("rows.jsonl.gz", "rows.jsonl")]
    found = [columns_of(reader.files()[0], stamp(reader.files()[0]), reader.limits) for reader in read]
    assert list(found[0].items()) == list(found[1].items())


def test_a_text_of_which_rows_are_left_out__comes_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text_of(1))
    for given in ({"on_bad_rows": "quarantine"}, {"comment": "#"}):
        whole = reader(tmp_path / "rows.csv", **given)
        assert whole.finer(1, 1000, str(tmp_path)) is whole


def test_a_file_that_is_cut_off__is_refused_as_it_is_laid(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text_of(1, rows=30_000).encode())[:20_000])
    with pytest.raises(InputError, match=r"rows\.csv\.gz: cannot be read .*Is it truncated"):
        reader(tmp_path / "rows.csv.gz").finer(1, 20, str(tmp_path)).sources(2)
