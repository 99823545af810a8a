"""Bad input, provoked through the command line: exit code, the message with place and remedy, and the former result still whole."""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from pipeline.clusters.scheduler import CONNECT_TIMEOUT_S
from pipeline.results.manifest import verify
from tests.small import PEOPLE, Ended, copied, current_run, inside, last_record, published_job, replace_in, run_main, run_process

ROOT = Path(__file__).parents[1]
Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_job(tmp_path_factory.mktemp("published"))


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path / "work")


@contextmanager
def former_result_stays(folder: Path, *, new_runs: int) -> Iterator[None]:
    """The current run is the same afterwards, each byte of it; so many runs more have left a record."""
    former, runs = current_run(folder / "results"), len(list((folder / "results" / "runs").iterdir()))
    yield
    assert current_run(folder / "results") == former
    assert verify(str(former)) == []
    assert len(list((folder / "results" / "runs").iterdir())) == runs + new_runs


def assert_one_message(ended: Ended, message: str) -> None:
    """One error, in words: nothing said twice, no traceback, nothing of a library's insides."""
    first, *_ = ended.err.splitlines()
    assert re.match(f"error: {message}", first), f"\n{ended.err}\nis not\nerror: {message}"
    for inside_word in ("Traceback", "pydantic", "polars", "ComputeError", "tornado", "ValidationError", "distributed", "Errno"):
        assert inside_word not in ended.err
    stages = re.findall(r"stages?[. ](\w+)", re.sub(r"--set \S+: ", "", first))
    assert len(stages) == len(set(stages)), f"a stage is named twice: {first}"


def assert_refused(folder: Path, message: str, *arguments: str) -> None:
    """Exit code 2, nothing was started and nothing written; what --check can know it says as well."""
    with inside(folder), former_result_stays(folder, new_runs=0):
        ended = run_main("job.yaml", *arguments)
    assert (ended.code, ended.out) == (2, ""), ended
    assert_one_message(ended, message)


def assert_failed(folder: Path, message: str, *arguments: str) -> None:
    """Exit code 1, and a run.json with the same message."""
    with inside(folder), former_result_stays(folder, new_runs=1):
        ended = run_main("job.yaml", *arguments)
    assert ended.code == 1, ended
    assert_one_message(ended, message)
    record = last_record(folder / "results")
    assert record["status"] == "failed"
    assert f"error: {record['error']}" == ended.err.splitlines()[0]
    where = folder / "results" / "runs" / record["run"]
    assert ended.err.splitlines()[1:] == [f"{where}/run.json has the record of this run; the former result is unchanged."]
    assert not (where / "manifest.json").exists()


def job(old: str, new: str) -> Spoil:
    """Another text in the job file."""
    return lambda folder: replace_in(folder / "job.yaml", old, new)


def lines_of(name: str, change: Callable[[list[str]], list[str]]) -> Spoil:
    """Other lines in a file."""

    def spoil(folder: Path) -> None:
        file = folder / name
        file.write_text("\n".join(change(file.read_text().splitlines())) + "\n")

    return spoil


def sheet(change: Callable[[list[str]], list[str]]) -> Spoil:
    return lines_of("sheet.csv", lambda lines: [lines[0], *(",".join(change(line.split(","))) for line in lines[1:])])


def record(change: Callable[[list[str]], list[str]]) -> Spoil:
    """Another fourth record in the VCF; it stands at 1:1030."""
    return lines_of("cohort.vcf", lambda lines: [*lines[:5], "\t".join(change(lines[5].split("\t"))), *lines[6:]])


def file(name: str, data: bytes) -> Spoil:
    return lambda folder: file_written(folder / name, data)


