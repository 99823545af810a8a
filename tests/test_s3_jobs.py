"""Whole jobs with inputs and results in a bucket of S3: the bytes of tables, models and predictions are those of a folder's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pipeline.api import Run, load, open_run
from pipeline.errors import DataError
from pipeline.files import names
from pipeline.models import models_of
from pipeline.plan.unchanged import need_unchanged
from pipeline.results.champion import promote
from pipeline.results.manifest import verify
from pipeline.results.publish import RunFolder
from pipeline.results.store import open_store
from pipeline.running.execute import execute
from pipeline.running.signals import Interrupted
from tests.clusters.hosts import OF_THE_RUN
from tests.shipped import JOBS, ROOT, from_loans, planned, ran
from tests.small import inside, run_main, run_process, start, write_small_job

LOANS = ROOT / "data" / "loans"
GENOMICS = ROOT / "data" / "genomics"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder with the small job, which the test works in."""
    write_small_job(tmp_path)
    with inside(tmp_path):
        yield tmp_path


def upload(source: Path, target: str) -> None:
    """A file, or a folder with all that it holds, to a bucket."""
    fsspec.filesystem("s3").put(str(source), target, recursive=source.is_dir())


def contents(run: Run) -> dict[str, bytes]:
    """The files of tables, models and metrics, without the part of a name that is an attempt's own."""
    store = open_store(run.path)
    return {
        f"{entry.path.rsplit('-', 1)[0]}{Path(entry.path).suffix}": store.read(entry.path)
        for entry in run.view.files
        if entry.path not in OF_THE_RUN
    }


@pytest.mark.long
@pytest.mark.soak
def test_loans_job__gives_the_same_bytes_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    for name in ("loans", "performance"):
        upload(LOANS / name, f"{bucket}/data/{name}")

    def run(data: Any, results: str) -> Run:
        paths = {f"inputs__{name}__path": f"{data}/{name}" for name in ("loans", "performance")}
        return load(ROOT / "jobs" / "loans.yaml", results=results, cluster__dashboard=False, stages__lateness__rounds=20, **paths).run()

    there, here = run(f"{bucket}/data", f"{bucket}/results"), run(LOANS, str(tmp_path))
    assert contents(there) == contents(here)
    assert verify(there.path) == []
    promote(f"{bucket}/results")
    assert models_of(f"{bucket}/results")[0]["marks"] == ["champion", "current"]
    model = f"{there.path}/models/lateness.json"
    paths = {f"inputs__{name}__path": f"{bucket}/data/{name}" for name in ("loans", "performance")}
    scored = load(ROOT / "jobs" / "score.yaml", results=f"{bucket}/scores", stages__scores__model=model, **paths).run()
    assert scored.table("scores").to_polars().height


