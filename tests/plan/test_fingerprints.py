"""Fingerprints: what changes them, what does not, and what they refuse to name."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pipeline.formats.csv import CsvInput
from pipeline.job.spec import StageSpec
from pipeline.job.yaml_tree import Place
from pipeline.plan.fingerprints import Fingerprints, digest
from pipeline.plan.unchanged import stamps_of
from pipeline.stages.relational.derive import Derive


def spec(columns: dict[str, str] | None = None, table: str = "sheet") -> StageSpec:
    stage = Derive.model_validate({"columns": columns or {"double": "x * 2", "half": "x / 2"}})
    return StageSpec("more", "derive", {"rows": table}, stage, Place(1, 1))


def found(path: Path, backend: str = "cpu", seed: int = 1, stage: StageSpec | None = None, **given: Any) -> dict[str, str]:
    prints = Fingerprints(backend, seed)
    reader = CsvInput.model_validate({"path": str(path), **given})
    prints.add_input("sheet", reader, stamps_of(reader))
    prints.add_stage(stage or spec(), {})
    return prints.found


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("x\n1\n")
    return tmp_path / "a.csv"


def test_fingerprints__of_stages_carry_the_backend_and_those_of_inputs_do_not(sheet: Path) -> None:
    cpu, gpu = found(sheet), found(sheet, backend="gpu")
    assert cpu["sheet"] == gpu["sheet"]
    assert cpu["more"] != gpu["more"]


def test_fingerprints__do_not_change_with_the_parts_or_how_a_path_is_written(sheet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = found(sheet)
    monkeypatch.chdir(sheet.parent)
    assert found(sheet, parts=7) == found(Path("a.csv")) == found(sheet.parent) == base


def test_fingerprints__change_with_the_file_the_reading_the_seed_and_the_parameters(sheet: Path) -> None:
    seen = [found(sheet)["more"], found(sheet, null_values=["-"])["more"], found(sheet, seed=2)["more"]]
    seen.append(found(sheet, stage=spec({"double": "x * 3", "half": "x / 2"}))["more"])
    seen.append(found(sheet, stage=spec({"half": "x / 2", "double": "x * 2"}))["more"])  # the order of new columns is that of the table
    os.utime(sheet, (1, 1))
    seen.append(found(sheet)["more"])
    assert len(set(seen)) == len(seen)


def test_digest__tells_values_of_other_types_apart() -> None:
    values = [None, 1, 1.0, True, "1", [1], {"1": 1}, {1: 1}, {1}, float("nan"), date(2020, 1, 1), "2020-01-01", [[1], 2], [1, [2]], {}]
    assert len({digest(value) for value in values}) == len(values)
    assert digest((1, 2)) == digest([1, 2])


@pytest.mark.process
def test_digest__of_a_set_is_the_same_in_every_process() -> None:
    code = "from pipeline.plan.fingerprints import digest; print(digest({'a', 'b', 'c', 'd', 'e'}))"
    runs = [subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True) for seed in "12"]
    assert runs[0].stdout == runs[1].stdout != b""


class Unnamed:
    """A value whose text holds its address."""


@pytest.mark.parametrize(
    ("value", "place"),
    [(Unnamed(), "the value"), ({"a": [1, {"b": Unnamed()}]}, r"a\[1\]\.b"), ([b"bytes"], r"\[0\]"), ({"f": print}, "f")],
)
def test_digest__refuses_what_it_cannot_name(value: Any, place: str) -> None:
    with pytest.raises(TypeError, match=rf"^{place} is a \S+, which no fingerprint can name: .* Give a parameter a type"):
        digest(value)