def file_written(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def both(*spoils: Spoil) -> Spoil:
    def spoil(folder: Path) -> None:
        for each in spoils:
            each(folder)

    return spoil


def zipped(pack: Callable[[bytes], bytes]) -> Spoil:
    """The VCF packed, and the job reading that."""

    def spoil(folder: Path) -> None:
        (folder / "cohort.vcf.gz").write_bytes(pack((folder / "cohort.vcf").read_bytes()))
        replace_in(folder / "job.yaml", "cohort.vcf", "cohort.vcf.gz")

    return spoil


def torn_parquet(folder: Path) -> None:
    pl.read_csv(folder / "sheet.csv").write_parquet(folder / "sheet.parquet")
    whole = (folder / "sheet.parquet").read_bytes()
    (folder / "sheet.parquet").write_bytes(whole[: len(whole) // 2])


PARQUET = ("--set", "inputs.sheet={format: parquet, path: sheet.parquet}")
LETTERS = "abcdefgh"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in pairwise(LETTERS))

REFUSED: dict[str, tuple[Spoil, str]] = {
    "truncated gzip": (
        zipped(lambda text: gzip.compress(text)[:-100]),
        r"job\.yaml:\d+:\d+: inputs\.cohort: .*cohort\.vcf\.gz: looks truncated: the gzip data stop in the middle",
    ),
    "unknown key": (
        job("min_maf", "min_mfa"),
        r"job\.yaml:11:69: stages\.passed\.min_mfa: unknown parameter 'min_mfa' of variant_qc\. Did you mean 'min_maf'\?",
    ),
    "unknown key of a job": (job("seed", "sead"), r"job\.yaml:2:1: sead: unknown parameter 'sead' of a job\. Did you mean 'seed'\?"),
    "unknown stage": (
        job("variant_qc", "varaint_qc"),
        r"job\.yaml:11:11: stages\.passed\.use: there is no stage 'varaint_qc'\. Did you mean 'variant_qc'\?",
    ),
    "unknown table": (
        job("from: {left: cohort.samples", "from: {left: cohort.sample"),
        r"job\.yaml:12:\d+: stages\.people\.from: .*'cohort\.sample'.* Did you mean 'cohort\.samples'\?",
    ),
    "unknown column": (
        job("[ldl]", "[ldll]"),
        r"job\.yaml:14:85: stages\.gwas\.traits: the table has no column 'ldll'\. Did you mean 'ldl'\?",
    ),
    "unknown column in an expression": (
        job("age / 10", "agee / 10"),
        r"job\.yaml:13:53: stages\.older\.columns\.decades: there is no column 'agee'\. Did you mean 'age'\?",
    ),
    "unknown column to sort by": (
        job("p_value", "pvalue"),
        r"job\.yaml:16:39: outputs\.associations\.sort_by: table 'gwas' has no column 'pvalue'\. Did you mean 'p_value'\?",
    ),
    "unknown column of a file": (
        job("age: float64", "agee: float64"),
        r"job\.yaml:7:5: inputs\.sheet: sheet\.csv: columns names 'agee', which the header line does not have\. Did you mean 'age'\?",
    ),
    "unknown format": (
        job("format: vcf", "format: vfc"),
        r"job\.yaml:5:20: inputs\.cohort\.format: there is no format 'vfc'\. Did you mean 'vcf'\?",
    ),
    "wrong type": (job("min_maf: 0.01", "min_maf: low"), r"job\.yaml:11:78: stages\.passed\.min_maf: expected a number, found 'low'"),
    "out of range": (
        job("min_maf: 0.01", "min_maf: 5"),
        r"job\.yaml:11:78: stages\.passed\.min_maf: 5 is above the largest value allowed, 0\.5",
    ),
    "duplicate key": (
        job("min_maf: 0.01", "min_maf: 0.01, min_maf: 0.1"),
        r"job\.yaml:11:84: the key 'min_maf' is given twice; the first is at job\.yaml:11:69\. Take one away\.",
    ),
    "duplicate name": (
        job("as: gwas", "as: sheet"),
        r"job\.yaml:14:\d+: stages\.sheet: the name 'sheet' is that of the input at job\.yaml:6:\d+ already: give this stage another",
    ),
    "cycle": (
        job("left: cohort.samples", "left: older"),
        r"job\.yaml:13:25: stages\.older\.from: the stages read one another in a circle: people -> older -> people",
    ),
    "missing file": (lambda folder: (folder / "cohort.vcf").unlink(), r"job\.yaml:5:11: inputs\.cohort: cohort\.vcf: no such file\."),
    "empty file": (file("cohort.vcf", b""), r"job\.yaml:5:11: inputs\.cohort: cohort\.vcf: the file is empty"),
    "empty sheet": (file("sheet.csv", b""), r"job\.yaml:7:5: inputs\.sheet: sheet\.csv: the file is empty"),
    "sheet of blank lines": (file("sheet.csv", b"\n\n"), r"job\.yaml:7:5: inputs\.sheet: sheet\.csv: has no header line"),
    "sheet that is no text": (file("sheet.csv", bytes(range(256))), r"job\.yaml:7:5: inputs\.sheet: sheet\.csv: .*"),
    "VCF with no samples": (
        lines_of("cohort.vcf", lambda lines: [lines[0], *("\t".join(line.split("\t")[:8]) for line in lines[1:])]),
        r"job\.yaml:5:11: inputs\.cohort: cohort\.vcf: has no sample columns .*; give the file that holds the genotypes",
    ),
    "no VCF": (
        file("cohort.vcf", b"a,b\n1,2\n"),
        r"job\.yaml:5:11: inputs\.cohort: cohort\.vcf: not a VCF: its first line .* begins with 'a,b'",
    ),
    "truncated bgzip": (
        zipped(lambda _: (ROOT / "data" / "genomics" / "cohort.vcf.gz").read_bytes()[:-40]),
        r"job\.yaml:5:11: inputs\.cohort: cohort\.vcf\.gz: looks truncated: the block that ends every bgzip file is missing\. Copy",
    ),
    "trait that is text": (
        job("[ldl]", "[population]"),
        r"job\.yaml:14:85: stages\.gwas\.traits: column 'population' is String, and numbers are needed\.",
    ),
    "yaml bomb": (file("job.yaml", BOMB.encode()), r"job\.yaml:\d+:\d+: more than 50,000 values, aliases written out: .*YAML bomb"),
    "job that is no YAML": (file("job.yaml", b"job: [small\n"), r"job\.yaml:2:1: .*"),
    "job that is empty": (file("job.yaml", b""), r"job\.yaml: a job file is a mapping .*; found nothing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused__before_anything_starts(folder: Path, case: str) -> None:
    spoil, message = REFUSED[case]
    spoil(folder)
    assert_refused(folder, message)
    with inside(folder):
        assert run_main("job.yaml", "--check").code == 2


def test_refused__a_torn_parquet_file(folder: Path) -> None:
    torn_parquet(folder)
    assert_refused(folder, r"--set inputs\.sheet=.*: inputs\.sheet: sheet\.parquet: not a whole Parquet file", *PARQUET)


FAILED: dict[str, tuple[Spoil, str]] = {
    "line with too few fields": (
        record(lambda fields: fields[:-3]),
        rf"cohort\.vcf: record 1:1030 has {PEOPLE + 6} fields where {PEOPLE + 9} are expected \(9 and {PEOPLE} samples\)",
    ),
    "genotype of an allele that is none": (
        record(lambda fields: [*fields[:-1], "0/7"]),
        r"cohort\.vcf: record 1:1030, sample 's63': '0/7' has allele 7, but the record has 1 ALT allele\(s\); correct the record",
    ),
    "genotype that is none": (
        record(lambda fields: [*fields[:-1], "hello"]),
        r"cohort\.vcf: record 1:1030, sample 's63': 'hello' is not a genotype .*; correct the record",
    ),
    "position that is no number": (
        record(lambda fields: [fields[0], "-5x", *fields[2:]]),
        r"cohort\.vcf: record 1:-5x: POS must be a number from 0, found '-5x'; correct the line",
    ),
    "ids that match no sample": (
        both(sheet(lambda row: [f"x{row[0]}", *row[1:]]), job("how: left", "how: inner")),
        r"job\.yaml:14:5: stages\.gwas: the samples table has no rows\. Did the stages before it match or keep nobody\?",
    ),
    "ids that match no sample of a sheet read alone": (
        both(sheet(lambda row: [f"x{row[0]}", *row[1:]]), job("samples: older}", "samples: sheet}"), job("[decades]", "[age]")),
        r"job\.yaml:14:5: stages\.gwas: no sample_id of the samples table \(\['xs00', .*\]\) is in the genotype table",
    ),
    "ids that match no sample of a left join": (
        sheet(lambda row: [f"x{row[0]}", *row[1:]]),
        rf"job\.yaml:14:5: stages\.gwas: Covariate 'decades' is missing for all {PEOPLE} samples\. .*look at how the samples were joined",
    ),
    "ids twice": (
        lines_of("sheet.csv", lambda lines: [*lines, *lines[3:5]]),
        r"job\.yaml:14:5: stages\.gwas: the samples table names 2 people twice, such as 's02'\. Give one row per person\.",
    ),
    "constant trait": (
        sheet(lambda row: [*row[:2], "3.0", row[3]]),
        rf"job\.yaml:14:5: stages\.gwas: Trait 'ldl' is constant: 3 for all {PEOPLE} samples with all values\. Leave it out\.",
    ),
    "missing trait": (
        sheet(lambda row: [*row[:2], "NA", row[3]]),
        rf"job\.yaml:14:5: stages\.gwas: Trait 'ldl' is missing for all {PEOPLE} samples\. Leave it out",
    ),
    "text in a number": (
        sheet(lambda row: [row[0], "old" if row[0] == "s04" else row[1], *row[2:]]),
        r"job\.yaml:7:5: inputs\.sheet: sheet\.csv:6: column 'age' is Float64, and 'old' is none\. Correct it, name it in null_values",
    ),
    "line with too many fields": (
        sheet(lambda row: [*row, "more"] if row[0] == "s04" else row),
        r"job\.yaml:7:5: inputs\.sheet: sheet\.csv:6: 5 fields where the header line has 4\. Put text that holds ',' in quotes\.",
    ),
}


@pytest.mark.parametrize("case", FAILED)
def test_failed__while_running(folder: Path, case: str) -> None:
    spoil, message = FAILED[case]
    spoil(folder)
    assert_failed(folder, message)


@pytest.mark.process
def test_failed__on_workers_says_the_same(folder: Path) -> None:
    spoil, message = FAILED["constant trait"]
    spoil(folder)
    assert_failed(folder, message, "--set", "cluster={kind: local, workers: 2}")


def test_failed__before_any_result_says_so(folder: Path) -> None:
    FAILED["ids twice"][0](folder)
    with inside(folder):
        ended = run_main("job.yaml", "--out", "other")
    assert ended.code == 1
    assert ended.err.endswith("run.json has the record of this run; no result was published.\n")


def test_results__inside_an_input(folder: Path) -> None:
    (folder / "in").mkdir()
    shutil.copy(folder / "sheet.csv", folder / "in" / "sheet.csv")
    replace_in(folder / "job.yaml", "path: sheet.csv", "path: in")
    message = r"in/results: this results folder and the input in overlap: results would be read as input\. Choose another place with --out"
    assert_refused(folder, message, "--out", "in/results")
    assert_refused(folder, message, "--out", "in/results", "--check")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("taken", r"taken: results cannot be written there \(.*taken.*\)\. Make it writable, or choose another place with --out\."),
        ("taken/inside", r"taken/inside: results cannot be written there \(Not a directory: .*\)\. Make it writable"),
        ("/proc/results", r"/proc/results: results cannot be written there \(No such file or directory: .*\)\. Make it writable"),
        ("sheet.csv", r"sheet\.csv: this results folder and the input sheet\.csv overlap"),
    ],
)
def test_results__that_cannot_be_written(folder: Path, place: str, message: str) -> None:
    (folder / "taken").write_text("a file")
    assert_refused(folder, message, "--out", place)


def test_results__that_another_run_writes(folder: Path) -> None:
    descriptor = os.open(folder / "results" / "lock", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert_refused(
            folder, r"results: another run writes there \(pid \d+ on .* since .*\)\. Wait for it, end it, or choose another place"
        )
    finally:
        os.close(descriptor)
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--backend", "gpu"),
            r"backend gpu: (the RAPIDS packages are not installed here\. Install them|this machine shows no NVIDIA GPU\. Use)",
        ),
        (("--cluster", "cuda"), r"cluster cuda: this machine shows no NVIDIA GPU\. Use cluster: local"),
        (
            ("--cluster", "cudaa"),
            r"--set cluster=cudaa: cluster: 'cudaa' is no kind of cluster \(auto, local, cuda, scheduler, ssh, slurm, kubernetes\)",
        ),
        (("--set", "cluster={scheduler_file: nope.json}"), r"cluster scheduler: nope\.json: No such file or directory\. Start a scheduler"),
        (("--set", "nonsense"), r"--set nonsense: .*"),
        (("--set", "stages.nobody.min_maf=1"), r"--set stages\.nobody\.min_maf=1: .*nobody"),
    ],
)
def test_place__that_cannot_be_had(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str) -> None:
    monkeypatch.setattr("pipeline.backend.devices._visible_gpus", list)
    assert_refused(folder, message, *arguments)
    assert_refused(folder, message, *arguments, "--check")


