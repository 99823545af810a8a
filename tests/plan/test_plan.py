"""Planning: what is refused and with which line, schemas that are those of the run, headers alone that are read, fingerprints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline
from pipeline.errors import InputError, JobError, PipelineError
from pipeline.plan.plan import Plan
from tests.small import inside, replace_in, write_small_job

JOB = """\
job: tables
inputs:
  left: {format: parquet, path: left.parquet}
  right: {format: parquet, path: right.parquet}
stages:
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write_small_job(tmp_path)
    return tmp_path


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    frame = pl.DataFrame(
        {"id": [1, 2, 3, 4], "text": ["a", "b", "c", "d"], "x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1], "flag": [True] * 4}
    )
    frame.write_parquet(tmp_path / "left.parquet")
    frame.select(pl.col("id").cast(pl.String), z="x").write_parquet(tmp_path / "right.parquet")
    return tmp_path


def planned(folder: Path, *stages: str, **overrides: Any) -> Plan:
    """The plan of a job of these stages, or of the folder's own."""
    if stages:
        (folder / "job.yaml").write_text(JOB + "".join(f"  - {stage}\n" for stage in stages))
    with inside(folder):
        return pipeline.load("job.yaml", **overrides).plan()


def test_schemas__of_every_table_are_those_of_the_run(small: Path) -> None:
    replace_in(
        small / "job.yaml", "  people: {from: older}", "".join(f"  {n}: {{from: {n}}}\n" for n in ("passed", "people", "older", "sheet"))
    )
    plan = planned(small)
    with inside(small):
        run = pipeline.load("job.yaml").run()
    for name in ("passed", "people", "older", "sheet"):
        assert run.table(name).to_polars().schema == plan.tables[name].columns
    assert plan.tables["cohort.samples"].columns == pl.Schema({"sample_id": pl.String()})
    assert plan.tables["passed"].columns.names()[:5] == ["chromosome", "base_pair_location", "variant_id", "ref", "alt"]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (
            ("{use: select, from: left, as: fewer, drop: [x]}", "{use: filter, from: fewer, as: some, where: x > 1}"),
            r"job\.yaml:7:49: stages\.some\.where: there is no column 'x'\. .*Known: flag, id, text, y",
        ),
        (
            ("{use: rename, from: left, as: named, columns: {x: weight}}", "{use: sort, from: named, as: some, by: [wieght]}"),
            r"job\.yaml:7:44: stages\.some\.by: .*no column 'wieght'\. Did you mean 'weight'\?",
        ),
        (
            ("{use: join, from: {left: left, right: right}, as: both, on: id}",),
            r"job\.yaml:6:\d+: stages\.both\.on: .*'id'.*Int64.*String",
        ),
        (
            ("{use: union, from: [left, right], as: all}",),
            r"job\.yaml:6:5: stages\.all: .*",
        ),
        (
            ("{use: filter, from: left, as: some, where: x + 1}",),
            r"job\.yaml:6:48: stages\.some\.where: a filter needs a condition, .* this is Float64",
        ),
        (("{use: filter, from: left, as: some, where: text > 1}",), r"job\.yaml:6:48: stages\.some\.where: .*"),
        (("{use: derive, from: left, as: some, columns: {m: sum(x)}}",), r"job\.yaml:6:50: stages\.some\.columns\.m: .*sum"),
        (
            ("{use: xgboost, from: left, as: model, key: id, target: y, objective: binary, split: flag, exclude: [text]}",),
            r"job\.yaml:6:\d+: stages\.model\.split: .*'flag'",
        ),
        (
            (
                "{use: split, from: left, as: divided, key: id, train: 0.5, validation: 0.25, test: 0.25}",
                "{use: xgboost, from: divided, as: model, key: id, target: y, objective: binary}",
            ),
            r"job\.yaml:7:5: stages\.model: .*'text'.*String.*",
        ),
        (
            (
                "{use: split, from: left, as: divided, key: id, train: 0.5, validation: 0.25, test: 0.25}",
                "{use: xgboost, from: divided, as: model, key: id, target: text, objective: regression}",
            ),
            r"job\.yaml:7:\d+: stages\.model\.target: .*'text'.*",
        ),
        (("{use: standardize, from: left, as: some, columns: [text]}",), r"job\.yaml:6:55: stages\.some\.columns: column 'text' is String"),
        (("{use: variant_qc, from: left, as: some}",), r"job\.yaml:6:5: stages\.some: .*has no calls .*vcf, plink, pgen or bgen input"),
        (("{use: select, from: left.samples, as: some, columns: [x]}",), r"job\.yaml:6:25: stages\.some\.from: .*'left\.samples'"),
    ],
)
def test_plan__refuses_what_does_not_fit_with_its_line(tables: Path, stages: tuple[str, ...], message: str) -> None:
    with pytest.raises(JobError, match=message) as refused:
        planned(tables, *stages)
    assert len(refused.value.problems) == 1
    assert "\n" not in str(refused.value)


