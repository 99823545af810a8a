"""Results in a bucket of S3: published by a swap that holds only if nobody else published, by one living run at a time."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pipeline.errors import PlaceError, RunError
from pipeline.plan.fingerprints import digest
from pipeline.results import at_url, lease, on_s3
from pipeline.results.champion import promote, read_champion, roll_back
from pipeline.results.keyed import Keyed, KeyedFolder, Made
from pipeline.results.lease import Lease
from pipeline.results.lock import ChangedError
from pipeline.results.manifest import Entry, RunView, current_id, read_current, verify
from pipeline.results.on_s3 import S3Store
from pipeline.results.overtaken import publish_again
from pipeline.results.publish import Results, RunFolder
from pipeline.results.remembered import Remembered
from pipeline.results.store import open_store
from tests.small import run_main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(bucket: str) -> str:
    return f"{bucket}/some/results"


@pytest.fixture
def no_lease_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run finds the other's lease old: what is left is the swap. No thread renews one, whose request would be the counted one."""
    monkeypatch.setattr(lease, "LEASE_S", -1.0)
    monkeypatch.setattr(lease, "RENEW_S", 3600.0)


def store_at(place: str) -> S3Store:
    found = open_store(place)
    assert isinstance(found, S3Store)
    return found


def write(path: str, text: str) -> None:
    fsspec.filesystem("s3").pipe_file(path, text.encode())


def publish(place: str, text: str = "one", keep: int = 5, model: str = "") -> RunView:
    with Results(place, keep).open_run() as run:
        write(run.file("table/part-00000.csv"), text)
        if model:
            run.write_bytes(f"models/{model}.json", b"{}")
        run.write_json("run.json", {"status": "done"})
        view = run.commit([Entry("table/part-00000.csv", rows=3)])
        assert run.warnings == []
        return view


def content(place: str) -> str:
    view = read_current(place)
    assert view is not None
    assert verify(view.path) == []
    return bytes(fsspec.filesystem("s3").cat_file(view.paths("table")[0])).decode()


def names(place: str, folder: str = "runs") -> set[str]:
    return set(open_store(place).folders(folder))


