"""Folders by key: made once, believed only where whole, by any number of runs at once."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from threading import Barrier
from typing import Any

import pytest

from pipeline.errors import PlaceError, RunError
from pipeline.results.keyed import Keyed, KeyedFolder, Made
from pipeline.results.store import open_store


def keyed(place: Path, version: int = 1) -> Keyed:
    return Keyed(open_store(str(place)), "kept", version)


class Maker:
    """Writes two files, one of them in a folder below, and counts how often."""

    def __init__(self, before: Callable[[str], object] = str) -> None:
        self.times, self.before = 0, before

    def __call__(self, folder: str) -> Made:
        self.times += 1
        self.before(folder)
        files = [f"part-{token_hex(4)}", f"below/part-{token_hex(4)}"]
        (Path(folder) / "below").mkdir()
        for file in files:
            (Path(folder) / file).write_text("some text")
        return Made(files, {"rows": 7})


def left(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "kept").iterdir())


def test_keyed__makes_a_folder_once_and_gives_its_files_in_order_and_its_note(tmp_path: Path) -> None:
    make = Maker()
    first = keyed(tmp_path).get("a", make)
    assert keyed(tmp_path).get("a", make) == keyed(tmp_path).find("a") == first
    assert (make.times, first.note, left(tmp_path)) == (1, {"rows": 7}, ["a"])
    assert [Path(file).read_text() for file in first.files] == ["some text", "some text"]
    assert [Path(file).parent.name for file in first.files] == ["a", "below"]
    assert keyed(tmp_path).find("b") is None
    keyed(tmp_path).get("b", make)
    assert (make.times, left(tmp_path)) == (2, ["a", "b"])


def damage(place: Path, found: KeyedFolder, how: str) -> None:
    manifest = place / "kept" / "a" / "manifest.json"
    if how == "lost file":
        Path(found.files[1]).unlink()
    elif how == "other size":
        Path(found.files[0]).write_text("some")
    elif how == "torn manifest":
        manifest.write_text(manifest.read_text()[:-9])
    elif how == "no manifest":
        manifest.unlink()
    elif how == "strange manifest":
        manifest.write_text(json.dumps([1, 2]))
    else:
        shutil.rmtree(place / "kept" / "a")
        (place / "kept" / "a").write_text("a file")


@pytest.mark.parametrize("how", ["lost file", "other size", "torn manifest", "no manifest", "strange manifest", "a file"])
def test_keyed__makes_a_damaged_folder_anew(tmp_path: Path, how: str) -> None:
    make = Maker()
    damage(tmp_path, keyed(tmp_path).get("a", make), how)
    assert keyed(tmp_path).find("a") is None
    found = keyed(tmp_path).get("a", make)
    assert (make.times, keyed(tmp_path).find("a"), left(tmp_path)) == (2, found, ["a"])


def test_keyed__does_not_believe_a_folder_of_another_key_or_version(tmp_path: Path) -> None:
    make = Maker()
    keyed(tmp_path).get("a", make)
    shutil.copytree(tmp_path / "kept" / "a", tmp_path / "kept" / "b")
    assert keyed(tmp_path).find("b") is None
    assert keyed(tmp_path, version=2).find("a") is None
    keyed(tmp_path, version=2).get("a", make)
    assert (make.times, left(tmp_path)) == (2, ["a", "b"])


@pytest.mark.parametrize("torn", [False, True])
def test_keyed__two_runs_at_once_get_the_same_folder(tmp_path: Path, torn: bool) -> None:
    if torn:
        damage(tmp_path, keyed(tmp_path).get("a", Maker()), "lost file")
    together = Barrier(4, timeout=30)
    make = Maker(lambda _: together.wait())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: keyed(tmp_path).get("a", make), range(4)))
    assert make.times == 4
    assert found == [keyed(tmp_path).find("a")] * 4
    assert left(tmp_path) == ["a"]


def test_keyed__leaves_nothing_where_making_fails(tmp_path: Path) -> None:
    def fail(folder: str) -> Made:
        Maker()(folder)
        raise KeyboardInterrupt("by the user")

    with pytest.raises(KeyboardInterrupt, match="by the user"):
        keyed(tmp_path).get("a", fail)
    assert left(tmp_path) == []


def test_keyed__refuses_what_was_made_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'\.\./x' is not a name that a file of a run can have"):
        keyed(tmp_path).get("a", lambda _: Made(["../x"], {}))
    assert left(tmp_path) == []


def test_keyed__says_where_what_was_made_is_gone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keyed, "find", lambda *_: None)
    monkeypatch.setattr(Keyed, "_place", lambda *_: None)
    with pytest.raises(RunError, match=r"kept/a: what was made here is not whole\. Run again\."):
        keyed(tmp_path).get("a", Maker())


def test_keyed__refuses_a_url() -> None:
    with pytest.raises(PlaceError, match=r"memory://lab: kept/ is kept in a folder of this machine"):
        Keyed(open_store("memory://lab"), "kept", 1)


def test_get__leaves_nothing_where_a_task_writes_on_while_the_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places, folders, remove = list[int](), keyed(tmp_path), shutil.rmtree

    def written_into(path: str, *given: Any, **options: Any) -> None:
        """At first a file of two goes by itself, then one comes while the folder is removed."""
        turn = places.pop() if places else 0
        remove(path, *given, **options)
        if turn:
            Path(path).mkdir()
            (Path(path) / "late").write_text("some text")
        if turn == 2:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        if turn == 1:
            raise FileNotFoundError(path)

    def failing(folder: str) -> Made:
        (Path(folder) / "part").write_text("some text")
        places[:] = [0, 2, 1]
        raise RunError("a part cannot be read")

    monkeypatch.setattr(shutil, "rmtree", written_into)
    with pytest.raises(RunError, match="a part cannot be read"):
        folders.get("key", failing)
    assert not places
    assert left(tmp_path) == []
