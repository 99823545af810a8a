"""Runs that go on where one that was killed stood, and what of earlier runs is taken over: the answer is byte for byte the same."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline
from pipeline.plan.fingerprints import digest
from pipeline.results.checkpoints import Checkpoint
from pipeline.results.publish import RunFolder
from pipeline.results.remembered import Remembered
from pipeline.results.stage_limits import sizes
from pipeline.results.store import open_store
from pipeline.running.signals import Interrupted
from pipeline.tables.table import Table
from tests.small import VARIANTS, current_run, inside, last_record, run_main, start, write_small_job

KEPT = {"as: passed, ": "as: passed, checkpoint: true, ", "as: gwas, ": "as: gwas, checkpoint: true, "}


def small_job(folder: Path, changes: dict[str, str] = KEPT) -> Path:
    """The small genomics job, whose genotypes and scan are always kept."""
    write_small_job(folder)
    text = (folder / "job.yaml").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "job.yaml").write_text(text)
    return folder


def published(results: Path) -> dict[str, bytes]:
    """The outputs' files of the current run, by name without what is an attempt's own, and what it counted."""
    run = current_run(results)
    found = {f"{path.parent.name}/{path.name[:10]}": path.read_bytes() for path in sorted(run.glob("*/part-*"))}
    record = json.loads((run / "run.json").read_text())
    tables = {name: one["counts"] for name, one in record["stages"].items()}
    return found | {"metrics": (run / "metrics.json").read_bytes(), "stages": json.dumps(tables, sort_keys=True).encode()}


def killed_before_it_is_published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dead(*_: Any) -> Any:
        raise Interrupted

    with monkeypatch.context() as patched, inside(folder):
        patched.setattr(RunFolder, "commit", dead)
        assert run_main("job.yaml", "--quiet").code == 143


def test_a_run_that_was_killed__goes_on_from_the_last_table_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_job(tmp_path)
    with inside(folder):
        assert run_main("job.yaml", "--quiet", "--out", "whole", "--fresh").code == 0
    killed_before_it_is_published(folder, monkeypatch)
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
    record = last_record(folder / "results")
    assert (record["reused"]["gwas"], record["reused"]["passed"]) == (
        "reused, 1 part of a checkpoint",
        "reused, nothing that runs reads it",
    )
    assert (record["stages"]["passed"]["rows"], record["stages"]["gwas"]["parts"]) == (VARIANTS, 1)
    assert published(folder / "results") == published(folder / "whole")


def test_a_run_that_was_killed__goes_on_in_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_job(tmp_path)
    killed_before_it_is_published(folder, monkeypatch)
    with inside(folder):
        assert run_main("job.yaml", "--quiet", "--set", "inputs.cohort.parts=3").code == 0
        found = pipeline.open_run("results").table("associations").to_polars()
        assert "gwas" in last_record(folder / "results")["reused"]
        assert run_main("job.yaml", "--quiet", "--out", "other").code == 0
        assert found.equals(pipeline.open_run("other").table("associations").to_polars())


@pytest.mark.process
def test_a_run_that_is_killed_while_it_runs__goes_on(tmp_path: Path) -> None:
    folder = small_job(tmp_path)
    process = start("job.yaml", "--quiet", cwd=folder)
    ends = time.monotonic() + 300
    while not list(folder.glob("results/checkpoints/*/manifest.json")) and process.poll() is None:
        assert time.monotonic() < ends
        time.sleep(0.001)
    process.kill()
    process.communicate(timeout=300)
    with inside(folder):
        assert run_main("job.yaml", "--explain").code == 0
        assert run_main("job.yaml", "--quiet").code == 0
        assert run_main("job.yaml", "--quiet", "--out", "whole", "--fresh").code == 0
    assert published(folder / "results") == published(folder / "whole")


def test_the_same_job_again__has_nothing_to_do(tmp_path: Path) -> None:
    folder = small_job(tmp_path, {})
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        first = current_run(folder / "results")
        ended = run_main("job.yaml", "--set", "cluster={kind: local, workers: 2}")
        assert ended.out.startswith(f"nothing to do, run {first.name} has all of it")
        assert pipeline.load("job.yaml").run().view.id == first.name
        assert [path.name for path in (folder / "results" / "runs").iterdir()] == [first.name]
        assert run_main("job.yaml", "--quiet", "--fresh").code == 0
        assert current_run(folder / "results") != first


def test_one_changed_parameter__runs_what_is_downstream_alone(tmp_path: Path) -> None:
    folder = small_job(tmp_path)
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        former = published(folder / "results")
        change = ("--set", "stages.gwas.coding=dominant")
        explained = run_main("job.yaml", "--explain", *change).out
        assert 'stage gwas: linear_gwas of passed, older, to run: coding "additive" -> "dominant"' in explained
        assert "stage passed: variant_qc of cohort, reused, 1 part of a checkpoint" in explained
        assert "output people: older, reused, of run" in explained
        assert run_main("job.yaml", "--quiet", *change).code == 0
        assert run_main("job.yaml", "--quiet", *change, "--out", "whole").code == 0
    found = published(folder / "results")
    assert found == published(folder / "whole")
    assert found["people/part-00000"] == former["people/part-00000"]
    assert last_record(folder / "results")["stages"]["passed"]["seconds"] == 0


def test_explain__says_which_field_of_which_input_differs_first(tmp_path: Path) -> None:
    folder = small_job(tmp_path)
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        (folder / "sheet.csv").write_text((folder / "sheet.csv").read_text() + "s99,50,3.0,north\n")
        explained = run_main("job.yaml", "--explain").out
        assert "stage older: derive of people, to run: input sheet: size of " in explained
        assert "stage passed: variant_qc of cohort, reused, 1 part of a checkpoint" in explained
        assert "gwas: linear_gwas of passed, older, to run: --fresh" in run_main("job.yaml", "--explain", "--fresh").out


def test_another_spelling_of_the_same__has_nothing_to_do(tmp_path: Path) -> None:
    folder = small_job(tmp_path)
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        text = (folder / "job.yaml").read_text()
        other = (
            text.replace("age / 10", "(age/10)")
            .replace("traits: [ldl]", "traits: ldl, coding: additive")
            .replace("on: sample_id", "on: [sample_id]")
        )
        assert other.count("(age/10)") == other.count("traits: ldl, ") == other.count("on: [") == 1
        (folder / "job.yaml").write_text(other)
        assert "to run" not in run_main("job.yaml", "--explain").out
        (folder / "job.yaml").write_text(text.replace("age / 10", "age / 10.5"))
        assert "stage older: derive of people, to run: columns " in run_main("job.yaml", "--explain").out


def test_a_comment_and_another_name_of_the_job__change_nothing(tmp_path: Path) -> None:
    folder = small_job(tmp_path)
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        text = (folder / "job.yaml").read_text().replace("job: small", "# better\njob: other")
        (folder / "job.yaml").write_text(text)
        assert "to run" not in run_main("job.yaml", "--explain").out
        assert run_main("job.yaml", "--quiet").code == 0  # a page with the new name, and the same files
    assert set(last_record(folder / "results")["reused"]) == {"passed", "people", "older", "gwas"}


@pytest.mark.parametrize("harm", ["flipped", "torn", "missing", "foreign"])
def test_a_checkpoint_that_is_not_as_it_was_written__is_computed_again_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    folder = small_job(tmp_path)
    killed_before_it_is_published(folder, monkeypatch)
    kept = next(path for path in folder.glob("results/checkpoints/*") if list(path.glob("part-*.npy")))
    scan = next(path for path in folder.glob("results/checkpoints/*") if list(path.glob("part-*.arrow")) and path != kept)
    file = next(scan.glob("part-*.arrow"))
    if harm == "flipped":
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif harm == "torn":
        file.write_bytes(file.read_bytes()[:-9])
    elif harm == "missing":
        file.unlink()
    else:
        (scan / "manifest.json").write_bytes((kept / "manifest.json").read_bytes())
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        assert run_main("job.yaml", "--quiet", "--out", "whole").code == 0
    (warning,) = last_record(folder / "results")["warnings"]
    assert warning.startswith(f"checkpoint {scan.name}: ")
    assert warning.endswith("; what it held is computed again")
    assert "gwas" not in last_record(folder / "results")["reused"]
    assert published(folder / "results") == published(folder / "whole")


@pytest.mark.parametrize("order", [", sort_by: p_value", ""])
def test_parts_of_a_scan_that_was_killed__are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """Whether an output sorts them, or the tasks that write them are those that make and keep them: then no part waits in memory."""
    folder = small_job(tmp_path, KEPT | {"path: cohort.vcf": "path: cohort.vcf, parts: 3", ", sort_by: p_value": order})
    held, hold = list[str](), Table.hold

    def held_once(table: Table) -> Table:
        held.append(table.stage)
        return hold(table)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "hold", held_once)
        killed_before_it_is_published(folder, monkeypatch)
    assert ("gwas" in held) == bool(order)
    store = open_store(str(folder / "results"))
    scan = next(
        path for path in folder.glob("results/checkpoints/*") if len(list(path.glob("part-*.arrow"))) == 3 and not list(path.glob("*.npy"))
    )
    before = {path.name for path in scan.glob("part-*.arrow")}
    (scan / "manifest.json").unlink()
    next(scan.glob("part-00001*.json")).unlink()
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        assert run_main("job.yaml", "--quiet", "--out", "whole").code == 0
    assert published(folder / "results") == published(folder / "whole")
    after = {path.name for path in scan.glob("part-*.arrow")}
    assert len(after - before) == 1, "the one part that was lost is written anew"
    assert scan.name in sizes(store)


def test_what_is_cheap_to_make__is_not_kept(tmp_path: Path) -> None:
    folder = small_job(tmp_path, {})
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
    assert not (folder / "results" / "checkpoints").exists()


def test_checkpoints_beyond_the_limit__are_removed_those_first_that_were_not_used_for_longest(tmp_path: Path) -> None:
    folder = small_job(tmp_path)
    (folder / "job.yaml").write_text((folder / "job.yaml").read_text() + "checkpoints: {keep: 2}\n")
    with inside(folder):
        for maf in (0.01, 0.02, 0.03):
            assert run_main("job.yaml", "--quiet", "--set", f"stages.passed.min_maf={maf}").code == 0
    tables = {path.parent for path in folder.glob("results/checkpoints/*/part-*")}
    assert len(tables) == len([path for path in tables if (path / "manifest.json").exists()]) == 2
    with inside(folder):
        assert "stage passed: variant_qc of cohort, reused" in run_main("job.yaml", "--explain", "--set", "stages.passed.min_maf=0.03").out


def test_what_a_stage_learned__is_there_for_the_stages_behind_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame(
        {"id": range(300), "x": [None if i % 7 == 0 else i % 13 for i in range(300)], "y": [float(i % 5 > i % 3) for i in range(300)]}
    )
    rows.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text("""\
