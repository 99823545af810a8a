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

from pipeline import registry
from pipeline.errors import JobError
from pipeline.report import finding
from pipeline.report.finding import Evidence, Finding, findings, sections
from pipeline.report.pieces import Note, Section

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
def test_findings__of_another_package_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch, name: str, told: str) -> None:
    register(monkeypatch, name)
    with pytest.raises(JobError, match=told):
        findings()


@pytest.mark.usefixtures("cleared")
def test_findings__of_another_package_stand_before_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "weather")
    importance = pl.LazyFrame({"feature": ["age"], "gain": [1.0]})
    evidence = Evidence({"wet": pl.LazyFrame({"day": [1], "snow": [2.0]}), "weights": importance}, {"model": {"auc": 0.5}})
    assert [section.title for section in sections(evidence)] == ["Feature importance: weights", "wet", "Metrics"]
