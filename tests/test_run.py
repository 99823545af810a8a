"""The command line: its options, what it prints, its exit codes, signals and pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from pipeline.results.manifest import verify
from pipeline.running.display import Quiet
from pipeline.running.progress import Progress
from pipeline.running.signals import NAMES, Asked, Ending, Interrupted
from tests.small import copied, current_run, inside, last_record, published_job, run_main, run_process, start

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_job(tmp_path_factory.mktemp("published"))


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path / "work")


def test_run__prints_plain_lines_and_the_result(folder: Path) -> None:
    with inside(folder):
        ended = run_main("job.yaml", "--set", "cluster.dashboard=true")
    lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"run \d{8}T\d{6}Z-[0-9a-f]{6} -> results", lines[0])
    assert re.fullmatch(r"dashboard http://127\.0\.0\.1:\d+/status", lines[1])
    assert any(re.fullmatch(r"  gwas: \d+ tasks, \d+\.\d\d s", line) for line in lines)
    assert "done in" in ended.out
    assert {"  associations: 60 rows", "  people: 64 rows"} <= set(lines)
    assert "\x1b" not in ended.out
    assert lines[-1].endswith("/report.html")
    assert current_run(folder / "results").name == lines[0].split()[1]


def test_json__gives_one_event_a_line(folder: Path) -> None:
    with inside(folder):
        ended = run_main("job.yaml", "--json")
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["started", "finished"]
    assert events[0]["stages"] == ["passed", "people", "older", "gwas"]
    assert events[-1]["status"] == "done"
    assert events[-1]["outputs"] == {"associations": 60, "people": 64}
    last = {event["stage"]: event for event in events if event["event"] == "stage"}
    assert last["gwas"]["done"] == last["gwas"]["tasks"] > 0


def test_json__of_a_plan_and_of_a_refusal_are_events_too(folder: Path) -> None:
    with inside(folder):
        plan = json.loads(run_main("job.yaml", "--check", "--json").out)
        ended = run_main("job.yaml", "--json", "--set", "stages.passed.min_maf=5")
    assert plan["event"] == "planned"
    assert plan["tables"]["older"]["decades"] == "Float64"
    refused = json.loads(ended.out)
    assert (ended.code, refused["event"]) == (2, "refused")
    assert ended.err == f"error: {refused['error']}\n"


def test_quiet__says_nothing(folder: Path) -> None:
    with inside(folder):
        for arguments in (("--quiet",), ("--quiet", "--check")):
            ended = run_main("job.yaml", *arguments)
            assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_check__plans_and_writes_nothing(folder: Path) -> None:
    with inside(folder):
        ended = run_main("job.yaml", "--check", "--out", "elsewhere")
    assert (ended.code, ended.out) == (0, "job.yaml: fits together (2 inputs, 4 stages)\n")
    assert not (folder / "elsewhere").exists()


def test_explain__tells_tables_and_columns(folder: Path) -> None:
    with inside(folder):
        ended = run_main("job.yaml", "--explain")
    assert ended.code == 0
    for text in ("job small: 2 inputs, 4 stages, 2 outputs, on cpu", "stage gwas: linear_gwas of passed, older", "decades Float64"):
        assert text in ended.out


def test_list_describe_and_schema__need_no_job() -> None:
    assert "linear_gwas" in run_main("--list").out
    assert "min_call_rate" in run_main("--describe", "variant_qc").out
    assert json.loads(run_main("--schema").out)["type"] == "object"
    ended = run_main("--describe", "varaint_qc")
    assert ended.code == 2
    assert "Did you mean 'variant_qc'?" in ended.err


def test_verify__says_that_a_result_is_whole_or_which_file_is_not(folder: Path) -> None:
    with inside(folder):
        whole = run_main("--verify", "results")
        assert (whole.code, whole.err) == (0, "")
        assert whole.out.endswith(": every file is there and as it was written\n")
        run = current_run(folder / "results")
        part = next((run / "people").glob("*.parquet"))
        part.write_bytes(part.read_bytes()[:-1] + b"?")
        for place in ("results", str(run)):
            ended = run_main("--verify", place)
            assert ended.code == 1
            assert f"people/{part.name} has another checksum than manifest.json says" in ended.err
        told = json.loads(run_main("--verify", "results", "--json").out)
        assert (told["event"], len(told["problems"])) == ("verified", 1)


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_verify__refuses_a_place_with_no_result(tmp_path: Path, place: str) -> None:
    with inside(tmp_path):
        ended = run_main("--verify", place)
    assert ended.code == 2
    assert f"{place}: no run has been published there. Give a results folder, or the folder of a run." in ended.err


def test_options__change_the_job(folder: Path) -> None:
    with inside(folder):
        ended = run_main(
            "job.yaml", "--quiet", "--out", "other", "--backend", "cpu", "--cluster", "local", "--set", "stages.older.columns.decades=age"
        )
    assert (ended.code, ended.err) == (0, "")
    job = last_record(folder / "other")["job"]
    assert (job["backend"], job["cluster"], job["results"]) == ("cpu", "local", "other")
    assert job["stages"][2]["columns"] == {"decades": "age"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "give a job file"), (("--nonsense",), "unrecognized arguments: --nonsense"), (("x.yaml", "--backend", "tpu"), "invalid choice")],
)
def test_wrong_use__exits_2(arguments: tuple[str, ...], message: str) -> None:
    ended = run_main(*arguments)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.process
def test_help__imports_no_heavy_library() -> None:
    code = """if True:
        import sys, pipeline.run
        try:
            pipeline.run.main(["--help"])
        except SystemExit:
            print("heavy:", {"polars", "dask", "numpy", "pydantic"} & set(sys.modules))
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--cluster" in ended.stdout
    assert "heavy: set()" in ended.stdout