job: learned
results: results
inputs: {rows: {format: parquet, path: rows.parquet, parts: 3}}
stages:
  - {use: fill_missing, from: rows, as: filled, columns: [x], method: mean, checkpoint: true}
  - {use: split, from: filled, as: divided, key: id, train: 0.7, validation: 0.15, test: 0.15}
  - {use: linear, from: divided, as: risk, key: id, target: y, objective: binary}
outputs: {predictions: {from: risk, sort_by: id}}
""")
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet", "--out", "whole", "--fresh").code == 0
    killed_before_it_is_published(tmp_path, monkeypatch)
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet").code == 0
    assert "filled" in last_record(tmp_path / "results")["reused"]
    for name in ("models/risk.json", "metrics.json"):
        assert (current_run(tmp_path / "results") / name).read_bytes() == (current_run(tmp_path / "whole") / name).read_bytes()


def test_clean__says_what_it_would_remove_and_removes_it_when_told(tmp_path: Path) -> None:
    folder = small_job(tmp_path)
    with inside(folder):
        assert run_main("job.yaml", "--clean").out == "results: --yes would remove 0 checkpoints, 0.0 MB\n"
        assert run_main("job.yaml", "--quiet").code == 0
        said = run_main("job.yaml", "--clean").out
        assert said.startswith("results: --yes would remove ")
        assert "\n  gwas: 0.0 MB, made 20" in said
        assert json.loads(run_main("job.yaml", "--clean", "--json").out)["bytes"] > 10_000
        assert run_main("job.yaml", "--clean", "--yes").out == said.replace("--yes would remove", "removed")
        assert not (folder / "results" / "checkpoints").exists()
        assert run_main("job.yaml").out.startswith("nothing to do")


def test_fresh__forgets_how_far_a_training_had_come(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.make("checkpoints")
    for fresh, found in ((False, b"round 9"), (True, None)):
        remembered = Remembered.of(store, ["these rows"], digest, fresh=fresh)
        assert remembered is not None
        Checkpoint(store, remembered.checkpoint("risk").key).keep(b"round 9")
        remembered.keep("a trial", {"loss": 1.5})
        assert remembered.checkpoint("risk").last() == found
        assert remembered.find("a trial") == (None if fresh else {"loss": 1.5})


def test_a_stage_that_takes_secrets__always_runs(tmp_path: Path) -> None:
    pl.DataFrame({"x": [n % 7.0 for n in range(60)], "y": [n % 5.0 for n in range(60)]}).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text("""\
job: site
results: results
inputs: {rows: {format: parquet, path: rows.parquet}}
stages:
  - {use: site_sums, from: rows, as: sums, site: a, sites: [a, b], target: y, features: [x], study: s, secrets: {b: "${WITH_B}"}}
outputs: {sums: {from: sums}}
""")
    found = []
    with inside(tmp_path), pytest.MonkeyPatch.context() as patched:
        for digit in "12":
            patched.setenv("WITH_B", digit * 64)
            assert run_main("job.yaml", "--quiet").code == 0
            found.append(pipeline.open_run("results").table("sums").to_polars())
        assert "secrets changed" in run_main("job.yaml", "--explain").out
    assert not found[0].equals(found[1])
    assert "1" * 64 not in json.dumps(last_record(tmp_path / "results"))