def test_plan__tells_every_problem_and_none_that_only_follows(tables: Path) -> None:
    stages = (
        "{use: filter, from: left, as: wrong, where: nothing > 1}",
        "{use: sort, from: wrong, as: follows, by: [x]}",
        "{use: select, from: right, as: second, columns: [zz]}",
        "{use: filter, from: left, as: sound, where: x > 1}",
    )
    with pytest.raises(JobError, match="nothing") as refused:
        planned(tables, *stages)
    assert [problem.key for problem in refused.value.problems] == ["stages.wrong.where", "stages.second.columns"]


def test_plan__tells_input_and_stage_problems_together(tables: Path) -> None:
    (tables / "right.parquet").unlink()
    with pytest.raises(
        JobError, match=r"(?s)inputs\.right: right\.parquet: no such file.*stages\.wrong\.where: there is no column 'nothing'"
    ):
        planned(tables, "{use: filter, from: left, as: wrong, where: nothing > 1}", "{use: sort, from: right, as: follows, by: [x]}")
    with pytest.raises(InputError, match=r"^job\.yaml:4:\d+: inputs\.right: right\.parquet: no such file"):
        planned(tables, "{use: sort, from: right, as: follows, by: [x]}")


def test_plan__reads_headers_and_footers_alone(small: Path, tables: Path) -> None:
    """Bodies that cannot be read plan, and fail when they are run."""
    vcf = (small / "cohort.vcf").read_text()
    header = vcf[: vcf.index("\n", vcf.index("#CHROM")) + 1]
    (small / "cohort.vcf").write_text(header + "garbage that is no record\n")
    data = bytearray((tables / "left.parquet").read_bytes())
    data[4:200] = bytes(196)
    (tables / "left.parquet").write_bytes(data)
    write_job = f"  broken: {{format: parquet, path: {tables / 'left.parquet'}}}\nstages:\n"
    replace_in(small / "job.yaml", "stages:\n", write_job)
    replace_in(small / "job.yaml", "outputs:\n", "outputs:\n  broken: {from: broken}\n")
    plan = planned(small)
    assert plan.rows == {"cohort": None, "sheet": None, "broken": 4}
    with inside(small), pytest.raises(PipelineError, match=r"record|Parquet|broken"):
        pipeline.load("job.yaml").run()


def test_ordered__stages_may_stand_in_any_order(tables: Path) -> None:
    plan = planned(tables, "{use: sort, from: some, as: last, by: [x]}", "{use: filter, from: left, as: some, where: x > 1}")
    assert [stage.spec.name for stage in plan.stages] == ["some", "last"]


def test_fingerprints__change_with_what_counts_and_not_otherwise(small: Path) -> None:
    base = dict(planned(small).fingerprints)

    def changed(**overrides: Any) -> set[str]:
        found = planned(small, **overrides).fingerprints
        return {name for name in base if found[name] != base[name]}

    assert changed() == set()
    assert changed(results="elsewhere", job="other", cluster="local", counts="all", report=False) == set()
    assert changed(stages__gwas__traits=["age"]) == {"gwas"}
    assert changed(stages__passed__min_maf=0.02) == {"passed", "gwas"}
    assert changed(stages__older__columns={"decades": "age / 5"}) == {"older", "gwas"}
    assert changed(seed=8) == {"passed", "people", "older", "gwas"}
    stat = (small / "sheet.csv").stat()
    os.utime(small / "sheet.csv", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert changed() == {"sheet", "people", "older", "gwas"}


def test_a_file_that_a_stage_reads__is_refused_by_its_parameter_where_it_is_not_there(tables: Path) -> None:
    stage = "{use: score, from: left, as: scored, model: none.json}"
    coverage = "{use: coverage, from: left, as: deep, reference: none.fa}"
    with pytest.raises(JobError, match=r"stages\.deep\.reference: none\.fa: there is no such file; check the path"):
        planned(tables, coverage)
    with pytest.raises(JobError, match=r"none\.json: (there is )?no such file"):
        planned(tables, stage)
