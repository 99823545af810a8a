"""Inputs of HTTP servers: the same rows as from a folder, whatever a server's manners, and what goes wrong in a line."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline import web
from pipeline.api import load
from pipeline.errors import DataError, InputError
from pipeline.files import exists, open_file, stamp
from pipeline.format import InputFormat
from pipeline.formats.csv import CsvInput
from pipeline.formats.jsonl import JsonlInput
from pipeline.formats.orc import OrcInput, OrcOutput
from pipeline.formats.parquet import ParquetInput
from pipeline.plan.unchanged import need_unchanged, stamps_of
from pipeline.tables.part import Part
from pipeline.tables.steps import Step, evaluate
from tests.servers import Site, web_server
from tests.small import run_main

MANNERS: list[set[str]] = [
    set(),
    {"no ranges"},
    {"no head"},
    {"no tags"},
    {"no size", "no ranges"},
    {"gzip", "no ranges"},
    {"no head", "no ranges", "no tags"},
]


def in_words(manners: set[str]) -> str:
    """The manners in one order, as every process that runs tests must have it."""
    return ", ".join(sorted(manners)) or "as it should be"


JOB = """\
job: far
results: {folder}/results
inputs:
  sheet: {{format: csv, path: ["{url}/a.csv", "{url}/b.csv?version=2"]}}
  sites: {{format: parquet, path: "{url}/moved/sites.parquet"}}
stages:
  - {{use: join, from: {{left: sheet, right: sites}}, on: site, as: placed}}
outputs:
  placed: {{from: placed, sort_by: id}}
"""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server without files, which is asked again without a pause."""
    monkeypatch.setattr(web, "PAUSE_S", 0.0)
    monkeypatch.setattr(web, "TIMEOUT_S", 5.0)
    with web_server() as found:
        yield found


def parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


@cache
def many() -> bytes:
    """Three and a half blocks of noise."""
    return np.random.default_rng(7).bytes(7 * web.BLOCK // 2)


@pytest.mark.parametrize("manners", MANNERS, ids=in_words)
def test_open_file__reads_and_seeks_whatever_the_server_s_manners(site: Site, manners: set[str]) -> None:
    site.files["/x"], site.manners = many(), manners
    content = site.files["/x"]
    with open_file(f"{site.url}/x") as file:
        assert file.read(10) == content[:10]
        file.seek(-8, io.SEEK_END)
        assert (file.tell(), file.read()) == (len(content) - 8, content[-8:])
        file.seek(web.BLOCK - 3)
        assert file.read(web.BLOCK + 7) == content[web.BLOCK - 3 : 2 * web.BLOCK + 4]
        file.seek(0)
        assert file.read() == content
    assert (stamp(f"{site.url}/x").size, exists(f"{site.url}/x"), exists(f"{site.url}/y")) == (len(content), True, False)


def test_open_file__asks_for_what_it_needs_alone(site: Site) -> None:
    site.files["/x"] = many()
    with open_file(f"{site.url}/x") as file:
        file.seek(-8, io.SEEK_END)
        file.read()
    ranges = [asked for _, _, asked in site.asked]
    assert ranges == [f"bytes=0-{web.BLOCK - 1}", f"bytes={len(many()) - 8}-{len(many()) - 1}"]


@pytest.mark.parametrize("manners", MANNERS, ids=in_words)
def test_stamp__changes_with_the_file(site: Site, manners: set[str]) -> None:
    site.files["/x"], site.manners = b"one", manners
    first = stamp(f"{site.url}/x")
    assert (stamp(f"{site.url}/x"), first.size, bool(first.etag)) == (first, 3, True)
    site.files["/x"] = b"two"
    assert stamp(f"{site.url}/x") != first


@pytest.mark.parametrize("manners", MANNERS, ids=in_words)
def test_inputs__have_the_rows_of_the_files_that_are_served(site: Site, manners: set[str], tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": [1, 2, 3], "site": ["a", "b", None], "x": [0.5, None, -1.0]})
    OrcOutput().write(Part(frame), {}, str(tmp_path / "x.orc"))
    text = frame.write_csv().encode()
    site.files = {
        "/x.csv": text,
        "/x.csv.gz": gzip.compress(text),
        "/x.jsonl": frame.write_ndjson().encode(),
        "/x.parquet": parquet(frame),
        "/x.orc": (tmp_path / "x.orc").read_bytes(),
    }
    site.manners = manners
    served: list[tuple[type[InputFormat], str]] = [
        (CsvInput, "x.csv"),
        (JsonlInput, "x.jsonl"),
        (ParquetInput, "x.parquet"),
        (OrcInput, "x.orc"),
    ]
    served += [] if "gzip" in manners else [(CsvInput, "x.csv.gz")]
    for kind, name in served:
        reader = kind.model_validate({"path": f"{site.url}/{name}", "parts": 2}).pinned()
        rows = pl.concat([evaluate(Step("read", "x", source=source), "cpu").frame for source in reader.sources(2)])
        assert rows.rows() == frame.rows()
        assert reader.table_schema().columns == rows.schema


def test_job__reads_its_inputs_over_http_and_notices_what_changes(site: Site, tmp_path: Path) -> None:
    site.files = {
        "/a.csv": b"id,site\n1,a\n2,b\n",
        "/b.csv": b"id,site\n3,a\n",
        "/sites.parquet": parquet(pl.DataFrame({"site": ["a", "b"], "height": [10.0, 20.0]})),
    }
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path, url=site.url))
    job = load(tmp_path / "job.yaml", report=False)
    run = job.run()
    assert run.table("placed").to_polars().rows() == [(1, "a", 10.0), (2, "b", 20.0), (3, "a", 10.0)]
    reader = job.plan().job.inputs["sheet"].reader
    seen = stamps_of(reader)
    need_unchanged(seen)
    site.files["/a.csv"] = b"id,site\n1,a\n2,a\n"
    with pytest.raises(DataError, match=r"/a\.csv: was written anew since the job was planned"):
        need_unchanged(seen)
    del site.files["/b.csv"]
    with pytest.raises(DataError, match=r"/b\.csv\?version=2: was removed since the job was planned"):
        need_unchanged({file: known for file, known in seen.items() if "/b.csv" in file})


