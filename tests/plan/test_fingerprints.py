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
from pipeline.plan.fingerprints import Fingerprints, digest, fields_of
from pipeline.plan.unchanged import stamps_of
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.join import Join


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


def keys_of(stage: Any) -> str:
    return digest(fields_of(stage))


@pytest.mark.parametrize("other", ["(a > 1)", "a>1", " a  >\n1 ", "a > 1 -- more than one", "((a) > (1))", '"a" > 1'])
def test_fingerprints__know_an_expression_by_what_it_says(other: str) -> None:
    def stages(text: str) -> list[Any]:
        return [
            Filter.model_validate({"where": text}),
            Derive.model_validate({"columns": {"more": text}}),
            Aggregate.model_validate({"by": "k", "compute": {"n": {"function": "size", "where": text}}, "having": text}),
            Join.model_validate({"on": "k", "where": text}),
            FillMissing.model_validate({"columns": ["a"], "method": "mean", "fit_where": text}),
        ]

    assert [keys_of(stage) for stage in stages(other)] == [keys_of(stage) for stage in stages("a > 1")]


@pytest.mark.parametrize("other", ["a >= 1", "a > 1.0", "a > '1'", "1 < a", "a > 1 and a > 1", "b > 1", "a > ", "'a > 1'"])
def test_fingerprints__tell_expressions_apart_that_may_give_other_values(other: str) -> None:
    assert keys_of(Derive.model_validate({"columns": {"x": other}})) != keys_of(Derive.model_validate({"columns": {"x": "a > 1"}}))


def test_fingerprints__know_parameters_as_they_are_read() -> None:
    spellings = [
        {"by": "k", "compute": {"n": "mean(x)"}},
        {"by": ["k"], "compute": {"n": {"function": "mean", "of": "x"}}, "having": None},
        {"by": ("k",), "compute": {"n": {"function": "mean", "of": "x", "where": None}}},
    ]
    assert len({keys_of(Aggregate.model_validate(spelling)) for spelling in spellings}) == 1


def test_fingerprints__do_not_take_a_column_named_like_an_expression_for_one() -> None:
    spellings = [{"by": "k", "compute": {"n": {"function": "mean", "of": text}}} for text in ("x+1", "x + 1")]
    assert len({keys_of(Aggregate.model_validate(spelling)) for spelling in spellings}) == 2
