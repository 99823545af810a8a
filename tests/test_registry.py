"""Stages and formats are found by their names, each by one rule: ours and those of other packages."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import pipeline.registry
from pipeline.errors import JobError
from pipeline.format import InputFormat, OutputFormat
from pipeline.formats.csv import CsvInput
from pipeline.registry import FORMATS, STAGES, Registry, format_class, format_side, stage_class
from pipeline.stage import Stage

FOLDER = "acme_things"


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that stands where this project's would, named FOLDER; what is imported from it is forgotten."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    monkeypatch.setattr(pipeline.registry, "__file__", str(tmp_path / "pipeline" / "registry.py"))
    monkeypatch.setattr(pipeline.registry, "entry_points", lambda **_: [])
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == FOLDER]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def registered(monkeypatch: pytest.MonkeyPatch, **modules: str) -> Registry:
    """A registry of formats to which other packages add these names."""
    entries = [EntryPoint(name.rstrip("_"), value, "pipeline.formats") for name, value in modules.items()]
    monkeypatch.setattr(pipeline.registry, "entry_points", lambda group: entries if group == "pipeline.formats" else [])
    return Registry("format", "pipeline.formats", "pipeline.formats")


def write(folder: Path, **files: str) -> Registry:
    """The registry of a folder with these modules."""
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Registry("thing", FOLDER, "acme.things")


def test_modules__are_the_files_of_the_folder_but_helpers(things: Path) -> None:
    found = write(things, a="", _b="", in__in__c="", _help__in__d="", in__in____init__="").modules
    assert dict(found) == {"a": f"{FOLDER}.a", "c": f"{FOLDER}.in.c"}


def test_modules__two_files_of_one_name_are_refused(things: Path) -> None:
    found = write(things, one__in__filter="", two__in__filter="")
    text = rf"thing 'filter' of {FOLDER}\.two\.filter is already defined in {FOLDER}\.one\.filter: rename one of them"
    with pytest.raises(JobError, match=text):
        _ = found.modules


def test_modules__another_package_cannot_take_a_name_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registered(monkeypatch, csv="acme.text:Csv")
    with pytest.raises(JobError, match=r"format 'csv' of acme\.text is already defined in pipeline\.formats\.csv: rename one of them"):
        _ = found.modules


def test_modules__two_other_packages_cannot_have_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registered(monkeypatch, tsv="acme.tsv", tsv_="other.tsv")
    with pytest.raises(JobError, match=r"format 'tsv' of other\.tsv is already defined in acme\.tsv: rename one of them"):
        _ = found.modules
    assert registered(monkeypatch, tsv="acme.tsv", tsv_="acme.tsv").modules["tsv"] == "acme.tsv"


def test_defined__is_what_the_module_defines_itself_with_that_name(things: Path) -> None:
    base = "from pipeline.formats.csv import CsvInput\n"
    found = write(
        things,
        tsv=f"{base}class TsvInput(CsvInput):\n    name = 'tsv'\n\nAgain = TsvInput\n",
        borrowed=f"{base}CsvInput.__doc__\n",
        other=f"{base}class OtherInput(CsvInput):\n    name = 'another'\n",
    )
    assert [kind.__name__ for kind in found.defined("tsv", InputFormat)] == ["TsvInput"]
    assert found.defined("tsv", OutputFormat) == []
    assert found.defined("borrowed", InputFormat) == []
    assert found.defined("other", InputFormat) == []


def test_module__that_is_not_there_or_lacks_a_library_is_named(things: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = write(things, broken="import acme_without_which_nothing_works\n")
    with pytest.raises(JobError, match=r"there is no thing 'broke'\. Did you mean 'broken'\?"):
        found.module("broke")
    with pytest.raises(JobError, match=r"thing 'broken' of acme_things\.broken cannot be imported: No module named 'acme_without"):
        found.module("broken")
    for module in ("acme_absent.tsv", "acme_things.absent"):
        absent = registered(monkeypatch, tsv=module)
        with pytest.raises(JobError, match=rf"format 'tsv' of {module} cannot be imported: .*Install what it needs, or take its package"):
            absent.summary("tsv")


def test_summary__is_of_the_class_that_states_the_name_and_imports_nothing(things: Path) -> None:
    first = 'class Helper(Rows, name="other"):\n    """Not this."""\n'
    found = write(
        things, a=f'import nothing_at_all\n{first}class A(Rows, name="a"):\n    """This one.\n\n    More."""\n{first}', b="x = 1\n"
    )
    assert found.summary("a") == "This one."
    assert found.summary("b") == ""


def test_stage_class__is_the_one_of_its_file() -> None:
    for name in STAGES.modules:
        kind = stage_class(name)
        assert issubclass(kind, Stage)
        assert (kind.name, kind.__module__) == (name, STAGES.modules[name])
    with pytest.raises(JobError, match=r"there is no stage 'filtr'\. Did you mean 'filter'\?"):
        stage_class("filtr")


def test_stage_class__a_file_without_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(STAGES), "modules", {"errors": "pipeline.errors"})
    with pytest.raises(JobError, match=r"pipeline\.errors must define one stage named 'errors'; it defines 0"):
        stage_class("errors")


def test_format_class__reads_or_writes_or_says_which_can() -> None:
    assert format_class("csv", InputFormat) is CsvInput
    assert format_side("gtf", OutputFormat) is None
    with pytest.raises(
        JobError, match=r"format 'gtf' cannot be written\. Formats that can: .*parquet, pgen, pgs_catalog, plink, regenie, sql, vcf\."
    ):
        format_class("gtf", OutputFormat)
    with pytest.raises(JobError, match=r"there is no format 'vfc'\. Did you mean 'vcf'\?"):
        format_class("vfc", InputFormat)


def test_format_class__a_file_without_one_or_with_two_is_refused(things: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = "class {}(CsvInput):\n    name = 'tsv'\n"
    write(things, none="", tsv="from pipeline.formats.csv import CsvInput\n" + one.format("A") + one.format("B"))
    monkeypatch.setitem(vars(FORMATS), "modules", {"none": f"{FOLDER}.none", "tsv": f"{FOLDER}.tsv"})
    with pytest.raises(JobError, match=r"none must define an InputFormat or an OutputFormat with name = 'none'; it defines none"):
        format_class("none", InputFormat)
    with pytest.raises(JobError, match=r"tsv must define one InputFormat named 'tsv'; it defines 2"):
        format_class("tsv", InputFormat)
