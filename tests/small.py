"""A small genomics job with its files, and the command line on it, for tests that run whole jobs: 60 variants, 64 people, 0.2 s a run."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pipeline.run import main

ROOT = Path(__file__).parents[1]
VARIANTS, PEOPLE = 60, 64
JOB = """\
job: small
seed: 7
results: results
inputs:
  cohort: {format: vcf, path: cohort.vcf}
  sheet:
    format: csv
    path: sheet.csv
    columns: {sample_id: string, age: float64, ldl: float64, population: string}
stages:
  - {use: variant_qc, from: cohort, as: passed, min_call_rate: 0.5, min_maf: 0.01}
  - {use: join, from: {left: cohort.samples, right: sheet}, as: people, on: sample_id, how: left}
  - {use: derive, from: people, as: older, columns: {decades: age / 10}}
  - {use: linear_gwas, from: {genotypes: passed, samples: older}, as: gwas, traits: [ldl], covariates: [decades]}
outputs:
  associations: {from: gwas, sort_by: p_value}
  people: {from: older}
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, and what it said."""

    code: int
    out: str
    err: str


def write_small_job(folder: Path) -> Path:
    """Write job.yaml, cohort.vcf and sheet.csv; returns the job's path. Its own paths are relative to the folder."""
    random = np.random.default_rng(20261121)
    names = [f"s{number:02d}" for number in range(PEOPLE)]
    alleles = random.binomial(1, random.uniform(0.1, 0.5, (VARIANTS, 1, 1)), (VARIANTS, PEOPLE, 2))
    header = ["##fileformat=VCFv4.2", "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *names])]
    rows = [
        "\t".join([str(1 + row // 30), str(1000 + 10 * row), f"rs{row}", "A", "G", ".", "PASS", ".", "GT", *(f"{a}/{b}" for a, b in calls)])
        for row, calls in enumerate(alleles)
    ]
    (folder / "cohort.vcf").write_text("\n".join([*header, *rows]) + "\n")
    age, ldl = random.integers(20, 80, PEOPLE), random.normal(3, 1, PEOPLE) + alleles[7].sum(axis=1)
    lines = [f"{name},{age[i]},{ldl[i]:.3f},{'north' if i % 2 else 'south'}" for i, name in enumerate(names)]
    (folder / "sheet.csv").write_text("\n".join(["sample_id,age,ldl,population", *lines]) + "\n")
    (folder / "job.yaml").write_text(JOB)
    return folder / "job.yaml"


def published_job(folder: Path) -> Path:
    """A folder with the small job, its files and a published result."""
    write_small_job(folder)
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
    return folder


def copied(published: Path, folder: Path) -> Path:
    """A copy of such a folder, links kept, to be spoiled."""
    shutil.copytree(published, folder, symlinks=True, dirs_exist_ok=True)
    return folder


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, as a user does: messages then have short paths."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_main(*arguments: str) -> Ended:
    """The command line in this process; what it changes of the process is put back."""
    out, err = io.StringIO(), io.StringIO()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    hooks = sys.excepthook, sys.unraisablehook
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(arguments))
    except SystemExit as stop:
        code = int(str(stop.code))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.excepthook, sys.unraisablehook = hooks
    return Ended(code, out.getvalue(), err.getvalue())


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "pipeline.run", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def run_process(*arguments: str, **options: Any) -> Ended:
    """The same, waited for."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=300)
    return Ended(process.returncode, out, err)


def current_run(results: Path) -> Path:
    """The folder of the current run."""
    return (results / "current").resolve()


def last_record(results: Path) -> dict[str, Any]:
    """run.json of the newest run."""
    newest = max((results / "runs").iterdir())
    record: dict[str, Any] = json.loads((newest / "run.json").read_text())
    return record


def replace_in(path: Path, old: str, new: str) -> None:
    """Replace a text that must be there in a file, once."""
    text = path.read_text()
    assert old in text, f"{path}: no {old!r}"
    path.write_text(text.replace(old, new, 1))


def script(path: str) -> ModuleType:
    """A program of this repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module
