"""on_bad_rows: quarantine: good rows are those of the file without its bad ones, and bad ones stand in a table, in any parts."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import InputError, JobError
from pipeline.formats._bad_rows import SiftedInput
from pipeline.formats.csv import CsvInput
from pipeline.formats.gtf import GtfInput
from pipeline.formats.jsonl import JsonlInput
from pipeline.formats.vcf import VcfInput
from pipeline.job.load import load
from pipeline.testing.formats import read_table
from tests.formats.conftest import write_text

ROWS = 3000
VCF_HEAD = [
    "##fileformat=VCFv4.2",
    "##contig=<ID=1>",
    "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", "a", "b", "c"]),
]


def vcf_line(number: int) -> str:
    calls = "\t".join(["0/0", "0/1", "1/1"][(number + person) % 3] for person in range(3))
    return f"1\t{number + 1}\trs{number}\tA\tC\t.\t.\t.\tGT\t{calls}"


KINDS: dict[str, tuple[type[SiftedInput], dict[str, Any], list[str], Callable[[int], str], dict[int, tuple[str, str]]]] = {
    "csv": (
        CsvInput,
        {"columns": {"id": "int64", "day": "date"}},
        ["id,name,day"],
        lambda number: f"{number},n{number},2026-01-{number % 28 + 1:02}",
        {
            0: ("x,first,2026-01-01", r"column 'id' is Int64, and 'x' is none"),
            7: ("1,short", r"2 fields where the header line has 3"),
            1500: ("1,a,b,2026-01-01", r"4 fields where the header line has 3"),
            2000: ("y,last,never", r"column 'id' is Int64, and 'y' is none; column 'day' is Date, and 'never' is none"),
        },
    ),
    "csv of a dialect": (
        CsvInput,
        {"columns": {"id": "int64", "x": "float64"}, "separator": ";", "decimal": ",", "comment": "#", "skip": 1, "encoding": "latin-1"},
        ["anything at all", "# a comment", "id;x"],
        lambda number: f"{number};{number},5",
        {3: ("é;1,5", r"column 'id' is Int64, and 'é' is none"), 1999: ("4;1.5", r"'1\.5' is none"), 2999: ("5", r"1 field where")},
    ),
    "jsonl": (
        JsonlInput,
        {"columns": {"day": "date"}},
        [],
        lambda number: f'{{"id": {number}, "day": "2026-01-{number % 28 + 1:02}", "tags": ["a"]}}',
        {
            0: ('{"id": 1, "day"', r"not JSON"),
            9: ("[1, 2]", r"a line is one object"),
            2500: ('{"id": 5, "day": "never"}', r"column 'day' is Date, and 'never' is none"),
        },
    ),
    "vcf": (
        VcfInput,
        {},
        VCF_HEAD,
        vcf_line,
        {
            0: ("1\tx\trs\tA\tC\t.\t.\t.\tGT\t0/0\t0/0\t0/0", r"record 1:x: POS must be a number"),
            8: ("1\t9\trs\tA\tC\t.\t.\t.\tGT\t0/0", r"record 1:9 has 10 fields where 12"),
            2999: ("1\t3000\trs\tA\tC\t.\t.\t.\tGT\t0/0\t0/7\t0/0", r"has allele 7"),
        },
    ),
    "gtf": (
        GtfInput,
        {},
        ["#!genome-build GRCh38"],
        lambda number: f'1\tx\tgene\t{number + 1}\t{number + 9}\t.\t+\t.\tgene_id "g{number}"; gene_name "n{number}";',
        {
            3: ("1\tx\tgene\t1", r"has 4 fields where GTF"),
            1999: ('1\tx\tgene\t9\t3\t.\t+\t.\tgene_id "a";', r"start and end must be numbers"),
        },
    ),
}
PACKED = [
    *[(kind, packing) for kind in ("csv", "jsonl") for packing in ("plain", "gzip")],
    *[("vcf", packing) for packing in ("plain", "gzip", "bgzip")],
    *[("gtf", packing) for packing in ("plain", "bgzip")],
    ("csv of a dialect", "plain"),
]


def files(kind: str, folder: Path, packing: str) -> tuple[Path, Path, dict[int, tuple[str, str]]]:
    """A file with bad rows, the same file without them, and the bad rows by their lines."""
    _, given, head, line, bad = KINDS[kind]
    encoding = str(given.get("encoding", "utf-8"))
    name = f"x.{packing}.{kind.split()[0]}" + ("" if packing == "plain" else ".gz")
    (folder / "good").mkdir()
    lines, texts, placed = list(head), list(head), dict[int, tuple[str, str]]()
    for number in range(ROWS):
        text = bad[number][0] if number in bad else line(number)
        texts.append(text)
        if number in bad:
            placed[len(texts)] = bad[number]
        else:
            lines.append(text)
    spoiled = write_text(folder / name, ("\n".join(texts) + "\n").encode(encoding))
    return spoiled, write_text(folder / "good" / name, ("\n".join(lines) + "\n").encode(encoding)), placed


@pytest.mark.parametrize("parts", [None, 5])
@pytest.mark.parametrize(
    ("kind", "packing"),
    PACKED,
)
def test_quarantine__gives_the_rows_of_the_file_without_its_bad_ones(kind: str, packing: str, parts: int | None, tmp_path: Path) -> None:
    reader, given, *_ = KINDS[kind]
    spoiled, good, bad = files(kind, tmp_path, packing)
    given = {**given, **({} if parts is None or kind == "gtf" else {"parts": parts})}
    sifting = reader.model_validate({**given, "path": str(spoiled), "on_bad_rows": "quarantine"})
    found = read_table(sifting)
    wanted = read_table(reader.model_validate({**given, "path": str(good)}))
    assert_frame_equal(found.frame, wanted.frame)
    assert {name: array.tolist() for name, array in found.arrays.items()} == {name: array.tolist() for name, array in wanted.arrays.items()}
    sifted = [sieve.sifted() for sieve in sifting.sieves(2)]
    table = pl.concat([frame for frame, _ in sifted])
    assert sum(rows for _, rows in sifted) == ROWS
    assert table["line"].to_list() == list(bad)
    assert table["text"].to_list() == [text for text, _ in bad.values()]
    assert table["file"].unique().to_list() == [str(spoiled)]
    for reason, (_, pattern) in zip(table["reason"], bad.values(), strict=True):
        assert pl.Series([reason]).str.contains(pattern).item(), f"{reason!r} is not {pattern!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_quarantine__leaves_a_file_without_bad_rows_as_it_is(kind: str, tmp_path: Path) -> None:
    reader, given, *_ = KINDS[kind]
    _, good, _ = files(kind, tmp_path, "plain")
    sifting = reader.model_validate({**given, "path": str(good), "on_bad_rows": "quarantine"})
    assert_frame_equal(read_table(sifting).frame, read_table(reader.model_validate({**given, "path": str(good)})).frame)
    assert [sieve.sifted()[0].height for sieve in sifting.sieves(2)] == [0] * len(sifting.sieves(2))


@pytest.mark.parametrize("kind", KINDS)
def test_fail__is_what_happens_where_the_job_says_nothing(kind: str, tmp_path: Path) -> None:
    reader, given, *_ = KINDS[kind]
    spoiled, _, _ = files(kind, tmp_path, "plain")
    plain = reader.model_validate({**given, "path": str(spoiled)})
    assert plain.sieves(2) == ()
    with pytest.raises(Exception, match=str(spoiled)):
        read_table(plain)


def test_quarantine__cannot_take_a_quote_aside_that_is_never_closed(tmp_path: Path) -> None:
    (path := tmp_path / "x.csv").write_text('id,name\n1,"a\n2,b\n')
    with pytest.raises(InputError, match=r"x\.csv:2: a quote begins in this row and is never closed"):
        read_table(CsvInput.model_validate({"path": str(path), "columns": {"id": "int64", "name": "string"}, "on_bad_rows": "quarantine"}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_bad_rows": 3}, "max_bad_rows is for on_bad_rows: quarantine"),
        ({"on_bad_rows": "quarantine", "max_bad_rows": 1.5}, "a share is below 1"),
        ({"on_bad_rows": "quarantine", "max_bad_rows": -1}, "greater than or equal to 0"),
    ],
)
def test_max_bad_rows__is_a_count_or_a_share(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CsvInput.model_validate({"path": "x.csv", **given})


@pytest.mark.parametrize("more", [{"regions": ["1"]}, {"import": True}])
def test_quarantine__reads_whole_vcfs(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="goes with neither regions nor import"):
        VcfInput.model_validate({"path": "x.vcf.gz", "on_bad_rows": "quarantine", **more})


def test_quarantine__of_a_truncated_file_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"id,name\n" + b"1,a\n" * 500_000)[:-20])
    reader = CsvInput.model_validate({"path": str(path), "on_bad_rows": "quarantine"})
    with pytest.raises(InputError, match=r"x\.csv\.gz: cannot be read"):
        [cast("Any", sieve).sifted() for sieve in reader.sieves(2)]


def test_formats_without_such_rows__say_so(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "job: x\ninputs: {t: {format: parquet, path: x.parquet, on_bad_rows: quarantine}}\n"
        "stages: [{use: filter, as: f, from: t, where: a > 0}]\noutputs: {o: {from: f}}\n"
    )
    with pytest.raises(JobError, match=r"unknown parameter 'on_bad_rows' of .*parquet input\. Its rows are not bad one by one"):
        load(str(tmp_path / "job.yaml"))
