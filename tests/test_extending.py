"""docs/extending.md, followed to the letter in a copy of the project: what it builds works, and passes what the project asks of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import ON_CPU

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
FILE = re.compile(r"^`([\w/]+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CASE = re.compile(r"^`(tests/gpu/test_kernels\.py)`, among.*:\n\n```python\n(.*\n)(.*\n)```$", re.MULTILINE)
SCHEMA = "import json; from pipeline.job.schema import job_schema; print(json.dumps(job_schema()))"
STAGES = "from pipeline.job.describe import stage_reference; print(stage_reference(), end='')"


def run(folder: Path, *arguments: str, **environment: str) -> str:
    """What Python says in the copy; it must end well."""
    whole: Mapping[str, str] = os.environ | {"PYTHONPATH": str(folder)} | environment
    ended = subprocess.run([sys.executable, *arguments], cwd=folder, env=whole, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    return ended.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the page's files, and the files that are made from the code made anew."""
    folder, page = tmp_path_factory.mktemp("project"), (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for name in ("pipeline", "tests", "data/alignment"):  # examples read the reference
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for path, text in FILE.findall(page):
        assert not (folder / path).exists(), f"{path} is there already"
        (folder / path).write_text(text, encoding="utf-8")
    ((path, imported, case),) = CASE.findall(page)
    kernels = (folder / path).read_text(encoding="utf-8")
    before, start, rest = kernels.partition("from pipeline.kernels import (\n")
    names, end, rest = rest.partition(")\n")
    kernels = before + start + "".join(sorted([*names.splitlines(keepends=True), imported])) + end + rest
    assert "\nCASES = {\n" in kernels
    kernels = kernels.replace("\nCASES = {\n", "\nCASES = {\n" + case, 1)
    (folder / path).write_text(kernels, encoding="utf-8")
    for path, code in (("jobs/schema.json", SCHEMA), ("docs/stages.md", STAGES)):
        (folder / path).parent.mkdir()
        (folder / path).write_text(run(folder, "-c", code), encoding="utf-8")
    return folder


def test_the_page__builds_a_stage_a_format_and_a_kernel_each_with_a_test() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    folders = [Path(path).parts[:2] for path, _ in FILE.findall(page)]
    assert folders == [(top, room) for room in ("stages", "formats", "kernels") for top in ("pipeline", "tests")]


def test_the_page__passes_its_own_tests_and_those_of_all_stages(project: Path) -> None:
    own = [path for path, _ in FILE.findall((ROOT / "docs" / "extending.md").read_text(encoding="utf-8")) if path.startswith("tests/")]
    chosen = (*own, "tests/job/test_schema.py", "tests/stages/test_examples.py", "-k", "not test_examples or share_of_total or every_stage")
    told = run(project, "-m", "pytest", "-v", "-p", "no:cacheprovider", *chosen)
    assert re.search(r"^=+ \d+ passed", told, re.MULTILINE), told
    examples = [line for line in told.splitlines() if line.startswith("tests/stages/test_examples.py::")]
    assert len(examples) == 5, told
    assert sum(" PASSED" in line for line in examples) >= 4, told


@pytest.mark.soak
def test_the_page__gives_its_kernel_a_case_on_a_gpu(project: Path) -> None:
    chosen = ("tests/gpu/test_kernels.py", "tests/kernels/test_gpu_cases.py", "-k", "entropy or every_kernel")
    told = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, **{ON_CPU: "1"})
    assert re.search("^2 passed", told, re.MULTILINE), told


def test_the_page__is_formatted_and_linted_as_the_project_is(project: Path) -> None:
    files = [path for path, _ in FILE.findall((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))]
    for check, said in ((("format", "--check"), f"{len(files) + 1} files already formatted"), (("check",), "All checks passed!")):
        assert said in run(project, "-m", "ruff", *check, "--no-cache", *files, "tests/gpu/test_kernels.py")


def test_the_page__works_in_a_job(project: Path, tmp_path: Path) -> None:
    (tmp_path / "loans.csv").write_text("id,state,balance\n1,a,1\n2,a,3\n", encoding="utf-8")
    lines = ["job: shared", "inputs: {loans: {format: csv, path: loans.csv}}", "stages:"]
    lines += ["  - {use: share_of_total, from: loans, as: shares, by: [state], column: balance}"]
    lines += ["outputs: {shares: {from: shares, format: feather, sort_by: id}}"]
    (tmp_path / "job.yaml").write_text("\n".join(lines), encoding="utf-8")
    code = "import os; from pipeline.run import main; os.chdir({!r}); assert main(['job.yaml', '--quiet']) == 0; import polars; "
    code += "print(polars.read_ipc('results/shared/current/shares/*.feather')['balance_share'].to_list())"
    assert run(project, "-c", code.format(str(tmp_path))) == "[0.25, 0.75]\n"
    assert "share_of_total" in run(project, "-m", "pipeline.run", "--list")