def test_open_file__notices_a_file_that_is_written_anew_while_it_is_read(site: Site) -> None:
    site.files["/x"] = many()
    with open_file(f"{site.url}/x") as file:
        file.read(10)
        site.files["/x"] = many()[::-1]
        file.seek(2 * web.BLOCK)
        with pytest.raises(OSError, match="the server answers 412 Precondition Failed: the file was written anew while it was read"):
            file.read(10)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_known__asks_a_busy_server_again(site: Site, status: int) -> None:
    site.files["/x"] = b"abc"
    site.answers = [status] * (web.TRIES - 1)
    assert stamp(f"{site.url}/x").size == 3
    assert len(site.asked) == web.TRIES


@pytest.mark.parametrize(
    ("manners", "path", "said"),
    [
        (set(), "none.csv", "none.csv: no such file. Is the path right"),
        ({"500"}, "x.csv", "x.csv: cannot be reached (the server answers 500 Internal Server Error)."),
        ({"403"}, "x.csv", "x.csv: cannot be reached (the server answers 403 Forbidden)."),
        ({"slow"}, "x.csv", "x.csv: cannot be reached (no answer within 0.2 s)."),
        ({"cut"}, "x.csv", "x.csv: cannot be reached (IncompleteRead("),
        (set(), "*.csv", "*.csv: no such file, and no pattern: an HTTP server does not list its files. List them in the job."),
        (
            {"no ranges"},
            "x.vcf",
            "x.vcf: is read piece by piece, and the server gives no ranges: asked for one byte, it sends the whole file.",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_job__says_in_a_line_what_is_wrong_with_a_server(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manners: set[str], path: str, said: str
) -> None:
    site.files, site.manners = {"/x.csv": b"id\n1\n", "/x.vcf": b"##fileformat=VCFv4.2\n"}, manners
    site.answers = [int(name) for name in manners if name.isdigit()] * 99
    if "slow" in manners:
        monkeypatch.setattr(web, "TIMEOUT_S", 0.2)
    kind = path.rpartition(".")[2]
    job = f"job: x\nresults: {tmp_path}/results\ninputs:\n  t: {{format: {kind}, path: '{site.url}/{path}'}}\noutputs:\n  t: {{from: t}}\n"
    (tmp_path / "job.yaml").write_text(job)
    ended = run_main(str(tmp_path / "job.yaml"), "--check")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert said in ended.err


def test_open_file__of_a_server_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PAUSE_S", 0.0)
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9/x: cannot be reached \(.*Connection refused\)"):
        open_file("http://127.0.0.1:9/x")


def test_stamp__refuses_a_password_and_does_not_show_it() -> None:
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9/x: a password in a URL would stand in records and errors") as raised:
        stamp("http://me:hidden@127.0.0.1:9/x")
    assert "hidden" not in str(raised.value)


def test_opened__of_an_empty_file_is_empty(site: Site) -> None:
    site.files["/x"], site.answers = b"", [416]
    assert open_file(f"{site.url}/x").read() == b""
    with pytest.raises(InputError, match=r"/x: the file is empty"):
        CsvInput.model_validate({"path": f"{site.url}/x"}).files()