def record(place: str, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(open_store(place).read(f"runs/{run}/run.json"))
    return found


def test_results__in_a_bucket_are_published_verified_and_kept_as_in_a_folder(place: str) -> None:
    assert read_current(place) is None
    views = [publish(place, str(number), keep=1) for number in range(3)]
    assert content(place) == "2"
    assert names(place) == {views[1].id, views[2].id}
    with Results(place, 1).open_run() as failed:
        write(failed.file("table/part.csv"), "half")
        failed.write_json("run.json", {"status": "failed"})
    assert list(open_store(place).sizes(f"runs/{failed.id}")) == ["run.json"]
    write(f"{place}/runs/{views[2].id}/table/part-00000.csv", "3")
    assert verify(views[2].path) == ["table/part-00000.csv has another checksum than manifest.json says"]


def test_results__in_a_bucket_that_is_not_there_make_none(bucket: str) -> None:
    with pytest.raises(PlaceError, match=r"results cannot be written there .*bucket does not exist"):
        Results(f"{bucket}-2/results").open_run()
    assert f"{bucket}-2".removeprefix("s3://") not in fsspec.filesystem("s3").ls("", detail=False)


def test_open_run__is_refused_while_another_lives_and_not_when_it_is_closed_or_silent(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Results(place).open_run()
    with pytest.raises(
        PlaceError, match=r"another run writes there \(pid \d+ on \S+ since \S+, seen \d+ s ago; .* free after 60 s\)\. Wait"
    ):
        Results(place).open_run()
    assert names(place) == {first.id}
    first.abandon()
    second = Results(place).open_run()
    monkeypatch.setattr(lease, "LEASE_S", -1.0)
    third = Results(place).open_run()
    assert {second.id, third.id} < names(place)
    third.abandon()


def test_open_run__takes_the_lock_of_a_process_of_this_machine_that_is_dead_at_once(place: str) -> None:
    store = store_at(place)
    about = {"pid": 2**22 + 1, "host": "here", "since": "2026", "machine": lease.machine()}
    store.write("lock", json.dumps(about).encode())
    with Results(place).open_run():
        pass
    store.write("lock", json.dumps({**about, "machine": "another one"}).encode())
    with pytest.raises(PlaceError, match="another run writes there"):
        Results(place).open_run()


def test_open_run__marks_what_a_run_that_was_killed_left_and_the_next_commit_removes_it(place: str) -> None:
    publish(place)
    killed = [Results(place).open_run() for _ in range(1)]
    killed[0]._close()  # its lock is free, and nothing else was done
    write(killed[0].file("table/part.csv"), "half")
    write(f"{place}/imports/abc/0123/part.parquet", "half")
    assert record(place, killed[0].id)["status"] == "running"
    living = Results(place).open_run()
    assert record(place, killed[0].id) == {
        "run": killed[0].id,
        "status": "died",
        "error": "the run ended without a word: its process was killed, or its machine stopped",
    }
    assert record(place, living.id)["status"] == "running"
    living.commit()
    assert list(open_store(place).sizes(f"runs/{killed[0].id}")) == ["run.json"]
    assert names(place, "imports") == set()


@pytest.mark.usefixtures("no_lease_lasts")
def test_lease__that_was_taken_over_is_lost_and_its_owner_tidies_nothing(place: str) -> None:
    old, asleep = publish(place, "old"), Results(place, keep=0).open_run()
    taker = Results(place).open_run()
    assert isinstance(asleep._lock, Lease)
    assert not asleep._lock.held()
    assert taker._lock is not None
    assert taker._lock.held()
    asleep.write_json("run.json", {"status": "done"})
    asleep.commit()
    assert {old.id, asleep.id, taker.id} == names(place), "its lease is lost, so what looks unfinished or too old is not its affair"
    asleep._lock.close()
    assert taker._lock.held(), "who lost a lease does not free it"
    with pytest.raises(RunError, match=f"another run published {asleep.id} while this one ran, .* files of this run are at {taker.path}"):
        taker.commit()


def test_lease__whose_renewal_was_answered_by_nobody_stays_ours(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = store_at(place).lock()
    assert held is not None
    real = S3Store.put

    def lost(self: S3Store, name: str, data: bytes, tag: str) -> str:
        """The put is done, and its repetition meets what it wrote."""
        real(self, name, data, tag)
        return real(self, name, data, tag)

    with monkeypatch.context() as patch:
        patch.setattr(S3Store, "put", lost)
        assert held.renew()
    assert held.renew()

    def unreachable(*_: object) -> str:
        raise OSError("no network")

    with monkeypatch.context() as patch:
        patch.setattr(S3Store, "put", unreachable)
        assert not held.held()
    assert held.held(), "what cannot be asked is not known to be lost"
    held.close()


def test_open_run__says_where_a_service_writes_whatever_the_condition(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unconditional(self: S3Store, name: str, data: bytes, _tag: str) -> str:
        self.write(name, data)
        return self.tag(name)

    monkeypatch.setattr(S3Store, "put", unconditional)
    with Results(place).open_run() as run:
        assert run.warnings == [
            f"{place}: this service writes whatever the condition (If-Match, If-None-Match); let only one run at a time write there"
        ]


def test_replace__asks_again_where_the_service_could_not_decide(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, real, refusals = store_at(place), S3Store.put, [True, True]

    def undecided(self: S3Store, name: str, data: bytes, tag: str) -> str:
        if refusals and refusals.pop():
            raise ChangedError("409 ConditionalRequestConflict")
        return real(self, name, data, tag)

    monkeypatch.setattr(S3Store, "put", undecided)
    tag = store.replace("a", b"1", "")
    refusals += [True] * 99
    with pytest.raises(ChangedError, match="is being written by another run"):
        store.replace("a", b"2", tag)
    refusals.clear()
    with pytest.raises(ChangedError, match="was written by another run meanwhile"):
        store.replace("a", b"2", "")
    with pytest.raises(ChangedError, match="was written by another run meanwhile"):
        store.replace("none", b"2", tag)
    assert store.read("a") == b"1"


PART = Entry("table/part-00000.csv", rows=3)


def opened(place: str, text: str) -> RunFolder:
    """A run before its commit."""
    run = Results(place, 2).open_run()
    write(run.file(PART.path), text)
    return run


def refusal(work: Callable[[], object]) -> str:
    """What it was refused with; '' where it was not."""
    try:
        work()
    except (PlaceError, RunError) as error:
        return str(error)
    return ""


def _committed(run: RunFolder, heard: list[str]) -> None:
    heard.append(refusal(partial(run.commit, [PART])))


class Interrupted:
    """Calls what it is given before one of the requests to the service, counted from 1; those of leases' threads are none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nth: int, other: Callable[[], object]) -> None:
        self.count, self.nth, self.other = itertools.count(1), nth, other
        for module in (at_url, on_s3):
            monkeypatch.setattr(module, "ask", self.wrap(module.ask))

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*values: Any, **options: Any) -> Any:
            if threading.current_thread().name != "lease" and next(self.count) == self.nth:
                self.nth = 0
                self.other()
            return real(*values, **options)

        return asked


def appended(place: str, text: str) -> tuple[RunFolder, list[Entry]]:
    """A run that adds one file to those that are published, before its commit."""
    run = Results(place).open_run()
    view = read_current(place)
    if view is not None:
        run.keep(view.id, [entry for entry in view.files if entry.path.startswith("table/")])
    name = f"table/part-{text}-{run.id}.csv"
    write(run.file(name), text)
    run.write_json("run.json", {"status": "done"})
    return run, [Entry(name, rows=1)]


@pytest.mark.usefixtures("no_lease_lasts")
def test_commit__that_another_run_comes_before_at_any_step_changes_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole run by another process, before each request of a commit in turn."""
    publish(place, "before")
    overtaken = 0
    for nth in range(1, 1000):
        run, other = opened(place, "mine"), opened(place, "theirs")
        run.write_json("run.json", {"status": "done"})  # which the other's opening has marked as a dead run's
        with monkeypatch.context() as patch:
            heard = list[str]()
            asked = Interrupted(patch, nth, partial(_committed, other, heard))
            said = refusal(partial(run.commit, [PART]))
        assert bool(said) + any(heard) == (asked.nth == 0), "both had seen the same result, so one of them is refused"
        assert not said or f"another run published {other.id} while this one ran, and nothing was changed" in said
        assert not run.overtaken or (said and verify(run.path) == [])
        assert content(place) == ("theirs" if said else "mine")
        overtaken += bool(said)
        run.abandon()
        other.abandon()
        if asked.nth:
            break
    assert 5 < overtaken < nth < 1000


@pytest.mark.usefixtures("no_lease_lasts")
def test_publish__makes_a_run_that_was_overtaken_the_current_one(place: str) -> None:
    run, other = opened(place, "mine"), opened(place, "theirs").commit([PART])
    write(run.file(PART.path), "mine")  # which the other took for a dead one's
    run.write_json("run.json", {"status": "done"})
    told = rf"files of this run are at {run.path}; to publish them: python -m pipeline\.run --publish {run.path}$"
    with pytest.raises(RunError, match=told):
        run.commit([PART])
    assert content(place) == "theirs"
    assert publish_again(run.path).id == publish_again(f"{run.path}/").id == run.id
    assert content(place) == "mine"
    ended = run_main("--publish", other.path)
    assert (ended.code, ended.out, content(place)) == (0, f"{other.path} is published\n", "theirs")
    for wrong, why in ((place, "no folder of a run"), (f"{place}/runs/none", "no whole run 'none'"), ("runs/x", "no folder of a run")):
        with pytest.raises(PlaceError, match=why):
            publish_again(wrong)


@pytest.mark.usefixtures("no_lease_lasts")
def test_publish__refuses_a_run_that_would_lose_appended_rows(place: str) -> None:
    appends = {"status": "done", "job": {"outputs": {"table": {"append": True}}}}
    run, other = Results(place).open_run(), publish(place)
    run.write_json("run.json", appends)
    with pytest.raises(RunError, match=rf"to the rows of 'table' that no run left, and would lose those of {other.id}\. Run again\."):
        run.commit()
    with pytest.raises(PlaceError, match=r"it is not published: It appends .* Run its job again"):
        publish_again(run.path)
    again = Results(place).open_run()
    again.write_json("run.json", {**appends, "outputs": {"table": {"appended_to": {"run": other.id}}}})
    again.commit()
    assert current_id(open_store(place)) == again.id


@pytest.mark.usefixtures("no_lease_lasts")
def test_commit__of_a_run_whose_files_were_tidied_meanwhile_says_so(place: str) -> None:
    run = opened(place, "mine")
    other = publish(place)
    with pytest.raises(RunError, match=rf"published {other.id} while this one ran, .* The files of this run are gone: run again"):
        run.commit([PART])
    run.write_json("run.json", {"status": "failed"})


@pytest.mark.usefixtures("no_lease_lasts")
def test_commit__of_many_threads_loses_no_file_that_any_of_them_appended(place: str) -> None:
    done, refused = list[str](), list[str]()

    def worker(name: str) -> None:
        for number in range(4):
            try:
                run, entries = appended(place, f"{name}{number}")
                run.commit(entries)
                done.append(entries[0].path)
            except (PlaceError, RunError) as error:
                refused.append(str(error))

    threads = [threading.Thread(target=worker, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    view = read_current(place)
    assert view is not None
    assert sorted(done) == sorted(entry.path for entry in view.files if entry.path.startswith("table/"))
    assert verify(view.path) == []
    assert len(done) + len(refused) == 12
    assert refused


WRITER = """
    import sys, time
    from pipeline.errors import PlaceError, RunError
    from tests.results.test_s3 import appended
    place, name, done = sys.argv[1], sys.argv[2], 0
    while done < 3:
        try:
            run, entries = appended(place, f"{name}{done}")
            run.commit(entries)
        except PlaceError:
            print("refused", flush=True)
            time.sleep(0.05)
            continue
        print(entries[0].path, flush=True)
        done += 1
"""


@pytest.mark.process
def test_commit__of_two_processes_loses_no_file_that_either_appended(place: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(WRITER), place]
    writers = [subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("a", "b")]
    told = [line for writer in writers for line in writer.communicate(timeout=120)[0].split()]
    assert [writer.returncode for writer in writers] == [0, 0]
    view = read_current(place)
    assert view is not None
    done = [line for line in told if line != "refused"]
    assert sorted(done) == sorted(entry.path for entry in view.files if entry.path.startswith("table/"))
    assert len(done) == 6
    assert verify(view.path) == []


@pytest.mark.usefixtures("no_lease_lasts")
def test_champion__that_another_moved_meanwhile_is_not_moved_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (publish(place, str(number), model="m") for number in range(3))
    promote(place, first.id)
    refused = list[str]()
    for nth in range(1, 1000, 2):
        with monkeypatch.context() as patch:
            asked = Interrupted(patch, nth, lambda: promote(place, third.id))
            said = refusal(lambda: promote(place, second.id))
        found = read_champion(place)
        assert found is not None
        assert found.run in ({second.id, third.id} if asked.nth == 0 else {second.id})
        assert not said or found.run == third.id, "who is refused changed nothing"
        refused += [said] if said else []
        promote(place, first.id)
        if asked.nth:
            break
    assert any("the champion is unchanged: " in said for said in refused)
    assert roll_back(place).run in {second.id, third.id}


def test_keyed__in_a_bucket_makes_a_folder_once_and_again_when_it_is_torn(place: str) -> None:
    keyed, times = Keyed(open_store(place), "imports", 1), list[str]()

    def make(folder: str) -> Made:
        times.append(folder)
        write(f"{folder}/part-1", "some text")
        return Made(["part-1"], {"rows": 7})

    first = keyed.get("a", make)
    assert keyed.get("a", make) == keyed.find("a") == first
    assert (len(times), first.note, [fsspec.filesystem("s3").cat_file(file) for file in first.files]) == (1, {"rows": 7}, [b"some text"])
    write(first.files[0], "torn")
    assert keyed.find("a") is None
    assert keyed.get("a", make).files != first.files

    def fails(folder: str) -> Made:
        write(f"{folder}/part-1", "half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        keyed.get("b", fails)
    assert names(place, "imports") == {"a"}


def test_keyed__in_a_bucket_takes_the_one_that_another_made_meanwhile(place: str) -> None:
    barrier, found = threading.Barrier(3), list[KeyedFolder]()

    def make(folder: str) -> Made:
        barrier.wait()
        write(f"{folder}/part-1", folder)
        return Made(["part-1"], {})

    threads = [threading.Thread(target=lambda: found.append(Keyed(open_store(place), "imports", 1).get("a", make))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.files for one in found}) == 1
    assert len(open_store(place).sizes("imports/a")) == 2, "the others dropped theirs"


def test_remembered__values_and_checkpoints_lie_in_a_bucket_too(place: str) -> None:
    found = Remembered.of(open_store(place), ["rows"], digest)
    assert found is not None
    found.keep("a", {"value": 0.1 + 0.2})
    assert found.find("a") == {"value": 0.1 + 0.2}
    assert found.find("b") is None
    assert found.checkpoint("a").last() is None
    found.checkpoint("a").keep(b"round 7")
    assert found.checkpoint("a").last() == b"round 7"
    publish(place)
    assert found.checkpoint("a").last() is None
    assert found.find("a") is not None


def test_store__is_sent_without_its_file_system() -> None:
    store = open_store("memory://sent/results")
    store.write("note.txt", b"there")
    sent = pickle.dumps(store)
    assert b"MemoryFileSystem" not in sent
    assert pickle.loads(sent).read("note.txt") == b"there"
