"""A job file is read into a Job, or refused with every problem, its place and what would be right."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pipeline.clusters.auto import Auto
from pipeline.errors import InputError, JobError, PlaceError
from pipeline.files import stamp
from pipeline.job.load import load, load_text
from pipeline.job.spec import Job
from pipeline.job.yaml_text import read_yaml, scalar
from pipeline.job.yaml_tree import Problems
from pipeline.results.store import open_store

ROOT = Path(__file__).parents[2]
JOB = """\
job: small
seed: 7
inputs:
  cohort: {format: vcf, path: a.vcf.gz}
  sheet: {format: csv, path: [a.csv, b.csv], columns: {age: float64}}
stages:
  - {use: variant_qc, from: cohort, as: passed, min_maf: 0.01, min_hwe_p: 1e-6}
  - {use: linear_gwas, from: {genotypes: passed, samples: grown}, as: gwas, traits: [ldl], covariates: [age]}
  - {use: filter, from: sheet, as: grown, where: age > 18}
  - {use: union, from: [sheet, grown]}
outputs:
  associations: {from: gwas, sort_by: -p_value}
  people: {from: passed.samples, format: csv, sort_by: [sample_id, -age], columns: sample_id}
"""
SMALL = "job: x\ninputs:\n  t: {format: csv, path: t.csv}\n"


def job_of(text: str = JOB, overrides: Mapping[str, Any] | Sequence[str] = ()) -> Job:
    return load_text(text, "jobs/x.yaml", overrides)


def problems_of(text: str, overrides: Mapping[str, Any] | Sequence[str] = ()) -> list[str]:
    with pytest.raises(JobError, match=r".") as caught:
        load_text(text, "jobs/x.yaml", overrides)
    return str(caught.value).splitlines()


def with_stage(stage: str) -> str:
    return f"{SMALL}stages:\n  - {stage}\n"


def test_load__gives_what_the_file_says() -> None:
    job = job_of()
    assert (job.name, job.seed, job.backend, job.results, job.report, job.counts) == (
        "small",
        7,
        "auto",
        "results/small",
        True,
        "boundaries",
    )
    assert list(job.inputs) == ["cohort", "sheet"]
    assert job.inputs["sheet"].reader.path == ("a.csv", "b.csv")
    assert [(spec.name, spec.use, dict(spec.inputs)) for spec in job.stages] == [
        ("passed", "variant_qc", {"genotypes": "cohort"}),
        ("gwas", "linear_gwas", {"genotypes": "passed", "samples": "grown"}),
        ("grown", "filter", {"rows": "sheet"}),
        ("union", "union", {"sheet": "sheet", "grown": "grown"}),
    ]
    assert job.stages[0].stage.model_dump()["min_hwe_p"] == 1e-6
    assert str(job.stages[0].where("min_maf")) == "7:58"
    assert str(job.stages[0].where("missing")) == str(job.stages[0].place) == "7:5"
    assert job.outputs["associations"].sort_by == ("-p_value",)
    assert job.outputs["associations"].format == "parquet"
    assert job.outputs["people"].sort_by == ("sample_id", "-age")
    assert job.outputs["people"].columns == ("sample_id",)
    assert (job.path, job.folder) == ("jobs/x.yaml", Path("jobs"))


@pytest.mark.parametrize("name", ["genomics", "loans"])
def test_load__takes_the_shipped_jobs(name: str) -> None:
    assert load(ROOT / "jobs" / f"{name}.yaml").name == name


def test_load__job_is_frozen_and_pickles() -> None:
    job, field = job_of(), "seed"
    with pytest.raises(ValueError, match="frozen"):
        setattr(job, field, 8)
    assert pickle.loads(pickle.dumps(job)) == job


@pytest.mark.process
def test_load__of_a_small_job_imports_no_library_that_only_a_run_needs() -> None:
    heavy = {"bokeh", "dask", "distributed", "jinja2", "numba", "pyarrow", "scipy", "sklearn", "xgboost"}
    code = f"import sys; from pipeline.job.load import load_text; load_text({with_stage('{use: filter, from: t, where: a > 1}')!r})"
    out = subprocess.run(
        [sys.executable, "-c", f"{code}; print({heavy} & set(sys.modules))"], capture_output=True, check=True, cwd=ROOT, text=True
    ).stdout
    assert out == "set()\n"


@pytest.mark.process
def test_load__imports_only_what_the_job_names() -> None:
    code = f"import sys; from pipeline.job.load import load_text; load_text({with_stage('{use: filter, from: t, where: a > 1}')!r})"
    code += "; print([n for n in sys.modules if n.startswith(('pipeline.stages.', 'pipeline.formats.')) and n.count('.') > 1])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT, text=True).stdout
    assert "pipeline.stages.relational.filter" in out
    assert "variant_qc" not in out
    assert "vcf" not in out


# YAML


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, text) for text in ("no", "on", "yes", "off", "1_000", "2026-01-31", "12:30:45", "0b1", "1e", "-")),
        *(("true", True), ("FALSE", False), ("~", None), ("", None), ("0x1F", 31), ("0o17", 15), ("007", 7), ("+3", 3)),
        *(("1e-6", 1e-6), ("-.5", -0.5), ("1.", 1.0), ("1.5E+3", 1500.0)),
    ],
)
def test_scalar__is_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_read_yaml__agrees_with_ruamel_on_the_shipped_jobs() -> None:
    for path in (ROOT / "jobs").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        tree = read_yaml(text, Problems(str(path)))
        assert tree is not None
        assert tree.data() == YAML(typ="safe", pure=True).load(text)


def test_read_yaml__knows_the_place_of_keys_and_values() -> None:
    tree = read_yaml("a:\n  - {b: 'x', 'c d': [1,\n    2]}\n", Problems("x"))
    assert tree is not None
    entry = tree.value["a"].value[0]
    assert [str(place) for place in (tree.keys["a"], entry.place, entry.keys["b"], entry.value["b"].place)] == ["1:1", "2:5", "2:6", "2:9"]
    assert str(entry.value["c d"].value[1].place) == "3:5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs/x.yaml: a job file is a mapping with the keys job, inputs, stages and outputs; found nothing"),
        ("- 1\n", "a job file is a mapping with the keys job, inputs, stages and outputs; found a list of 1"),
        ("job: a\njob: b\n", "jobs/x.yaml:2:1: the key 'job' is given twice; the first is at jobs/x.yaml:1:1. Take one away."),
        ("job: a\n---\njob: b\n", "jobs/x.yaml:2:1: a second document begins here"),
        ("%YAML 1.1\n---\njob: a\n", "a job file is YAML 1.2"),
        ("job: !!python/object/apply:os.system [ls]\n", "jobs/x.yaml:1:6: tags such as 'tag:yaml.org,2002:python/object/apply:os.system'"),
        ("job: &a [*a]\n", "jobs/x.yaml:1:10: the alias *a stands inside its own anchor"),
        ("job: *b\n", "jobs/x.yaml:1:6: the alias *b has no anchor"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", "jobs/x.yaml:3:3: merge keys (<<) are not part of YAML 1.2"),
        ("? [a]\n: 1\n", "jobs/x.yaml:1:3: a key must be a plain text"),
        ("job: a: b\n", "jobs/x.yaml:1:7: not YAML: mapping values are not allowed here. Put text that has ': ' in it in quotes"),
        (
            "job:\n\tx: 1\n",
            "jobs/x.yaml:2:1: not YAML: while scanning for the next token, found character '\\t' that cannot start any token. Indent",
        ),
        ("job: {a: 1\n", "not YAML: while parsing a flow mapping"),
        (
            "job: {a: round(x, 2) + 1, b: 2}\n",
            "jobs/x.yaml:1:10: between braces and brackets a text ends at a comma, so this one is 'round(x'.",
        ),
        ("job: {a: round(x, 2) + 1, b: 2}\n", 'Put all of it in quotes, "round(x, 2) + 1"'),
        ("job: {a: s in ('a', 'b')}\n", "Put all of it in quotes, \"s in ('a', 'b')\""),
        ('job: {a: f("b", (1, 2))}\n', "Put all of it in quotes, 'f(\"b\", (1, 2))'"),
        ("job: [f(a, b]\n", "so this one is 'f(a'. Put all of it in quotes"),
        ("job: {a: x[1]}\n", "but got '['. Between braces and brackets put text that has a comma"),
        ("job: {a: s || ': ' || s}\n", "but got ':'. Between braces and brackets put text that has a comma, a colon, a quote"),
        ("job: 'a\n", "while scanning a quoted scalar, found unexpected end of stream. A quote is not closed; text that"),
        ("job: .nan\n", "jobs/x.yaml:1:6: '.nan' is not a finite number"),
        (f"seed: {'9' * 5000}\n", "jobs/x.yaml:1:7: a number of 5000 digits is more than can be held"),
        ("[" * 200_000, "jobs/x.yaml:1:51: nested more than 50 levels deep"),
        ("{a: " * 60_000, "nested more than 50 levels deep"),
        ("- a\n" * 60_000, "more than 50,000 values"),
        ("#" * 300_000, "300,000 characters of YAML are more than a job may have (256,000)"),
    ],
)
def test_read_yaml__refuses_what_is_no_job(text: str, message: str) -> None:
    assert any(message in problem for problem in problems_of(text)), problems_of(text)


def test_read_yaml__takes_commas_in_parentheses_where_no_braces_are() -> None:
    text = f'{SMALL}stages:\n  - use: derive\n    from: t\n    as: a\n    columns:\n      z: round(x, 2)\n      y: "coalesce(x, 0)"\n'
    load_text(text, "jobs/x.yaml")


def test_read_yaml__a_bomb_of_aliases_does_not_go_off() -> None:
    bomb = 'a0: &a0 ["x"]\n' + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert "50,000 values, aliases written out" in problems_of(bomb)[0]


def test_read_yaml__an_alias_is_a_copy() -> None:
    text = f"{SMALL}stages:\n  - {{use: filter, from: t, as: a, where: &w x > 1}}\n  - {{use: filter, from: t, as: b, where: *w}}\n"
    job = job_of(text, ["stages.b.where=x > 2"])
    assert [spec.stage.model_dump()["where"] for spec in job.stages] == ["x > 1", "x > 2"]


# Files


def test_load__refuses_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "genomics.yaml").write_text(SMALL)
    with pytest.raises(JobError, match=r"genomic\.yaml: no such job file\. Did you mean 'genomics\.yaml'\?"):
        load(tmp_path / "genomic.yaml")
    with pytest.raises(JobError, match=r"is a folder; give a job file, such as .*genomics\.yaml"):
        load(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"job: \xff\xfe\n")
    with pytest.raises(JobError, match=r"not UTF-8 text \(byte 5\)"):
        load(tmp_path / "binary.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * 300_000)
    with pytest.raises(JobError, match="larger than 256,000 bytes"):
        load(tmp_path / "large.yaml")
    (tmp_path / "zeros.yaml").write_bytes(b"job: \0\n")
    with pytest.raises(JobError, match=r"not YAML: .*special characters are not allowed"):
        load(tmp_path / "zeros.yaml")


# Problems


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("{use: filtr, from: t}", "5:11: stages.filtr.use: there is no stage 'filtr'. Did you mean 'filter'?"),
        (
            "{use: filter, from: t, where: a > 1, wher: 1}",
            "5:42: stages.filter.wher: unknown parameter 'wher' of filter. Did you mean 'where'? Kno",
        ),
        ("{use: filter, from: t}", "5:5: stages.filter.where: missing: where (text)"),
        ("{use: filter, from: t, where: 3}", "5:35: stages.filter.where: expected text, found 3. For text put it in quotes: '3'"),
        ("{use: filter, where: a}", "5:5: stages.filter.from: missing: from. filter reads one table: from: NAME."),
        ("{use: filter, from: s, where: a}", "5:25: stages.filter.from: no input or stage gives the table 's'. Known: filter, t."),
        (
            "{use: filter, from: [t], where: a}",
            "5:25: stages.filter.from: expected the name of a table, found a list of 1. filter reads one",
        ),
        ("{use: filter, from: t, as: a.b, where: a}", "5:32: stages.a.b.as: 'a.b' is not a name of letters, digits, _ and -"),
        ("{use: filter, from: t, as: {x: a}, where: a}", "5:32: stages.filter.as: a mapping is not a name of letters, digits, _ and -"),
        ("{use: filter, from: t, as: [a, b], where: a}", "5:32: stages.filter.as: a list of 2 is not a name of letters, digits, _ and -"),
        ("{use: filter, from: t, as: t, where: a}", "5:32: stages.t: the name 't' is that of the input at jobs/x.yaml:3:3 already"),
        ("{use: variant_qc, from: t, min_maf: 5}", "5:41: stages.variant_qc.min_maf: 5 is above the largest value allowed, 0.5"),
        ("{use: variant_qc, from: t, min_maf: -1}", "5:41: stages.variant_qc.min_maf: -1 is below the smallest value allowed, 0"),
        ("{use: variant_qc, from: t, min_maf: abc}", "5:41: stages.variant_qc.min_maf: expected a number, found 'abc'"),
        ("{use: variant_qc, from: t, min_maf: true}", "5:41: stages.variant_qc.min_maf: expected a number, found true"),
        ("{use: join, from: t, on: a}", "stages.join.from: join reads 2 tables: from: {left: NAME, right: NAME}. Found 't'."),
        ("{use: join, from: {left: t, rigt: t}, on: a}", "5:33: stages.join.from: join has no role 'rigt'. Did you mean 'right'?"),
        ("{use: join, from: {left: t}, on: a}", "stages.join.from: missing: right. join reads 2 tables: from: {left: NAME, right: NAME}."),
        (
            "{use: join, from: {left: t, right: t}, on: a, how: iner}",
            "stages.join.how: 'iner' is not one of the choices. Did you mean 'inner'?",
        ),
        (
            "{use: linear_gwas, from: {genotypes: t, predictions: t}, traits: [a]}",
            "missing: samples. linear_gwas reads 3 tables: from: {genotypes: NAME, samples: NAME, predictions: NAME}. predictions may be",
        ),
        ("{use: linear_gwas, from: {genotypes: t, samples: t}}", "stages.linear_gwas.traits: missing: traits (list of "),
        ("{use: drop_duplicates, from: t, columns: []}", "5:46: stages.drop_duplicates.columns: must not be empty"),
        ("{use: aggregate, from: t, by: [1], compute: {n: size()}}", "5:36: stages.aggregate.by.0: expected text, found 1"),
        (
            "{use: aggregate, from: t, by: a, compute: {n: {oof: 1}}}",
            "stages.aggregate.compute.n.oof: unknown parameter 'oof' of aggregate. Did",
        ),
        (  # what another of the checks takes is not named
            "{use: expect, from: t, rules: {x: {check: not_null, column: a}}}",
            "unknown parameter 'column' of expect. Did you mean 'columns'? Known: action, check, columns.",
        ),
        ("{use: 5, from: t}", "5:11: stages.5.use: expected text (name of a stage; --list shows them), found 5"),
        ("{from: t}", "5:5: stages.0.use: missing: use (name of a stage; --list shows them)"),
        ("5", "5:5: stages.0: expected a mapping, found 5"),
    ],
)
def test_load__refuses_a_stage_with_its_place_and_the_remedy(stage: str, message: str) -> None:
    assert any(message in problem for problem in problems_of(with_stage(stage))), problems_of(with_stage(stage))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job: x\n", "jobs/x.yaml:1:1: missing: inputs"),
        ("inputs: {t: {format: csv, path: t}}\n", "jobs/x.yaml:1:1: job: missing: job (name of letters, digits, _ and -)"),
        (f"{SMALL}sede: 1\n", "jobs/x.yaml:4:1: sede: unknown parameter 'sede' of a job. Did you mean 'seed'?"),
        (f"{SMALL}backend: tpu\n", "backend: 'tpu' is not one of the choices. Did you mean 'gpu'? Known: auto, cpu, gpu."),
        (f"{SMALL}report: maybe\n", "report: expected true or false, found 'maybe'"),
        (f"{SMALL}stages: {{use: filter}}\n", "stages: expected a list of stages, each with `use` and `from`, found a mapping"),
        ("job: x\ninputs: []\n", "2:9: inputs: expected a mapping of name to what it is, found a list of 0"),
        ("job: x\ninputs: {t: {path: a}}\n", "inputs.t.format: missing: format (one of "),
        ("job: x\ninputs: {t: {format: vfc, path: a}}\n", "2:22: inputs.t.format: there is no format 'vfc'. Did you mean 'vcf'?"),
        (
            "job: x\ninputs: {t: {format: csv, path: a, colums: 1}}\n",
            "unknown parameter 'colums' of csv input. Did you mean 'columns'?",
        ),
        (
            "job: x\ninputs: {t: {format: csv, path: a, columns: {b: int65}}}\n",
            "2:49: inputs.t.columns.b: 'int65' is not one of the choices. Did",
        ),
        (
            "job: x\ninputs: {t: {format: csv, path: a, columns: {b: BigInt}}}\n",
            "2:49: inputs.t.columns.b: 'BigInt' is not one of the choices. Did you mean 'int64'?",
        ),
        (
            "job: x\ninputs: {t: {format: csv, path: a, columns: {b: text}}}\n",
            "2:49: inputs.t.columns.b: 'text' is not one of the choices. Did you mean 'string'?",
        ),
        ("job: x\ninputs: {'a b': {format: csv, path: a}}\n", "2:10: inputs.a b: 'a b' is not a name of letters, digits, _ and -"),
        (f"{SMALL}outputs: {{o: {{sort_by: a}}}}\n", "outputs.o.from: missing: from (table name, NAME or NAME.part)"),
        (f"{SMALL}outputs: {{o: {{from: u}}}}\n", "4:21: outputs.o.from: no input or stage gives the table 'u'. Known: t."),
        (
            f"{SMALL}outputs: {{o: {{from: t, format: gtf}}}}\n",
            "format 'gtf' cannot be written. Formats that can: ",
        ),
        (f"{SMALL}outputs: {{o: {{from: t, calls: 2}}}}\n", "outputs.o.calls: expected true or false, found 2"),
        (f"{SMALL}outputs: {{models: {{from: t}}}}\n", "'models' is the folder of the models of a run; give the output another name"),
        (
            f"{SMALL}cluster: cloud\n",
            "cluster: 'cloud' is no kind of cluster (auto, local, cuda, scheduler, ssh, slurm, kubernetes) and no address such as tls://HOST:8786",
        ),
        (f"{SMALL}cluster: {{workers: 0}}\n", "4:20: cluster.workers: 0 is below the smallest value allowed, 1"),
        (f"{SMALL}cluster: {{memory_limit: lots}}\n", "cluster.memory_limit: 'lots' is not a size such as 8GB"),
        (
            f"{SMALL}cluster: {{kind: scheduler}}\n",
            "cluster: kind: scheduler needs one of address: tls://HOST:PORT and scheduler_file: PATH",
        ),
        (f"{SMALL}cluster: {{kind: cuda, address: 'tcp://a:1'}}\n", "cluster: address is for kind: scheduler, and this is kind: cuda"),
        (f"{SMALL}cluster: {{address: 'tcp://a:1', workers: 2}}\n", "cluster: workers: a running cluster has its own; leave them out"),
        (f"{SMALL}cluster: {{kind: local, rmm_pool_size: 0.5}}\n", "cluster: rmm_pool_size is for kind: cuda, and this is kind: local"),
    ],
)
def test_load__refuses_with_place_and_remedy(text: str, message: str) -> None:
    assert any(message in problem for problem in problems_of(text)), problems_of(text)


def test_load__tells_every_problem_in_the_order_of_the_file() -> None:
    text = (
        JOB.replace("seed: 7", "seed: x")
        .replace("min_maf: 0.01", "min_maf: 5")
        .replace("[ldl]", "ldl, trait: 3")
        .replace("gwas, sort", "gwa, sort")
    )
    places = [problem.split(": ")[0] for problem in problems_of(text, ["outputs.people.format=x"])]
    assert places == [
        "jobs/x.yaml:2:7",
        "jobs/x.yaml:7:58",
        "jobs/x.yaml:8:90",
        "jobs/x.yaml:12:24",
        "--set outputs.people.format=x",
    ]


def test_load__a_table_of_a_wrong_stage_is_not_a_second_problem() -> None:
    text = f"{SMALL}stages:\n  - {{use: nope, from: t, as: a}}\n  - {{use: filter, from: a, where: b}}\n"
    assert len(problems_of(text)) == 1


def test_load__tells_a_circle_once_with_its_chain() -> None:
    stages = [
        "{use: filter, from: c, as: a, where: x}",
        "{use: filter, from: a, as: b, where: x}",
        "{use: filter, from: b, as: c, where: x}",
    ]
    stages += ["{use: filter, from: c, as: d, where: x}", "{use: filter, from: e.rest, as: e, where: x}"]
    text = f"{SMALL}stages:\n" + "".join(f"  - {stage}\n" for stage in stages)
    assert problems_of(text) == [
        "jobs/x.yaml:6:25: stages.b.from: the stages read one another in a circle: a -> b -> c -> a",
        "jobs/x.yaml:9:25: stages.e.from: the stages read one another in a circle: e -> e",
    ]


def test_load__takes_a_chain_of_a_thousand_stages_backwards() -> None:
    stages = "".join(f"  - {{use: filter, from: {f's{n + 1}' if n < 999 else 't'}, as: s{n}, where: x}}\n" for n in range(1000))
    assert len(job_of(f"{SMALL}stages:\n{stages}").stages) == 1000


def test_cluster__is_a_word_an_address_or_a_mapping() -> None:
    assert job_of(f"{SMALL}cluster: cuda\n").cluster.kind == "cuda"
    spec: Any = job_of(SMALL, ["cluster=10.0.0.5:8786"]).cluster
    assert (spec.kind, spec.address) == ("scheduler", "10.0.0.5:8786")
    assert job_of(f"{SMALL}cluster: {{scheduler_file: s.json}}\n").cluster.kind == "scheduler"
    spec = job_of(f"{SMALL}cluster: {{kind: cuda, workers: 2, memory_limit: 8GB, device_memory_limit: 0.8}}\n").cluster
    assert (spec.workers, spec.memory_limit, spec.device_memory_limit, spec.dashboard) == (2, "8GB", 0.8, True)
    spec = job_of(f"{SMALL}cluster: cuda\n", ["cluster.workers=2"]).cluster
    assert (spec.kind, spec.workers) == ("cuda", 2)


# The environment


def test_environment__fills_texts_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", "/data")
    monkeypatch.setenv("WORKERS", "3")
    monkeypatch.setenv("EMPTY", "")
    text = "job: x\ninputs: {t: {format: csv, path: '${DATA_DIR}/${NOT_SET:-t}.csv', null_values: ['$${DATA_DIR}', '${EMPTY:-NA}']}}\n"
    job = job_of(f"{text}cluster: {{workers: '${{WORKERS}}'}}\nseed: ${{WORKERS}}\n")
    assert job.inputs["t"].reader.path == ("/data/t.csv",)
    assert job.inputs["t"].reader.model_dump()["null_values"] == ("${DATA_DIR}", "NA")
    assert (job.cluster, job.seed) == (Auto(workers=3), 3)
    assert job.raw["inputs"]["t"]["path"] == "/data/t.csv"


def test_environment__names_what_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATA_DIR", raising=False)
    text = "job: x\ninputs:\n  t: {format: csv, path: '${DATA_DIR}/a'}\n"
    assert problems_of(text) == [
        "jobs/x.yaml:3:26: inputs.t.path: the environment variable DATA_DIR is not set. Set it, or give a default: ${DATA_DIR:-value}"
    ]
    assert "after ${ a name and } are needed" in problems_of("job: x\ninputs: {t: {format: csv, path: '${1}'}}\n")[0]


def test_record__never_has_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    text = f"{SMALL}  u: {{format: csv, path: 's3://host/${{DB_PASSWORD}}/a'}}\ndescription: from sftp://me:hunter2@host/a\n"
    job = job_of(text)
    assert job.inputs["u"].reader.path == ("s3://host/hunter2/a",)
    assert "hunter2" not in json.dumps(job.raw) + repr(job)
    assert job.raw["inputs"]["u"]["path"] == "s3://host/${DB_PASSWORD}/a"
    assert job.raw["description"] == "from sftp://me:***@host/a"
    wrong = text + "storage_options: {key: hunter2, secret: '${DB_PASSWORD}'}\napi_token: hunter2\n"
    assert "hunter2" not in "\n".join(problems_of(wrong, ["cluster.password=hunter2", "stages.x.token=hunter2"]))
    for line in ("seed: ${DB_PASSWORD}", "seed: sftp://me:hunter2@host/a", "results: 's3://me:hunter2@host/${DB_PASSWORD}'"):
        assert "hunter2" not in "\n".join(problems_of(f"{SMALL}{line}\n", ["title=[sftp://me:hunter2@host/x]"]))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://me:hunter2@host/a", "a password in a URL would stand in records and errors. Give a URL without one"),
        ("sftp://me:hunt/er2@host/a", "a password in a URL would stand in records and errors"),
        ("simplecache::s3://host/a", "a URL that leads to another place is not used"),
        ("zip://a.csv::s3://host/a.zip", "a URL that leads to another place is not used"),
        ("reference://a", "a URL that leads to another place is not used"),
    ],
)
def test_paths__of_inputs_and_results_say_one_place_and_no_password(path: str, message: str) -> None:
    found = problems_of(f"{SMALL}  u: {{format: csv, path: '{path}'}}\nresults: '{path}'\n")
    assert len(found) == 2
    assert all(message in line and "hunt" not in line for line in found)
    with pytest.raises(PlaceError, match=message):
        open_store(path)
    with pytest.raises(InputError, match=message):
        stamp(path)


def test_masked__shows_the_variable_and_hides_the_value() -> None:
    from pipeline.job.environment import fill_environment, masked

    text = (
        "{storage_options: {key: a, client: {id: 5}}, password: '${P}', token: 'Bearer ${P}', secretKey: '${P:-x}', keys: [a], on: '${P}'}"
    )
    tree = read_yaml(text, Problems("x"))
    assert tree is not None
    problems = Problems("x")
    fill_environment(tree, problems, {"P": "hunter2"})
    problems.check()
    assert tree.data()["token"] == "Bearer hunter2"
    hidden = {"storage_options": {"key": "***", "client": {"id": "***"}}, "password": "${P}", "token": "***", "secretKey": "***"}
    assert masked(tree) == hidden | {"keys": ["a"], "on": "hunter2"}


# Overrides


def test_override__sets_by_name() -> None:
    overrides = ["stages.passed.min_maf=0.05", "inputs.cohort={format: plink, path: x.bed}", "backend=cpu", "stages.gwas.traits=[a, b]"]
    overrides += [
        "stages.grown.where=age > 30 and sex = 'f'",
        "outputs.people=null",
        "outputs.extra={from: grown}",
        "stages.union.from=[grown, sheet]",
    ]
    overrides += ["inputs.sheet.columns.height=float32", "results=out/x=y", "inputs.sheet.path=c.csv"]
    job = job_of(JOB, overrides)
    assert job.stages[0].stage.model_dump()["min_maf"] == 0.05
    assert job.stages[1].stage.model_dump()["traits"] == ("a", "b")
    assert job.stages[2].stage.model_dump()["where"] == "age > 30 and sex = 'f'"
    assert job.stages[3].inputs == {"grown": "grown", "sheet": "sheet"}
    assert (job.inputs["cohort"].format, job.inputs["cohort"].reader.path) == ("plink", ("x.bed",))
    assert job.inputs["sheet"].reader.model_dump()["columns"] == {"age": "float64", "height": "float32"}
    assert job.inputs["sheet"].reader.path == ("c.csv",)
    assert list(job.outputs) == ["associations", "extra"]
    assert (job.backend, job.results) == ("cpu", "out/x=y")
    assert job.raw["stages"][0]["min_maf"] == 0.05


def test_override__replaces_or_removes_a_stage_in_its_place() -> None:
    job = job_of(JOB, ["stages.grown={use: filter, from: sheet, where: age > 60}", "stages.union=null"])
    assert [spec.name for spec in job.stages] == ["passed", "gwas", "grown"]
    assert job.stages[2].stage.model_dump()["where"] == "age > 60"


def test_override__takes_python_values() -> None:
    job = job_of(
        JOB, {"stages.passed.min_maf": 0.2, "inputs.cohort.path": Path("a") / "b.vcf", "stages.gwas.traits": ("p", "q"), "title": "T"}
    )
    assert job.stages[0].stage.model_dump()["min_maf"] == 0.2
    assert job.inputs["cohort"].reader.path == (str(Path("a") / "b.vcf"),)
    assert job.stages[1].stage.model_dump()["traits"] == ("p", "q")
    assert problems_of(JOB, {"stages.passed.min_maf": 5})[0].startswith(
        "override stages.passed.min_maf=5: stages.passed.min_maf: 5 is above"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stages.passed.min_maf=5", "--set stages.passed.min_maf=5: stages.passed.min_maf: 5 is above the largest value allowed, 0.5"),
        ("stages.passd.min_maf=5", "--set stages.passd.min_maf=5: stages.passd: the job has no stage 'passd'. Did you mean 'passed'?"),
        ("inputs.chort.path=x", "inputs.chort: the job has no input 'chort'. Did you mean 'cohort'?"),
        ("inputs.chort={format: csv, path: x}", "inputs.chort: the job has no input 'chort'. Did you mean 'cohort'?"),
        ("outputs.nope=null", "outputs.nope: the job has no output 'nope'. Known: associations, people."),
        ("stages.passed.min_maff=5", "stages.passed.min_maff: unknown parameter 'min_maff' of variant_qc. Did you mean 'min_maf'?"),
        ("stages.passed.min_maf.x=5", "stages.passed.min_maf.x: stages.passed.min_maf is 0.01: set the whole of it"),
        ("stages.gwas.traits.0=x", "stages.gwas.traits.0: stages.gwas.traits is a list of 1: set the whole of it"),
        ("stages.grown.where={", "--set stages.grown.where={: not YAML: while parsing a flow node"),
        ("seed", "--set seed: write it as KEY=VALUE, as in stages.NAME.min_maf=0.05"),
        ("stages..x=1", "--set stages..x=1: no key of a job; write it as stages.NAME.key=VALUE"),
        ("a" + ".a" * 5000 + "=1", "no key of a job"),
        ("sede=3", "--set sede=3: sede: unknown parameter 'sede' of a job. Did you mean 'seed'?"),
        ("stages.passed.from=cohrt", "stages.passed.from: no input or stage gives the table 'cohrt'. Did you mean 'cohort'?"),
    ],
)
def test_override__is_refused_with_its_own_text_as_the_place(override: str, message: str) -> None:
    problems = problems_of(JOB, [override])
    assert len(problems) == 1
    assert message in problems[0]


def test_a_table_that_is_read_twice__has_a_number_behind_its_name() -> None:
    job = job_of(JOB, ["stages.union.from=[grown, sheet, grown]"])
    assert job.stages[3].inputs == {"grown": "grown", "sheet": "sheet", "grown (2)": "grown"}