def test_a_fault__shows_a_traceback_with_debug_alone(folder: Path) -> None:
    with inside(folder):
        quiet, loud = run_main("nowhere.yaml"), run_main("nowhere.yaml", "--debug")
    assert quiet.code == loud.code == 2
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal__ends_the_run_as_interrupted_and_keeps_the_former_result(folder: Path, number: int, code: int) -> None:
    former = current_run(folder / "results")
    process = start(str(ROOT / "jobs" / "genomics.yaml"), "--out", str(folder / "results"), cwd=ROOT)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert "done in" not in out
    assert err.splitlines()[0] in {"error: interrupted", f"error: terminated by {signal.Signals(number).name}"}
    assert "the former result is unchanged" in err
    assert "Traceback" not in err
    assert last_record(folder / "results")["status"] == "interrupted"
    assert current_run(folder / "results") == former
    assert verify(str(former)) == []


@pytest.mark.process
def test_signal__reaches_a_whole_process_group_with_workers(folder: Path) -> None:
    process = start("job.yaml", "--set", "cluster={kind: local, workers: 2}", cwd=folder, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "Traceback" not in err


@pytest.mark.process
def test_broken_pipe__is_quiet_and_the_run_goes_on(folder: Path) -> None:
    former = current_run(folder / "results")
    for arguments, first in ((("job.yaml",), "run "), (("--schema",), "{")):
        process = start(*arguments, cwd=folder)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(first)
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert (process.wait(300), err) == (0, "")
    assert current_run(folder / "results") != former


@pytest.mark.process
def test_terminal__shows_live_bars(folder: Path) -> None:
    master, terminal = pty.openpty()
    said: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(master, 4096):
                said.append(data)
        except OSError:  # Linux says so when the last writer has closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-m", "pipeline.run", "job.yaml"]
    ended = subprocess.run(command, cwd=folder, stdout=terminal, stderr=terminal, env={**os.environ, "TERM": "xterm"}, check=False)
    os.close(terminal)
    reader.join()
    os.close(master)
    text = b"".join(said).decode()
    assert ended.returncode == 0, text
    assert "\x1b[" in text
    assert "━" in text
    assert "associations: 60 rows" in text


@pytest.mark.process
def test_process__ends_2_for_a_wrong_job(folder: Path) -> None:
    ended = run_process("job.yaml", "--set", "stages.gwas.traits=[ldll]", cwd=folder)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: --set stages.gwas.traits=[ldll]: stages.gwas.traits: the table has no column 'ldll'.")


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (signal.SIGINT, KeyboardInterrupt, ""),
        (signal.SIGTERM, Interrupted, "terminated by SIGTERM"),
        (signal.SIGHUP, Interrupted, "terminated by SIGHUP"),
    ],
)
def test_a_signal_whose_error_was_lost__ends_the_run_at_the_next_look(
    number: int, error: type[BaseException], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    before = {known: signal.getsignal(known) for known in map(signal.Signals.__getitem__, NAMES)}
    try:
        display, shown = Asked(Quiet(), Ending()), Progress({}, {})
        display.progress(shown)
        forgotten = {0}
        told = weakref.ref(forgotten, lambda _: signal.raise_signal(number))  # Python drops what is raised here, and says so
        del forgotten
        assert told() is None
        assert capsys.readouterr().err == ""
        with pytest.raises(error, match=f"^{said}$"):
            display.progress(shown)
        forgotten = {0}
        told = weakref.ref(forgotten, lambda _: [][0])
        del forgotten
        assert "IndexError" in capsys.readouterr().err
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
