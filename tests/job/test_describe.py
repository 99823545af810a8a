"""What --list, --describe and --schema say agrees with the stages and with the loader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pipeline.errors import JobError
from pipeline.job.describe import describe_stage, job_schema, list_stages
from pipeline.registry import STAGES, stage_class

ROOT = Path(__file__).parents[2]
TABLE = {"format": "csv", "path": "t.csv"}


def errors_of(document: Any) -> list[list[str | int]]:
    """Where a document does not fit the schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with the notebook extra")
    return [list(error.path) for error in jsonschema.Draft7Validator(job_schema()).iter_errors(document)]


@pytest.mark.process
def test_list_stages__names_every_stage_and_imports_none() -> None:
    assert {line.split()[0] for line in list_stages().splitlines() if line.startswith("  ")} == set(STAGES.modules)
    code = "import sys; from pipeline.job.describe import list_stages; list_stages(); print([n for n in sys.modules if n.count('.') > 2])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=ROOT).stdout
    assert "pipeline.stages" not in out


@pytest.mark.parametrize("name", sorted(STAGES.modules))
def test_list_stages__has_a_whole_sentence_for_each(name: str) -> None:
    assert STAGES.summary(name).endswith(".")


@pytest.mark.parametrize("name", sorted(STAGES.modules))
def test_describe_stage__has_every_parameter_with_its_meaning(name: str) -> None:
    text = describe_stage(name)
    for parameter, field in stage_class(name).model_fields.items():
        assert f"  {field.alias or parameter}: " in text
        assert field.description, f"{name}.{parameter} has no description"
    assert "anything" not in text


def test_describe_stage__says_types_ranges_and_defaults_in_words() -> None:
    text = describe_stage("variant_qc")
    assert "min_maf: number from 0 to 0.5, default 0.0" in text
    assert "from: {genotypes: TABLE, weights: TABLE}" in describe_stage("polygenic_score")
    assert "samples: TABLE, predictions: TABLE} (predictions may be left out)" in describe_stage("linear_gwas")
    assert "missing: complete_case | mean, default complete_case" in describe_stage("linear_gwas")
    assert "from: [TABLE, TABLE, ...]" in describe_stage("union")
    assert "      function: sum | mean" in describe_stage("aggregate")
    assert "\n\nexample:\n  - {use: ld_prune, from: passed, as: pruned, window_variants: 50" in describe_stage("ld_prune")


def test_describe_stage__tells_formats_too() -> None:
    text = describe_stage("csv")
    assert "as an input: " in text
    assert "as an output: " in text
    with pytest.raises(JobError, match=r"no stage or format 'variant_q'\. Did you mean 'variant_qc'\?"):
        describe_stage("variant_q")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("robust", "a value of method in rescale"),
        ("log", r"a function of expressions \(docs/expressions.md\), as in derive, and a value of parameters in search"),
        ("rolling_mean", "a value of compute in window"),
        ("hashed_cross", "a word of hash_bucket: The bucket of several columns is what is called a hashed cross"),
        ("fit_where", r"a parameter of bucketize, categorify, clip, .* and \d+ more"),
    ],
)
def test_describe_stage__says_where_a_name_is_that_is_no_stage(name: str, place: str) -> None:
    with pytest.raises(JobError, match=f"'{name}' is no stage and no format, but {place}"):
        describe_stage(name)


def test_job_schema__is_a_schema_that_names_every_stage() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with the notebook extra")
    schema = job_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    for name in STAGES.modules:
        part = schema["$defs"][f"stage_{name}"]
        assert part["properties"]["use"]["const"] == name
        assert part["description"]
        assert part["additionalProperties"] is False


@pytest.mark.parametrize("name", ["genomics", "loans"])
def test_job_schema__takes_the_shipped_jobs(name: str) -> None:
    assert errors_of(YAML(typ="safe", pure=True).load((ROOT / "jobs" / f"{name}.yaml").read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({}, None),
        ({"cluster": "cuda"}, None),
        ({"cluster": {"kind": "local", "workers": 2}}, None),
        ({"cluster": {"kind": "local", "worker": 2}}, ["cluster"]),
        ({"sede": 1}, []),
        ({"inputs": {"t": {**TABLE, "colums": {}}}}, ["inputs", "t"]),
        ({"inputs": {"t": {**TABLE, "format": "vfc"}}}, ["inputs", "t"]),
        ({"inputs": {"t": {**TABLE, "path": ["a", "b"]}}}, None),
        ({"stages": [{"use": "filter", "from": "t", "where": "a > 1"}]}, None),
        ({"stages": [{"use": "filter", "from": "t"}]}, ["stages", 0]),
        ({"stages": [{"use": "filter", "from": ["t"], "where": "a"}]}, ["stages", 0]),
        ({"stages": [{"use": "nope", "from": "t"}]}, ["stages", 0]),
        (
            {"stages": [{"use": "aggregate", "from": "t", "by": "a", "compute": {"n": "size()", "m": {"function": "mean", "of": "b"}}}]},
            None,
        ),
        ({"stages": [{"use": "variant_qc", "from": "t", "min_maf": 0.7}]}, ["stages", 0]),
        ({"stages": [{"use": "join", "from": {"left": "t", "right": "t"}, "on": "a"}]}, None),
        ({"stages": [{"use": "join", "from": "t", "on": "a"}]}, ["stages", 0]),
        ({"outputs": {"o": {"from": "t", "sort_by": "-a", "compression": "lz4"}}}, None),
        ({"outputs": {"o": {"from": "t", "format": "csv", "compression": "lz4"}}}, ["outputs", "o"]),
    ],
)
def test_job_schema__refuses_what_the_loader_refuses(keys: dict[str, Any], wrong: list[str | int] | None) -> None:
    from pipeline.job.load import load_text

    document = {"job": "x", "inputs": {"t": TABLE}} | keys
    assert errors_of(document) == ([] if wrong is None else [wrong])
    if wrong is None:
        assert load_text("{}", "x", document).name == "x"
    else:
        with pytest.raises(JobError, match=r"."):
            load_text("{}", "x", document)
