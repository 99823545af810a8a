"""A package of another project, installed: its stage and its format work in a job as ours do. tests/plugin is that package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "tests" / "plugin"
JOB = """\
job: clamped
inputs:
  visits: {format: tsv, path: visits.tsv, columns: {age: float64}}
stages:
  - {use: clamp, from: visits, as: plausible, columns: [age], low: 0, high: 120}
outputs:
  plausible: {from: plausible, format: tsv}
"""


def install(project: Path, site: Path) -> Path:
    """What installing leaves of a project in pyproject.toml, without a network or its build backend: the package, and who it is."""
    about = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = about["name"].replace("-", "_")
    if (project / package).is_dir():
        shutil.copytree(project / package, site / package)
    info = site / f"{package}-{about['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n", encoding="utf-8")
    groups = [(group, name, module) for group, names in about["entry-points"].items() for name, module in names.items()]
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{name} = {module}\n" for group, name, module in groups), encoding="utf-8")
    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on Python's path where the package is installed."""
    return install(PLUGIN, tmp_path_factory.mktemp("site"))


def run(*arguments: str, sites: list[Path], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Python where these folders, and this project, are on the path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*sites, ROOT]))}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_job__uses_a_stage_and_a_format_of_another_package(site: Path, tmp_path: Path) -> None:
    (tmp_path / "visits.tsv").write_text("id\tage\n1\t-3\n2\t40.5\n3\t\n4\t999\n", encoding="utf-8")
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    ended = run("-m", "pipeline.run", "job.yaml", "--quiet", sites=[site], folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    (written,) = (tmp_path / "results" / "clamped").glob("current/plausible/*.tsv")
    expected = pl.DataFrame({"id": [1, 2, 3, 4], "age": [0.0, 40.5, None, 120.0]})
    assert pl.read_csv(written, separator="\t").equals(expected)


def test_a_mistake_in_such_a_stage__is_told_with_its_place(site: Path, tmp_path: Path) -> None:
    (tmp_path / "visits.tsv").write_text("id\tage\n1\t2\n", encoding="utf-8")
    (tmp_path / "job.yaml").write_text(JOB.replace("[age]", "[aged]"), encoding="utf-8")
    ended = run("-m", "pipeline.run", "job.yaml", "--check", sites=[site], folder=tmp_path)
    assert ended.returncode == 2
    assert "job.yaml:5:56: stages.plausible.columns: the table has no column 'aged'. Did you mean 'age'?" in ended.stderr


def test_list_and_describe__show_them_and_list_imports_neither(site: Path) -> None:
    code = "import sys; from pipeline.job.describe import list_stages; print(list_stages()); print([n for n in sys.modules if 'acme' in n])"
    listed = run("-c", code, sites=[site]).stdout
    assert "acme_tables\n  clamp " in listed
    assert "  Numbers below `low` become `low`, those above `high` become `high`; missing stays missing.\n" in listed
    assert "parquet, pgen, pgs_catalog, plink, plink_sheet, regenie, sql, tsv, vcf" in listed
    assert "acme_tables.clamp" not in listed
    assert "  high: number or null, optional\n" in run("-m", "pipeline.run", "--describe", "clamp", sites=[site]).stdout
    assert "as an output: As csv, with tabs" in run("-m", "pipeline.run", "--describe", "tsv", sites=[site]).stdout
    assert '"stage_clamp"' in run("-m", "pipeline.run", "--schema", sites=[site]).stdout


@pytest.mark.parametrize(("name", "owner"), [("filter", "pipeline.stages.relational.filter"), ("clamp", "acme_tables.clamp")])
def test_a_name_that_is_taken__is_refused(name: str, owner: str, site: Path, tmp_path: Path) -> None:
    lines = ['name = "zebra"', 'version = "1"', '[project.entry-points."pipeline.stages"]', f'{name} = "zebra.stages"']
    (tmp_path / "pyproject.toml").write_text("\n".join(["[project]", *lines]), encoding="utf-8")
    ended = run("-m", "pipeline.run", "--list", sites=[site, install(tmp_path, tmp_path / "site")])
    assert ended.returncode == 2
    text = f"stage {name!r} of zebra.stages is already defined in {owner}: rename one of them"
    assert text in ended.stderr or f"stage {name!r} of {owner} is already defined in zebra.stages: rename one of them" in ended.stderr


def test_the_tests_of_such_a_package__pass_with_what_authors_are_given(site: Path, tmp_path: Path) -> None:
    shutil.copy(PLUGIN / "test_acme_tables.py", tmp_path)
    ended = run("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path), sites=[site], folder=tmp_path)
    assert ended.returncode == 0, ended.stdout
    assert "6 passed" in ended.stdout or "5 passed, 1 skipped" in ended.stdout
    assert "6 passed" in ended.stdout or "cudf_polars is not installed here" in ended.stdout
