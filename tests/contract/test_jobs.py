"""A job is planned for a GPU on a machine that has none: the shipped ones pass, and what cuDF cannot run is refused with its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline.backend.devices
from pipeline.api import load
from pipeline.backend.devices import choose_backend
from pipeline.backend.engines import engine
from pipeline.errors import JobError, PlaceError
from pipeline.job.load import load as load_job
from pipeline.plan.plan import make_plan
from pipeline.run import main

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
AFTER_LOANS = {"score", "search"}  # they want what jobs/loans.yaml publishes
SHIPPED = sorted(path for path in (ROOT / "jobs").glob("*.yaml") if path.stem not in AFTER_LOANS)
NEEDS = {
    "align": ("mappy", "pysam"),
    "family": (),
    "images": ("PIL", "flax"),
    "imputed": (),
    "matrix": (),
    "simulation": (),
}  # what a job's stages want instead of xgboost
AWAY = "{address: tcp://192.0.2.1:8786, insecure: true}"  # nobody answers there, and planning asks nobody
JOB = """
job: angles
backend: gpu
cluster: {cluster}
results: {folder}/results
inputs:
  points: {{path: {folder}/{file}, format: {format}}}
stages:
  - use: derive
    from: points
    as: turned
    columns: {{angle: "{expression}"}}
outputs:
  turned: {{from: turned}}
"""


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(pipeline.backend.devices, "_visible_gpus", list)


def job_file(folder: Path, expression: str = "x + y", cluster: str = AWAY, file: str = "points.csv") -> str:
    """A job of one derive over a small file: CSV, also compressed, or Parquet with a column of bytes."""
    text = b"x,y\n1.0,2.0\n"
    if file.endswith(".parquet"):
        pl.DataFrame({"x": [1.0], "y": [2.0], "bytes": [b"ab"]}).write_parquet(folder / file)
    else:
        (folder / file).write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    job, kind = folder / "job.yaml", "parquet" if file.endswith(".parquet") else "csv"
    job.write_text(JOB.format(folder=folder, expression=expression, cluster=cluster, file=file, format=kind), encoding="utf-8")
    return str(job)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_job__is_planned_for_a_gpu_as_for_a_cpu(path: Path) -> None:
    for library in NEEDS.get(path.stem, ("xgboost",)):
        pytest.importorskip(library)
    job = load_job(str(path), {})
    on_gpu, on_cpu = make_plan(job, "gpu"), make_plan(job, "cpu")
    assert on_gpu.backend == "gpu"
    assert on_gpu.tables == on_cpu.tables


def test_a_job_for_workers_elsewhere__is_planned_without_a_gpu(tmp_path: Path) -> None:
    plan = load(job_file(tmp_path)).plan()
    assert plan.backend == "gpu"
    assert plan.tables["turned"].columns["angle"] == pl.Float64


def test_a_job_for_this_machine__is_refused_without_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(PlaceError, match=r"backend gpu: this machine shows no NVIDIA GPU\. Use backend: cpu, or cluster"):
        load(job_file(tmp_path, cluster="local")).plan()


def test_a_job_for_this_machine__is_checked_and_explained_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = "note: this machine shows no NVIDIA GPU, and so cannot run it: a machine that has one can"
    for cluster in ("local", "cuda", "{}"):
        path = job_file(tmp_path, cluster=cluster)
        for what in ("--check", "--explain"):
            assert main([path, what]) == 0
            assert note in capsys.readouterr().out
        assert main([path]) == 2
    assert main([path, "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lacks"] == note.removeprefix("note: ")
    assert main([job_file(tmp_path), "--check"]) == 0
    assert "note" not in capsys.readouterr().out


def test_all_that_cudf_cannot_run__is_said_at_once(tmp_path: Path) -> None:
    path = job_file(tmp_path, "atan2(x, y)")
    behind = "  - {use: derive, from: turned, as: told, columns: {text: cast(angle as varchar)}}\n"
    text = Path(path).read_text(encoding="utf-8")
    Path(path).write_text(text.replace("outputs:", f"{behind}outputs:").replace("{from: turned}", "{from: told}"), encoding="utf-8")
    with pytest.raises(JobError, match=r"(?s)stages\.turned: cuDF cannot run.*stages\.told: cuDF cannot run.*floats with other digits"):
        load(path).plan()


def test_an_expression_that_cudf_cannot_run__is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job_file(tmp_path, "atan2(x, y)")
    with pytest.raises(JobError, match=r"job\.yaml:9:\d+: stages\.turned.*cuDF cannot run this stage's query.*Use backend: cpu"):
        load(path).plan()
    assert main([path, "--check"]) == 2
    shown = capsys.readouterr().err
    assert "cuDF cannot run" in shown
    assert "Traceback" not in shown


def test_an_input_that_cudf_cannot_read__is_refused_with_its_line(tmp_path: Path) -> None:
    path = job_file(tmp_path, file="points.parquet")
    with pytest.raises(JobError, match=r"job\.yaml:7:\d+: inputs\.points: backend gpu: cuDF cannot read this.*Binary.*Use backend: cpu"):
        load(path).plan()
    assert load(path, backend="cpu", cluster="local").plan().backend == "cpu"


def test_a_gzipped_csv__is_planned_for_a_gpu(tmp_path: Path) -> None:
    assert load(job_file(tmp_path, file="points.csv.gz")).plan().backend == "gpu"


def test_auto__takes_the_cpu_where_no_gpu_shows_and_the_gpu_where_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_backend("auto") == "cpu"
    monkeypatch.setattr(pipeline.backend.devices, "_visible_gpus", lambda: ["0"])
    assert choose_backend("auto") == "gpu"
    assert choose_backend("auto", workers_elsewhere=True) == "cpu"
    assert choose_backend("gpu") == "gpu"


def test_the_engine_of_a_gpu_task__raises_and_uses_the_workers_own_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    import rmm

    here: Any = object()
    monkeypatch.setattr(rmm.mr, "get_current_device_resource", lambda: here)
    made = engine("gpu")
    assert made.memory_resource is here
    assert made.config == {"executor": "in-memory", "raise_on_fail": True}
    assert engine("cpu") == "streaming"