def test_scheduler__that_does_not_answer_is_said_in_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CONNECT_TIMEOUT_S <= 10
    monkeypatch.setattr("pipeline.clusters.scheduler.CONNECT_TIMEOUT_S", 1)
    message = r"cluster scheduler: no Dask scheduler answers at tcp://127\.0\.0\.1:1 within 1 s\. Is it running, and does a firewall"
    assert_refused(folder, message, "--cluster", "tcp://127.0.0.1:1")
    assert not [name for name in (folder / "results" / "runs").iterdir() if not (name / "manifest.json").exists()]


def test_problems__come_in_one_go(folder: Path) -> None:
    for old, new in (("min_maf: 0.01", "min_maf: 5"), ("age / 10", "agee / 10"), ("format: vcf", "format: vfc")):
        replace_in(folder / "job.yaml", old, new)
    with inside(folder):
        loading = run_main("job.yaml")
    loading_keys = re.findall(r"^(?:error: )?job\.yaml:\d+:\d+: ([\w.]+): ", loading.err, re.MULTILINE)
    assert loading_keys == ["inputs.cohort.format", "stages.passed.min_maf"]
    replace_in(folder / "job.yaml", "min_maf: 5", "min_maf: 0.01")
    replace_in(folder / "job.yaml", "format: vfc", "format: vcf")
    replace_in(folder / "job.yaml", "sort_by: p_value", "sort_by: pvalue")
    replace_in(folder / "job.yaml", "outputs:", "  - {use: filter, from: passed, as: common, where: alt_frequenzy > 0.1}\noutputs:")
    with inside(folder):
        planning = run_main("job.yaml")
    planning_keys = re.findall(r"^(?:error: )?job\.yaml:\d+:\d+: ([\w.]+): ", planning.err, re.MULTILINE)
    assert planning_keys == ["stages.older.columns.decades", "stages.common.where"], planning.err


@pytest.mark.process
def test_a_fault_of_ours__is_one_line_and_a_failed_record(folder: Path) -> None:
    code = "import pipeline.api, pipeline.run; pipeline.api.write_report = None; pipeline.run.main(['job.yaml', '--quiet'])"
    with former_result_stays(folder, new_runs=1):
        ended = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    message = "TypeError: 'NoneType' object is not callable"
    assert ended.returncode == 1
    assert ended.stderr == f"error: {message}. This is a fault of the program: run again with --debug and report it.\n"
    assert last_record(folder / "results")["error"] == message


@pytest.mark.process
def test_as_a_process__the_codes_and_the_messages_are_the_same(folder: Path) -> None:
    FAILED["ids twice"][0](folder)
    failed = run_process("job.yaml", cwd=folder)
    assert failed.code == 1
    assert_one_message(failed, FAILED["ids twice"][1])
    REFUSED["unknown key"][0](folder)
    refused = run_process("job.yaml", cwd=folder)
    assert (refused.code, refused.out) == (2, "")
    assert_one_message(refused, REFUSED["unknown key"][1])