@pytest.mark.long
@pytest.mark.soak
def test_genomics_job__gives_the_same_bytes_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    """The genotypes, and the Parquet that they are kept as, lie in the bucket, too."""

    def run(data: str, results: str) -> Run:
        paths = {
            "inputs__cohort__path": f"{data}/cohort.vcf.gz",
            "inputs__cohort__import": True,
            "inputs__sheet__path": f"{data}/samples.csv",
        }
        return load(ROOT / "jobs" / "genomics.yaml", results=results, cluster__dashboard=False, **paths).run()

    upload(GENOMICS, f"{bucket}/data")
    here = contents(run(str(GENOMICS), str(tmp_path)))
    assert contents(run(f"{bucket}/data", f"{bucket}/results")) == here
    assert len(open_store(f"{bucket}/results").folders("imports")) == 1


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the loans job publishes in a folder."""
    place = tmp_path_factory.mktemp("loans")
    ran("loans", str(place))
    return place


@pytest.mark.soak
@pytest.mark.parametrize("job", JOBS)
def test_shipped_job__gives_the_same_bytes_in_a_bucket(job: str, bucket: str, loans: Path, tmp_path: Path) -> None:
    here = from_loans(job, str(loans))
    there: dict[str, Any] = {key: uploaded(Path(value), f"{bucket}/models") for key, value in here.items()}
    for name, entry in planned(job, **here).inputs.items():
        there[f"inputs.{name}.path"] = [uploaded(ROOT / path, f"{bucket}/data/{name}") for path in entry.reader.path]
    run = ran(job, f"{bucket}/results", **there)
    assert contents(run) == contents(ran(job, str(tmp_path), **here))
    assert verify(run.path) == []


def uploaded(file: Path, folder: str) -> str:
    """The URL of a file, once it is there, with what has its name (a model beside its JSON)."""
    for one in file.parent.glob(f"{file.stem}.*") if file.is_file() else ():
        upload(one, f"{folder}/{one.name}")
    return f"{folder}/{file.name}"


@pytest.mark.long
@pytest.mark.process
def test_small_job__of_two_processes_reads_and_writes_a_bucket_by_their_environment(bucket: str, small: Path) -> None:
    for name in ("sheet.csv", "cohort.vcf"):
        upload(small / name, f"{bucket}/in/{name}")
    there = ["--set", f"inputs.sheet.path={bucket}/in/*.csv", "--out", f"{bucket}/results", "--set", "inputs.cohort.import=true"]
    there += ["--set", f"inputs.cohort.path={bucket}/in/cohort.vcf"]
    workers = ["--set", "cluster.kind=local", "--set", "cluster.workers=2"]
    ended = run_process("job.yaml", "--quiet", *there, *workers, cwd=small)
    assert (ended.code, ended.err) == (0, "")
    assert run_main("job.yaml", "--quiet").code == 0
    assert contents(open_run(f"{bucket}/results")) == contents(open_run("results"))
    told = "".join(open_store(f"{bucket}/results").read(name).decode(errors="replace") for name in files_told(bucket))
    assert "made-up" not in told, "credentials stand nowhere"


def files_told(bucket: str) -> list[str]:
    """What says something of a run: its record, its report, the lock."""
    return [name for name in open_store(f"{bucket}/results").sizes("") if not name.endswith(".parquet")]


def test_results__that_cannot_be_reached_are_said_in_a_line(bucket: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{bucket}/results"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    fsspec.filesystem("s3").clear_instance_cache()
    asked: tuple[tuple[str, ...], ...] = (
        ("job.yaml", "--out", place),
        ("job.yaml", "--explain", "--out", place),
        ("--verify", place),
        ("--publish", f"{place}/runs/20261122T101312Z-3f2a9c"),
    )
    with inside(small):
        said = [run_main(*arguments) for arguments in asked]
    fsspec.filesystem("s3").clear_instance_cache()
    assert [(ended.code, ended.err.count("\n"), place in ended.err) for ended in said] == [(2, 1, True)] * 4
    assert all("Unable to locate credentials" in ended.err and "fault of the program" not in ended.err for ended in said)


def test_small_job__notices_a_file_of_a_bucket_that_changes_under_it(bucket: str, small: Path) -> None:
    sheet = f"{bucket}/in/sheet.csv"
    upload(small / "sheet.csv", sheet)
    plan = load("job.yaml", inputs__sheet__path=f"{bucket}/in").plan()
    need_unchanged(plan.stamps["sheet"])
    assert names(f"{bucket}/in") == ["sheet.csv"]
    other = fsspec.filesystem("s3", skip_instance_cache=True)  # which leaves the lists of files of this process's own as they are
    content = other.cat_file(sheet)
    other.pipe_file(sheet, content.replace(b"north", b"south"))
    with pytest.raises(DataError, match=rf"{sheet}: was written anew since the job was planned"):
        need_unchanged(plan.stamps["sheet"])
    assert names(f"{bucket}/in") == ["sheet.csv"]
    other.rm(sheet)
    with pytest.raises(DataError, match=rf"{sheet}: was removed since the job was planned"):
        need_unchanged(plan.stamps["sheet"])


@pytest.mark.process
def test_small_job__that_is_killed_leaves_a_place_that_the_next_run_tidies(bucket: str, small: Path) -> None:
    place = f"{bucket}/results"
    process = start("job.yaml", "--json", "--out", place, cwd=small)
    assert process.stdout is not None
    killed = str(json.loads(process.stdout.readline())["run"])
    process.kill()
    process.communicate(timeout=300)
    ended = run_main("job.yaml", "--quiet", "--out", place)
    assert (ended.code, ended.err) == (0, "")
    left = {name: list(open_store(place).sizes(f"runs/{name}")) for name in open_store(place).folders("runs")}
    assert left.pop(killed) == ["run.json"]
    assert json.loads(open_store(place).read(f"runs/{killed}/run.json"))["status"] == "died"
    assert list(left) == [open_run(place).view.id]


@pytest.mark.usefixtures("small")
def test_small_job__appends_in_a_bucket_and_keeps_the_files_of_another_run(bucket: str) -> None:
    options = ["--quiet", "--out", f"{bucket}/results", "--set", "outputs.people.append=true"]
    assert [run_main("job.yaml", *options).code for _ in range(2)] == [0, 0]
    found = open_run(f"{bucket}/results")
    assert found.table("people").to_polars().height == 128
    assert found.record["outputs"]["people"]["appended_to"]["rows"] == 64


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("environment", "path", "said"),
    [
        ({}, "s3://no-such-bucket-at-all/sheet.csv", "no such file. Is the path right, and may it be seen with the credentials here?"),
        (
            {"AWS_ACCESS_KEY_ID": ""},
            "BUCKET/sheet.csv",
            "cannot be reached (NoCredentialsError: Unable to locate credentials). Cred",
        ),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "BUCKET/sheet.csv", "cannot be reached ("),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, "BUCKET/sheet.csv", "name two services (http://127.0.0.1:9, http://"),
    ],
)
def test_small_job__says_in_a_line_what_is_wrong_with_a_bucket(
    bucket: str, environment: dict[str, str], path: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(Path("sheet.csv"), f"{bucket}/sheet.csv")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    fsspec.filesystem("s3").clear_instance_cache()
    ended = run_main("job.yaml", "--set", f"inputs.sheet.path={path.replace('BUCKET', bucket)}")
    fsspec.filesystem("s3").clear_instance_cache()
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
    assert "made-up" not in ended.err


@pytest.mark.usefixtures("small")
def test_small_job__that_another_run_overtakes_keeps_its_own_result(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{bucket}/results"
    options = ["job.yaml", "--json", "--out", place]
    other = list[Run]()

    def executed(*values: Any) -> Any:
        done = execute(*values)
        with monkeypatch.context() as patch:
            patch.setattr("pipeline.results.lease.LEASE_S", -1.0)
            patch.setattr("pipeline.api.execute", execute)
            patch.setattr(RunFolder, "_tidy", lambda *_: None)
            other.append(load("job.yaml", results=place).run())
        return done

    monkeypatch.setattr("pipeline.api.execute", executed)
    ended = run_main(*options)
    assert ended.code == 1
    assert f"another run published {other[0].view.id} while this one ran" in ended.err
    assert json.loads(ended.out.splitlines()[-1])["status"] == "done"
    assert open_run(place).view.id == other[0].view.id


def test_small_job__that_was_killed_goes_on_from_checkpoints_in_a_bucket(bucket: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (small / "job.yaml").read_text()
    for stage in ("passed", "gwas"):
        text = text.replace(f"as: {stage}, ", f"as: {stage}, checkpoint: true, ")
    (small / "job.yaml").write_text(text)

    def dead(*_: Any) -> Any:
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "commit", dead)
        assert run_main("job.yaml", "--quiet", "--out", f"{bucket}/results").code == 143
    assert run_main("job.yaml", "--quiet", "--out", f"{bucket}/results").code == 0
    assert run_main("job.yaml", "--quiet", "--out", "results").code == 0
    there = open_run(f"{bucket}/results")
    assert there.record["reused"]["gwas"] == "reused, 1 part of a checkpoint"
    assert contents(there) == contents(open_run("results"))
    there_again = run_main("job.yaml", "--out", f"{bucket}/results", "--set", "stages.gwas.coding=dominant")
    assert there_again.code == 0
    assert open_run(f"{bucket}/results").record["reused"]["passed"] == "reused, 1 part of a checkpoint"
    assert run_main("job.yaml", "--clean", "--yes", "--out", f"{bucket}/results").out.startswith(f"{bucket}/results: removed ")
    assert not any("/checkpoints/" in name for name in fsspec.filesystem("s3").find(f"{bucket}/results"))
