"""A plan as text: what every stage makes new, changes and drops, and no column twice."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pipeline
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import packed_width
from tests.example_tables import GENOTYPES
from tests.small import inside

JOB = """\
job: tables
results: results
inputs:
  left: {format: parquet, path: left.parquet}
  right: {format: parquet, path: right.parquet}
stages:
  - {use: filter, from: left, as: kept, where: x > 1}
  - {use: derive, from: kept, as: more, columns: {double: x * 2, y: y * 0.5}}
  - {use: select, from: more, as: fewer, drop: [flag]}
  - {use: join, from: {left: fewer, right: right}, as: both, on: id, how: left}
  - {use: standardize, from: both, as: scaled, columns: [x]}
outputs:
  all: {from: scaled, format: parquet}
  some: {from: scaled, format: csv, columns: [id, x]}
"""


@pytest.fixture
def text(tmp_path: Path) -> str:
    rows = {"id": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1], "flag": [True] * 4}
    pl.DataFrame(rows).write_parquet(tmp_path / "left.parquet")
    pl.DataFrame({"id": [1], "z": ["one"]}).write_parquet(tmp_path / "right.parquet")
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    with inside(tmp_path):
        return pipeline.load("job.yaml").plan().explain()


def test_explain__says_inputs_whole_with_their_rows(text: str) -> None:
    assert re.search(r"input left \(parquet\): 4 rows, about \d+\.\d MB\n    id Int64, x Float64, y Int64, flag Boolean\n", text)


def test_explain__says_of_a_stage_what_is_new_changed_and_dropped(text: str) -> None:
    stages = {name: lines.splitlines() for name, lines in re.findall(r"^stage (\w+): .*\n((?:    .*\n)+)", text, re.MULTILINE)}
    said = {name: [line.strip() for line in lines] for name, lines in stages.items()}
    assert said["kept"] == ["columns as in left"]
    assert said["more"] == ["new: double Float64", "changed: y Int64 -> Float64", "as in kept: 3 columns"]
    assert said["fewer"] == ["dropped: flag", "as in more: 4 columns"]
    assert said["both"] == ["new: z String", "as in fewer: 4 columns"]
    assert said["scaled"][0] == "columns as in both"
    assert said["scaled"][1].startswith("scaled.fitted: ")


def test_explain__names_the_first_of_thousands_of_columns(tmp_path: Path) -> None:
    pl.DataFrame({f"x{at}": [1.0] for at in range(2_000)}).write_parquet(tmp_path / "wide.parquet")
    stage = "{use: derive, from: wide, as: more, columns: {y: x0 * 2}}"
    start = "job: j\nresults: r\ninputs: {wide: {format: parquet, path: wide.parquet}}\n"
    document = f"{start}stages: [{stage}]\noutputs: {{all: {{from: more}}}}\n"
    (tmp_path / "job.yaml").write_text(document, encoding="utf-8")
    with inside(tmp_path):
        text = pipeline.load("job.yaml").plan().explain()
    assert "x98 Float64, x99 Float64, and 1,900 more\n" in text
    assert "new: y Float64\n" in text
    assert max(map(len, text.splitlines())) < 1_500


PAIRS = """\
job: pairs
results: results
inputs:
  calls: {format: plink, path: calls.bed}
stages:
  - {use: variant_qc, from: calls, as: passed}
  - {use: relatedness, from: passed, as: unrelated}
  - {use: principal_components, from: unrelated, as: axes}
  - {use: principal_components, from: unrelated, as: more, method: randomized}
outputs:
  axes: {from: axes}
  more: {from: more}
"""


@pytest.mark.parametrize(("people", "seconds", "place"), [(21, "1 s", "in memory"), (5_400, "4 s", "0.1 GB of tiles on local disk")])
def test_explain__says_how_long_pairs_of_people_take(people: int, seconds: str, place: str, tmp_path: Path) -> None:
    calls = GENOTYPES.frame.select("chromosome", "base_pair_location", "variant_id", "ref", "alt")
    ids = pl.DataFrame({"sample_id": [f"p{i}" for i in range(people)]})
    write_plink(tmp_path / "calls", calls, ids, [np.zeros((calls.height, packed_width(people)), np.uint8)])
    (tmp_path / "job.yaml").write_text(PAIRS, encoding="utf-8")
    with inside(tmp_path):
        found = re.findall(r"^    pairs: (.*)$", pipeline.load("job.yaml").plan().explain(), re.MULTILINE)
    most = f"at most {people * (people - 1) // 2:,} of {people:,} people, each of {calls.height} variants: some"
    shared = "of one core, which all tasks share"
    assert found == [f"{most} 1 s {shared}", f"{most} {seconds} {shared}; the matrix {place}", "none, by the randomized method"]


def test_explain__says_the_columns_of_an_output(text: str) -> None:
    assert text.endswith(
        "output all: scaled\n    id Int64, x Float64, y Float64, double Float64, z String\noutput some: scaled\n    id Int64, x Float64"
    )
