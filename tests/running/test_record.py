"""run.json: what ran, where, with what, and how it ended."""

from __future__ import annotations

import json
import re
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.results.manifest import read_current
from pipeline.running.record import Account
from pipeline.tables.measured import Measured
from tests.small import PEOPLE, VARIANTS, current_run, inside, last_record, replace_in, run_main, write_small_job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_small_job(tmp_path)
    return tmp_path


def record_of(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    with inside(folder):
        ended = run_main("job.yaml", "--quiet", *arguments)
    assert ended.code == code, ended.err
    return last_record(folder / "results")


def test_record__says_what_ran_where_and_with_which_versions(folder: Path) -> None:
    record = record_of(folder, "--set", "stages.passed.min_maf=0.02")
    assert (record["status"], record["error"], record["backend"]) == ("done", None, "cpu")
    assert record["cluster"] == {"kind": "local", "workers": 1, "threads_per_worker": record["machine"]["cores"], "dask": False}
    assert record["machine"]["gpus"] == []
    assert record["versions"]["polars"] == version("polars") == pl.__version__
    assert {"python", "dask", "numpy"} <= set(record["versions"])
    started, finished = datetime.fromisoformat(record["started"]), datetime.fromisoformat(record["finished"])
    assert 0 < (finished - started).total_seconds() == pytest.approx(record["seconds"], abs=0.002)
    assert started.utcoffset() is not None
    assert record["job"]["stages"][0] == {"use": "variant_qc", "from": "cohort", "as": "passed", "min_call_rate": 0.5, "min_maf": 0.02}
    assert set(record["fingerprints"]) == {"cohort", "sheet", "passed", "people", "older", "gwas"}


def test_record__has_rows_bytes_parts_seconds_and_counts(folder: Path) -> None:
    record = record_of(folder, "--set", "inputs.cohort.parts=3")
    stages = record["stages"]
    assert list(stages) == ["passed", "people", "older", "gwas"]
    assert record["inputs"]["sheet"]["rows_out"] == PEOPLE
    assert record["inputs"]["cohort"]["parts"] == 3
    assert record["inputs"]["cohort"]["counts"]["records"] == VARIANTS
    gwas = stages["gwas"]
    assert (gwas["use"], gwas["rows_in"], gwas["rows_out"], gwas["parts"]) == ("linear_gwas", [None, PEOPLE], VARIANTS, 3)
    assert gwas["seconds"] > 0
    assert gwas["counts"]["people_ldl"] == PEOPLE
    assert stages["older"]["bytes"] == PEOPLE * (3 * 8 + 2 * 16)  # short texts lie in 16 bytes each
    assert stages["people"]["counts"] == {"matched": PEOPLE, "multiplied": 0, "lost": 0}
    assert stages["passed"]["counts"]["variants_out"] == VARIANTS


def test_counts_all__counts_every_stage(folder: Path) -> None:
    boundaries, every = record_of(folder)["stages"], record_of(folder, "--set", "counts=all")["stages"]
    assert boundaries["passed"]["rows_out"] is None, "fused with its reader"
    assert {name: stage["rows_out"] for name, stage in every.items()} == {
        "passed": VARIANTS,
        "people": PEOPLE,
        "older": PEOPLE,
        "gwas": VARIANTS,
    }
    assert (every["passed"]["rows_in"], every["older"]["rows_in"], every["gwas"]["rows_in"]) == (VARIANTS, PEOPLE, [VARIANTS, PEOPLE])


def test_rows__of_an_output_in_several_parts_add_up(folder: Path) -> None:
    replace_in(folder / "job.yaml", "{from: gwas, sort_by: p_value}", "{from: gwas}")
    record = record_of(folder, "--set", "inputs.cohort.parts=3")
    view = read_current(str(folder / "results"))
    assert view is not None
    assert sorted(entry.rows or 0 for entry in view.files if entry.path.startswith("associations/")) == [20, 20, 20]
    assert (record["stages"]["gwas"]["rows_out"], record["stages"]["gwas"]["parts"]) == (VARIANTS, 3)


def test_stages__whose_names_differ_by_a_number_are_timed_apart(folder: Path) -> None:
    """Dask takes keys such as top-10-x and top-20-x for tasks of one kind, top."""
    replace_in(folder / "job.yaml", "as: older", "as: people-10")
    replace_in(folder / "job.yaml", "samples: older", "samples: people-10")
    replace_in(folder / "job.yaml", "from: older", "from: people-10")
    replace_in(
        folder / "job.yaml", "outputs:", "  - {use: sort, from: gwas, as: people-20, by: [p_value]}\noutputs:\n  top: {from: people-20}"
    )
    with inside(folder):
        ended = run_main("job.yaml", "--json")
    tasks = {event["stage"]: event["tasks"] for event in map(json.loads, ended.out.splitlines()) if event["event"] == "stage"}
    plain = {event: tasks[event] for event in ("people-10", "people-20")}
    with inside(folder):
        names = (("people-10", "older"), ("people-20", "best"))
        text = (folder / "job.yaml").read_text()
        for old, new in names:
            text = text.replace(old, new)
        (folder / "job.yaml").write_text(text)
        again = run_main("job.yaml", "--json")
    other = {event["stage"]: event["tasks"] for event in map(json.loads, again.out.splitlines()) if event["event"] == "stage"}
    assert plain == {old: other[new] for old, new in names}


def test_secrets__are_nowhere_in_a_result(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("SHEET", "sheet.csv")
    replace_in(folder / "job.yaml", "seed: 7", "seed: 7\ndescription: ${STORE_PASSWORD}")
    replace_in(folder / "job.yaml", "path: sheet.csv", "path: ${SHEET}")
    record = record_of(folder)
    assert record["job"]["description"] == "${STORE_PASSWORD}"
    assert record["job"]["inputs"]["sheet"]["path"] == "sheet.csv"
    for path in current_run(folder / "results").rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes(), path
    assert "hunter2" not in "".join(capfd.readouterr())


def test_failed__has_status_error_and_times(folder: Path) -> None:
    lines = (folder / "sheet.csv").read_text().splitlines()
    (folder / "sheet.csv").write_text("\n".join([*lines, lines[1]]) + "\n")
    record = record_of(folder, code=1)
    assert record["status"] == "failed"
    assert re.fullmatch(r"job\.yaml:14:5: stages\.gwas: the samples table names 1 people twice, such as 's00'\. .*", record["error"])
    assert record["finished"] >= record["started"]
    assert record["job"]["job"] == "small"


def test_account__adds_pieces_up() -> None:
    account = Account("t", "csv", parts=9)
    for rows in (2, 3):
        account.add(Measured(rows, 10 * rows, 1, {}))
    assert (account.rows, account.bytes, account.parts) == (5, 50, 2)
