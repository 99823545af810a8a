"""Certificates: what a result rests on, by content; and runs that are done again from their record."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl
import pytest

from pipeline import api
from pipeline.results.store import open_store
from pipeline.running import certificate
from pipeline.running.certificate import known_digests
from tests.small import inside, run_main

OLD = 1_700_000_000 * 10**9
JOB = """\
job: sums   # and this is a comment
seed: 3
results: results
inputs:
  rows: {format: csv, path: rows.csv}
stages:
  - {use: aggregate, from: rows, as: sums, by: [k], compute: {x: sum(x)}}
outputs:
  sums: {from: sums, sort_by: k}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a job that has run, which the test works in."""
    (tmp_path / "job.yaml").write_text(JOB)
    write("k,x\na,1.5\nb,2.25\na,4\n", tmp_path)
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet").code == 0
        yield tmp_path


def write(text: str, folder: Path) -> None:
    """Write the job's input, as if it were of long ago."""
    (folder / "rows.csv").write_text(text)
    os.utime(folder / "rows.csv", ns=(OLD, OLD + len(text)))


def published(name: str) -> Any:
    return json.loads((Path("results/current") / name).read_text())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_certificate__has_the_checksums_of_what_was_read_and_written(folder: Path) -> None:
    found = published("certificate.json")
    file, output = folder / "rows.csv", next((folder / "results" / "current" / "sums").iterdir())
    assert found["inputs"] == {
        "rows": [{"path": "rows.csv", "bytes": file.stat().st_size, "sha256": sha256(file), "changed": file.stat().st_mtime_ns}]
    }
    assert found["outputs"] == {"sums/part-00000.parquet": {"rows": 2, "sha256": sha256(output)}}
    assert (found["seed"], found["stages"]["sums"].split()[0], found["versions"]["polars"]) == (3, "aggregate", pl.__version__)


def test_certificate__is_among_the_checked_files(folder: Path) -> None:
    path = folder / "results" / "current" / "certificate.json"
    path.write_text(path.read_text().replace("aggregate", "aggregatE"))
    assert "certificate.json has another checksum" in run_main("--verify", "results").err


@pytest.mark.usefixtures("folder")
def test_certificate__has_another_plan_only_where_the_result_may_be_another() -> None:
    plan = published("certificate.json")["plan"]
    cases = ((["job=other"], True), (["inputs.rows.parts=2"], True), (["seed=4"], False), (["outputs.sums.sort_by=x"], False))
    for changed, same in cases:
        assert run_main("job.yaml", "--quiet", *(word for text in changed for word in ("--set", text))).code == 0
        assert (published("certificate.json")["plan"] == plan) == same, changed


def test_inputs__are_hashed_once_while_they_stay_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, hashing = list[str](), certificate.sha256_of

    def sha256_of(path: Path, stop: Event) -> str:
        read.append(path.name)
        return hashing(path, stop)

    monkeypatch.setattr(certificate, "sha256_of", sha256_of)
    before = published("certificate.json")["inputs"]
    assert (run_main("job.yaml", "--quiet").code, read) == (0, [])
    assert published("certificate.json")["inputs"] == before
    write("k,x\nc,1\n", folder)
    assert (run_main("job.yaml", "--quiet").code, read) == (0, ["rows.csv"])
    assert published("certificate.json")["inputs"]["rows"][0]["sha256"] == sha256(folder / "rows.csv")


def test_inputs__that_changed_just_before_a_run_are_hashed_again(folder: Path) -> None:
    (folder / "rows.csv").write_text("k,x\nd,1\n")
    assert run_main("job.yaml", "--quiet").code == 0
    assert known_digests(open_store("results")) == {}


def test_replay__of_what_has_not_changed_gives_the_same_bytes_and_leaves_no_run(folder: Path) -> None:
    runs = sorted((folder / "results" / "runs").iterdir())
    ended = run_main("--replay", "results")
    assert (ended.code, ended.out.splitlines()[0]) == (0, "sums: the same bytes")
    assert ended.out.splitlines()[-1].endswith("can be had again: every value is the same")
    assert sorted((folder / "results" / "runs").iterdir()) == runs


def test_replay__says_which_values_differ_and_which_input_is_another(folder: Path) -> None:
    write("k,x\na,1.5\nb,2.5\na,4\n", folder)
    ended = run_main("--replay", "results")
    assert (ended.code, ended.out.splitlines()[:2]) == (
        1,
        ["sums: x: 1 of 2 values differ, by 1.0e-01 of themselves at most", "otherwise now: input rows.csv has other content"],
    )


@pytest.mark.parametrize(
    ("rows", "said"), [("k,x\na,1.5\n", "sums: has 1 rows, and had 2"), ("k,x\na,1\nb,2\n", "sums: has other columns or types")]
)
def test_replay__says_how_a_table_is_another(folder: Path, rows: str, said: str) -> None:
    write(rows, folder)
    ended = run_main("--replay", "results")
    assert (ended.code, ended.out.splitlines()[0]) == (1, said)


@pytest.mark.usefixtures("folder")
def test_replay__of_other_parts_compares_values() -> None:
    found = api.replay("results", overrides=["inputs.rows.parts=2", "outputs.sums.compression=lz4"])
    assert (found.same, found.outputs) == (True, {"sums": "the same values in other bytes"})


def test_replay__takes_secrets_from_the_environment_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "c")
    asked = ["--set", "stages.sums={use: derive, from: rows, columns: {y: \"case when k = '${MY_TOKEN}' then 1 else 0 end\"}}"]
    assert run_main("job.yaml", "--quiet", *asked, "--set", "outputs.sums.sort_by=x").code == 0
    assert run_main("--replay", "results").code == 0
    path = folder / "results" / "current" / "run.json"
    record = json.loads(path.read_text())
    record["job"]["inputs"]["rows"]["token"] = "***"
    path.write_text(json.dumps(record))
    ended = run_main("--replay", "results")
    assert ended.code == 2
    assert "the job had a secret written out at inputs.rows.token, which no record keeps" in ended.err


@pytest.mark.usefixtures("folder")
def test_replay__delivers_nothing_a_second_time() -> None:
    from deltalake import DeltaTable

    asked = ("--set", "outputs.sums={from: sums, sort_by: k, format: delta, location: target, mode: append}")
    assert run_main("job.yaml", "--quiet", *asked).code == 0
    ended = run_main("--replay", "results")
    assert (ended.code, DeltaTable("target").version()) == (0, 0)
    assert ended.out.startswith("sums: the same")


def test_replay__of_a_run_without_certificate_says_so(folder: Path) -> None:
    (folder / "results" / "current" / "certificate.json").unlink()
    ended = run_main("--replay", "results")
    assert ended.code == 2
    assert "no certificate can be read there" in ended.err
