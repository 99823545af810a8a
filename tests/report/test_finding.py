"""Findings are found by being there, and are about the outputs that have their columns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

import pipeline
from pipeline import registry
from pipeline.errors import JobError
from pipeline.report import finding
from pipeline.report.finding import Evidence, Finding, check_findings, findings, sections
from pipeline.report.pieces import Note, Section
from tests.small import inside

JOB = """\
job: rows
results: results
inputs:
  rows: {format: csv, path: rows.csv}
stages:
  - {use: filter, from: rows, as: some, where: x >= 0}
outputs:
  all: {from: some}
"""
FOLDER = Path(finding.__file__).parent / "findings"


class Weather(Finding, name="weather"):
    columns = ("day",)
    any_of = ("rain", "snow")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        yield Section(output, [Note(", ".join(sorted(evidence.columns[output])))])


def register(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A package beside ours, which adds a finding by its entry point."""
    module = ModuleType("weather_report")
    vars(module)["Weather"] = type("Weather", (Weather,), {"__module__": "weather_report"})
    monkeypatch.setitem(sys.modules, "weather_report", module)
    points = {"pipeline.findings": [EntryPoint(name, "weather_report", "pipeline.findings")]}
    monkeypatch.setattr(registry, "entry_points", lambda group: points.get(group, []))
    monkeypatch.setattr(finding, "FINDINGS", replace(finding.FINDINGS))
    findings.cache_clear()


@pytest.fixture
def cleared() -> Iterator[None]:
    yield
    findings.cache_clear()


def test_findings__are_the_files_of_their_folder_in_the_order_of_the_page() -> None:
    modules = {type(one).__module__.rpartition(".")[2] for one in findings()}
    assert modules == {one.name for one in findings()} == {file.stem for file in FOLDER.glob("[a-z]*.py")}
    places = [one.place for one in findings()]
    assert places == sorted(set(places))


def test_finding__is_about_outputs_of_its_columns() -> None:
    weather = Weather()
    assert weather.applies({"day", "rain", "wind"})
    assert not weather.applies({"day", "wind"})
    assert not weather.applies({"rain", "snow"})
    assert not Finding().applies({"day"})
    tables = {"dry": pl.LazyFrame({"day": [1]}), "wet": pl.LazyFrame({"day": [1], "rain": [2.0]})}
    assert [section.title for section in weather.sections(Evidence(tables))] == ["wet"]


@pytest.mark.usefixtures("cleared")
@pytest.mark.parametrize(("name", "told"), [("metrics", "'metrics' of weather_report is already"), ("rain", "one finding named 'rain'")])
def test_findings__of_another_package_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    register(monkeypatch, name)
    with pytest.raises(JobError, match=told):
        findings()
    with pytest.raises(JobError, match=told):
        check_findings()
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "rows.csv").write_text("x\n1\n")
    with inside(tmp_path):
        with pytest.raises(JobError, match=told):
            pipeline.load("job.yaml").plan()
        assert pipeline.load("job.yaml", report=False).plan().tables


@pytest.mark.usefixtures("cleared")
def test_check_findings__names_a_package_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    register(monkeypatch, "weather")
    check_findings()
    monkeypatch.delitem(sys.modules, "weather_report")
    with pytest.raises(JobError, match="finding 'weather' of weather_report cannot be imported"):
        check_findings()
    (tmp_path / "weather_report.py").write_text("class Weather(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(JobError, match="finding 'weather' of weather_report cannot be imported: invalid syntax"):
        check_findings()


@pytest.mark.usefixtures("cleared")
def test_findings__of_another_package_stand_before_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "weather")
    importance = pl.LazyFrame({"feature": ["age"], "gain": [1.0]})
    evidence = Evidence({"wet": pl.LazyFrame({"day": [1], "snow": [2.0]}), "weights": importance}, {"model": {"auc": 0.5}})
    assert [section.title for section in sections(evidence)] == ["Feature importance: weights", "wet", "Metrics"]
