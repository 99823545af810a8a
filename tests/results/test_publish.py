"""A run's result is published whole or not at all, whatever kills it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from pipeline.errors import PlaceError, RunError
from pipeline.results.manifest import Entry, RunView, read_current, run_path, verify
from pipeline.results.names import attempt_name, new_run_id
from pipeline.results.on_disk import LocalStore
from pipeline.results.overlap import refuse_output_inside_input
from pipeline.results.overtaken import publish_again
from pipeline.results.publish import Results

ROOT = Path(__file__).parents[2]


@pytest.fixture
def memory() -> Iterator[str]:
    place = "memory://results/job"
    yield place
    fs = fsspec.filesystem("memory")
    if fs.exists("/results"):
        fs.rm("/results", recursive=True)


def write(path: str, data: bytes) -> None:
    with fsspec.open(path, "wb") as file:
        file.write(data)


def publish(place: str, text: str = "one", keep: int = 5) -> RunView:
    with Results(place, keep).open_run() as run:
        write(run.file("table/part-00000.csv"), text.encode())
        run.write_json("run.json", {"status": "done"})
        view = run.commit([Entry("table/part-00000.csv", rows=3)])
        assert run.warnings == []
        return view


def content(place: str) -> str:
    view = read_current(place)
    assert view is not None
    assert verify(view.path) == []
    with fsspec.open(view.paths("table")[0], "rb") as file:
        return bytes(file.read()).decode()


def run_names(place: Path) -> set[str]:
    return {path.name for path in (place / "runs").iterdir()}


def test_commit__lists_every_file_with_bytes_rows_and_checksum(tmp_path: Path) -> None:
    view = publish(str(tmp_path / "out"), "a,b\n1,2\n")
    manifest = json.loads((Path(view.path) / "manifest.json").read_bytes())
    files = {item["path"]: item for item in manifest["files"]}
    assert set(files) == {"run.json", "table/part-00000.csv"}
    assert files["table/part-00000.csv"] == {
        "path": "table/part-00000.csv",
        "bytes": 8,
        "rows": 3,
        "sha256": subprocess.run(["sha256sum"], input=b"a,b\n1,2\n", capture_output=True, check=True).stdout.split()[0].decode(),
    }
    assert files["run.json"]["rows"] is None
    assert json.loads((Path(view.path) / "run.json").read_bytes()) == {"status": "done"}


def test_commit__swaps_a_relative_link_and_current_json(tmp_path: Path) -> None:
    publish(str(tmp_path), "one")
    view = publish(str(tmp_path), "two")
    assert (tmp_path / "current").readlink() == Path("runs", view.id)
    pointer = json.loads((tmp_path / "current.json").read_bytes())
    assert pointer == {"run": view.id, "path": f"runs/{view.id}", "finished": view.finished}
    assert (tmp_path / "current" / "table" / "part-00000.csv").read_text() == "two"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "current.json", "lock", "runs"]


def test_read_current__is_none_before_the_first_result(tmp_path: Path, memory: str) -> None:
    assert read_current(str(tmp_path / "none")) is None
    assert read_current(memory) is None
    with Results(str(tmp_path)).open_run():
        pass
    assert read_current(str(tmp_path)) is None


def test_results__of_a_url_are_published_by_current_json(memory: str) -> None:
    first = publish(memory, "one")
    view = publish(memory, "two")
    assert content(memory) == "two"
    assert verify(first.path) == []
    assert view.paths("table") == [f"{memory}/runs/{view.id}/table/part-00000.csv"]
    names = fsspec.filesystem("memory").ls("/results/job", detail=False)
    assert sorted(names) == ["/results/job/current.json", "/results/job/runs"]


def test_commit__removes_what_another_attempt_of_a_task_left(tmp_path: Path) -> None:
    names = [attempt_name("part-00000", ".csv") for _ in range(2)]
    assert names[0] != names[1]
    with Results(str(tmp_path)).open_run() as run:
        for name in names:
            write(run.file(f"table/{name}"), b"x")
        view = run.commit([Entry(f"table/{names[1]}", 1)])
    assert [path.name for path in (Path(view.path) / "table").iterdir()] == [names[1]]
    assert view.paths("table") == [f"{view.path}/table/{names[1]}"]


def test_commit__believes_a_known_checksum_and_refuses_a_wrong_size(tmp_path: Path) -> None:
    known = hashlib.sha256(b"data").hexdigest()
    with Results(str(tmp_path)).open_run() as run:
        write(run.file("a.bin"), b"data")
        with pytest.raises(RunError, match=r"a\.bin has 4 bytes where 5 were written"):
            run.commit([Entry("a.bin", None, 5, known)])
        view = run.commit([Entry("a.bin", None, 4, known)])
    assert verify(view.path) == []
    with pytest.raises(RuntimeError, match="is closed: open a new run"):
        run.commit()


def test_commit__refuses_a_missing_file_and_keeps_the_former_result(tmp_path: Path) -> None:
    publish(str(tmp_path), "one")
    run = Results(str(tmp_path)).open_run()
    with pytest.raises(RunError, match=r"the former result is unchanged: .*gone\.csv"):
        run.commit([Entry("table/gone.csv", 1)])
    run.write_json("run.json", {"status": "failed"})
    run.abandon()
    assert content(str(tmp_path)) == "one"


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "", "a/./b", "a\\b", "manifest.json"])
def test_file__refuses_names_outside_the_run(tmp_path: Path, name: str) -> None:
    with Results(str(tmp_path)).open_run() as run:
        with pytest.raises(ValueError, match="is not a name that a file of a run can have"):
            run.file(name)
        with pytest.raises(ValueError, match="is not a name that a file of a run can have"):
            run.commit([Entry(name)])


def test_commit__refuses_a_file_listed_twice_and_json_that_is_none(tmp_path: Path) -> None:
    with Results(str(tmp_path)).open_run() as run:
        with pytest.raises(ValueError, match="listed twice"):
            run.commit([Entry("run.json"), Entry("run.json", 2)])
        with pytest.raises(ValueError, match="not JSON compliant"):
            run.write_json("metrics.json", {"auc": float("nan")})


@pytest.mark.parametrize("damage", ["missing", "cut", "changed", "no manifest", "torn manifest"])
def test_verify__names_the_damage(tmp_path: Path, damage: str) -> None:
    view = publish(str(tmp_path), "one,two")
    table, manifest = Path(view.paths("table")[0]), Path(view.path, "manifest.json")
    ways: dict[str, tuple[Callable[[], object], str]] = {
        "missing": (table.unlink, "part-00000.csv is missing"),
        "cut": (lambda: table.write_text("one"), "has 3 bytes, not 7"),
        "changed": (lambda: table.write_text("two,one"), "has another checksum"),
        "no manifest": (manifest.unlink, "No such file.*manifest.json"),
        "torn manifest": (lambda: manifest.write_bytes(manifest.read_bytes()[:40]), "manifest.json is damaged"),
    }
    harm, message = ways[damage]
    harm()
    problems = verify(view.path)
    assert len(problems) == 1
    assert re.search(message, problems[0])
    if damage != "changed":
        with pytest.raises(PlaceError, match=rf"the current result is damaged: .*{message}.*Run the job again"):
            read_current(str(tmp_path))


def test_read_current__refuses_a_damaged_pointer_and_a_rerun_mends_it(memory: str) -> None:
    publish(memory, "one")
    write(f"{memory}/current.json", b'{"run": ')
    with pytest.raises(PlaceError, match=r"current\.json is damaged"):
        read_current(memory)
    publish(memory, "two")
    assert content(memory) == "two"


def test_abandon__keeps_the_record_alone_and_the_former_result(tmp_path: Path) -> None:
    publish(str(tmp_path), "one")
    with Results(str(tmp_path)).open_run() as run:
        write(run.file("table/part.csv"), b"half")
        run.write_json("run.json", {"status": "failed"})
    assert [path.name for path in Path(run.path).iterdir()] == ["run.json"]
    assert json.loads(Path(run.path, "run.json").read_bytes()) == {"status": "failed"}
    assert (content(str(tmp_path)), run.warnings) == ("one", [])


def test_abandon__never_touches_a_run_that_is_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt("control-C")

    run = Results(str(tmp_path)).open_run()
    write(run.file("table/part.csv"), b"whole")
    monkeypatch.setattr(run, "_tidy", interrupted)
    with pytest.raises(KeyboardInterrupt, match="control-C"):
        run.commit([Entry("table/part.csv", 1)])
    run.abandon()
    assert content(str(tmp_path)) == "whole"
    assert publish(str(tmp_path)).id != run.id


def test_open_run__reruns_in_the_same_second_do_not_collide(tmp_path: Path) -> None:
    ids = [publish(str(tmp_path), str(i), keep=20).id for i in range(10)]
    assert ids == sorted(set(ids))
    assert run_names(tmp_path) == set(ids)
    names = [new_run_id() for _ in range(1000)]
    assert all(re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", name) for name in names)


def test_retention__keeps_the_newest_and_nothing_else(tmp_path: Path) -> None:
    place = str(tmp_path)
    complete = [publish(place, str(i)).id for i in range(3)]
    failed = []
    for _ in range(2):
        with Results(place).open_run() as run:
            failed.append(run.id)
    for name in ("runs/mine", "imports/f00d", "checkpoints"):
        (tmp_path / name).mkdir(parents=True)
    current = publish(place, "new", keep=1).id
    assert run_names(tmp_path) == {current, complete[-1], failed[-1], "mine"}
    assert (tmp_path / "imports" / "f00d").is_dir()
    assert not (tmp_path / "checkpoints").exists()
    last = publish(place, "newest", keep=0).id
    assert run_names(tmp_path) == {last, failed[-1], "mine"}
    assert content(place) == "newest"


def test_retention__of_a_url_leaves_runs_without_a_manifest_which_may_be_alive(memory: str) -> None:
    first = publish(memory, "one")
    alive = {Results(memory).open_run().id for _ in range(2)}
    second, third = publish(memory, "two", keep=1), publish(memory, "three", keep=1)
    left = {name.rpartition("/")[2] for name in fsspec.filesystem("memory").ls("/results/job/runs", detail=False)}
    assert left == {*alive, second.id, third.id}
    assert first.id not in left


def test_retention__reports_what_it_cannot_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = publish(str(tmp_path), "one").id
    real = LocalStore.remove

    def stuck(self: LocalStore, name: str) -> None:
        if name == f"runs/{old}":
            raise PermissionError(13, "Permission denied")
        real(self, name)

    monkeypatch.setattr(LocalStore, "remove", stuck)
    with Results(str(tmp_path), keep=0).open_run() as run:
        view = run.commit()
    assert len(run.warnings) == 1
    assert re.search(rf"{old}: not removed: .*Permission denied", run.warnings[0])
    assert not (tmp_path / "runs" / old / "manifest.json").exists()  # half removed, it is no complete run
    assert verify(view.path) == []


@pytest.mark.parametrize("call", ["replace", "symlink", "fsync"])
@pytest.mark.parametrize("nth", range(1, 12))
def test_commit__that_the_system_refuses_leaves_the_former_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    publish(str(tmp_path), "one")
    before = {path.name for path in tmp_path.iterdir()}
    run = Results(str(tmp_path)).open_run()
    write(run.file("table/part.csv"), b"two")
    real, calls = getattr(os, call), 0

    def refusing(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls >= nth:
            raise OSError(28, "No space left on device")
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refusing)
        message = ""
        try:
            run.commit([Entry("table/part.csv", 1)])
        except RunError as error:
            message = str(error)
    run.abandon()
    # What fails after the swap is a warning; what fails before it is an error, and changes nothing.
    assert bool(message) + bool(run.warnings) == (calls >= nth)
    assert content(str(tmp_path)) == ("one" if message else "two")
    assert re.search("^$|not published, the former result is unchanged: .*No space left", message)
    assert {path.name for path in tmp_path.iterdir()} == before
    publish(str(tmp_path), "three")
    assert content(str(tmp_path)) == "three"


def test_commit__works_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refused)
    publish(str(tmp_path), "one")
    publish(str(tmp_path), "two")
    assert not (tmp_path / "current").exists()
    assert content(str(tmp_path)) == "two"


def test_lock__lets_one_of_many_writers_in(tmp_path: Path) -> None:
    barrier, opened, refused = threading.Barrier(8), [], []

    def writer() -> None:
        barrier.wait()
        try:
            opened.append(Results(str(tmp_path)).open_run())
        except PlaceError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=writer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), len(refused)) == (1, 7)
    assert all("another run writes there" in message for message in refused)
    assert run_names(tmp_path) == {opened[0].id}
    opened[0].commit()
    publish(str(tmp_path))


def python(script: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *args], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.process
def test_lock__names_a_living_owner_and_is_free_when_it_is_dead(tmp_path: Path) -> None:
    holder = python(
        """
        import sys
        from pipeline.results.publish import Results
        run = Results(sys.argv[1]).open_run()
        print("held", flush=True)
        sys.stdin.read()
        """,
        str(tmp_path),
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        remedy = "Wait for it, end it, or choose another place with --out"
        with pytest.raises(PlaceError, match=rf"pid {holder.pid} on \S+ since 20\d\d-.*\. {remedy}"):
            Results(str(tmp_path)).open_run()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    publish(str(tmp_path), "after")
    assert content(str(tmp_path)) == "after"


def test_open_run__without_locks_works_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with Results(str(tmp_path)).open_run() as run:
        run.commit()
    assert run.warnings == [f"{tmp_path}: this file system has no locks; let only one run at a time write there"]


@pytest.mark.parametrize("kind", ["folder without locks", "URL"])
def test_commit__where_nothing_is_locked_does_not_undo_what_another_run_published(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    place = memory if kind == "URL" else str(tmp_path)
    for _ in range(2):  # before there is a result, and after
        first, second = Results(place).open_run(), Results(place).open_run()
        for run in (first, second):
            write(run.file("table/part-00000.csv"), run.id.encode())
        first.commit([Entry("table/part-00000.csv", 1)])
        with pytest.raises(RunError, match=f"another run published {first.id} while this one ran, and nothing was changed"):
            second.commit([Entry("table/part-00000.csv", 1)])
        assert (content(place), second.overtaken) == (first.id, True)
    assert publish_again(second.path).id == second.id
    assert content(place) == second.id


def test_open_run__marks_the_record_of_a_run_that_was_killed(tmp_path: Path) -> None:
    publish(str(tmp_path), "one")
    killed = Results(str(tmp_path)).open_run()
    write(killed.file("table/part.csv"), b"half")
    assert killed._lock is not None
    killed._lock.close()
    with Results(str(tmp_path)).open_run() as run:
        record = json.loads(Path(killed.path, "run.json").read_bytes())
        assert (record["run"], record["status"]) == (killed.id, "died")
        run.commit()
    assert [path.name for path in Path(killed.path).iterdir()] == ["run.json"]
    assert run_names(tmp_path) >= {killed.id, run.id}


def test_open_run__refuses_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    remedy = r"Make it writable, or choose another place with --out\."
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(PlaceError, match=rf"{place}: results cannot be written there .*{remedy}"):
            Results(str(place)).open_run()
    (tmp_path / "out" / "current").mkdir(parents=True)
    with pytest.raises(PlaceError, match="current is a folder where a link belongs"):
        Results(str(tmp_path / "out")).open_run()
    (tmp_path / "out" / "current").rmdir()
    publish(str(tmp_path / "out"))
    with pytest.raises(PlaceError, match="no installed library writes there"):
        Results("nowhere://bucket/out").open_run()

    def read_only(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", read_only)
    with pytest.raises(PlaceError, match=rf"results cannot be written there .*Permission denied.*{remedy}"):
        Results(str(tmp_path / "closed")).open_run()


@pytest.mark.parametrize(
    ("place", "path", "refused"),
    [
        ("data/out", "data", True),
        ("data", "data", True),
        ("data/out", "data/", True),
        ("out", "data", False),
        ("data-out", "data", False),
        ("data/out", "data/cohort.vcf.gz", False),
        ("data/out", "data/*.csv", False),
        ("data/out", "data/*", True),
        ("data/x/out", "data/*", True),
        ("data/out", "data/**/*.parquet", True),
        ("data/out", "data/o?t/runs/*/table/*.parquet", True),
        ("data/out", "data/*/part-*.parquet", False),
        ("out", "out/current/table/*.parquet", True),
        ("out", "out/runs", True),
        (".", "data/x.csv", False),
        (".", "*", True),
        ("out", "link", True),
        ("data/b[1]/out", "data/b[1]", True),
        ("s3://bucket/data/out", "s3://bucket/data", True),
        ("s3://bucket/out", "s3://bucket/data/*.parquet", False),
        ("data/out", "s3://bucket/data", False),
    ],
)
def test_refuse_output_inside_input__looks_at_what_an_input_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, path: str, refused: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("data/b[1]", "out/runs/20261121T093012Z-000000/table"):
        Path(folder).mkdir(parents=True)
    Path("link").symlink_to("out/runs")
    Path("out/current").symlink_to("runs/20261121T093012Z-000000")
    if refused:
        with pytest.raises(PlaceError, match=re.escape(f"{place}: this results folder and the input {path} overlap")):
            refuse_output_inside_input(place, ["elsewhere/x.csv", path])
    else:
        refuse_output_inside_input(place, ["elsewhere/x.csv", path])


KILLED_WRITERS = """
    import json, os, random, shutil, signal, sys, time
    from pathlib import Path
    from pipeline.results.manifest import Entry, read_current, verify
    from pipeline.results.publish import Results

    place, dice, generation, torn = sys.argv[1], random.Random(7), 0, 0

    def write(generation):
        with Results(place, keep=0).open_run() as run:
            names = [f"table/part-{part}.bin" for part in range(3)]
            for name in names:
                Path(run.file(name)).write_bytes(b"%d " % generation * 20_000)
            run.write_json("run.json", {"generation": generation})
            run.commit([Entry(name, rows=generation) for name in names])

    def generation_of(view):
        seen = {entry.rows for entry in view.files if entry.rows is not None}
        seen |= {int(Path(path).read_bytes().split()[0]) for path in view.paths("table")}
        seen.add(json.loads(Path(view.path, "run.json").read_bytes())["generation"])
        assert len(seen) == 1, f"a mixed result: {seen}"
        return seen.pop()

    def look():
        global generation, torn
        view = read_current(place)
        assert view is not None or generation == 0, "the former result is gone"
        if view is not None:
            assert verify(view.path) == [], verify(view.path)
            assert generation_of(view) >= generation, "an older result came back"
            generation = generation_of(view)
        runs = sorted(Path(place, "runs").glob("*"))
        torn += bool(runs) and not (runs[-1] / "manifest.json").exists()
        for run in [run for run in runs if view is None or run.name != view.id][:-2]:
            shutil.rmtree(run)  # a writer that clears away the more, the more were killed, would never come to its end

    def killed_at_event(last):
        seen = 0

        def hook(event, _):
            nonlocal seen
            seen += event.split(".")[0] in ("open", "os", "shutil", "fcntl")
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if child == 0:
            sys.addaudithook(hook)
            write(generation + 1)
            os._exit(0)
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])

    def killed_after(seconds, written):
        child = os.fork()
        while child == 0:
            written += 1
            write(written)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the writer ended by itself"

    events = 1
    while killed_at_event(events):
        look()
        events += 1
    look()
    for _ in range(25):
        killed_after(dice.uniform(0.002, 0.06), generation)
        look()
    print(json.dumps({"generation": generation, "events": events, "torn": torn}))
"""


@pytest.mark.process
def test_kill__at_any_moment_leaves_a_whole_result(tmp_path: Path) -> None:
    """A writer is killed before each of its file operations in turn (Python's audit events), then at random times."""
    with python(KILLED_WRITERS, str(tmp_path)) as killer:
        out, _ = killer.communicate(timeout=300)
    assert killer.returncode == 0
    told = json.loads(out)
    assert told["events"] > 50
    assert told["torn"] > 15  # else the kills came at idle moments and showed nothing; those before an operation alone give as many
    assert told["generation"] > 5
    publish(str(tmp_path), "after", keep=1)
    assert content(str(tmp_path)) == "after"
    assert len(run_names(tmp_path)) <= 3  # the current, one more complete one, the last that was killed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "current.json", "lock", "runs"]


@pytest.mark.parametrize(("status", "more"), [("running", ": it is under way, or was killed, which the next run"), ("died", r"\.$")])
def test_verify__says_of_a_run_that_died_what_its_record_says(status: str, more: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"run": "x", "status": status}))
    with pytest.raises(PlaceError, match=rf"never published, and is not whole\. Its run\.json says {status}{more}"):
        run_path(str(tmp_path))
