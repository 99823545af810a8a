"""Digests of what files hold: read once while a file is unchanged, and of every byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.results.store import open_store
from pipeline.running.contents import SEGMENT_BYTES, Contents, content_digest

OLD = 1_700_000_000 * 10**9


def contents(folder: Path) -> Contents:
    return Contents(open_store(str(folder)), "kept/known.json")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read, as they are."""
    seen: list[str] = []

    def digest(file: str) -> str:
        seen.append(Path(file).name)
        return content_digest(file)

    monkeypatch.setattr("pipeline.running.contents.content_digest", digest)
    return seen


def test_contents__are_read_again_only_where_a_file_has_changed(tmp_path: Path, read: list[str]) -> None:
    files = [str(tmp_path / name) for name in ("a", "b")]
    for file in files:
        Path(file).write_text(file)
        os.utime(file, ns=(OLD, OLD))
    first = contents(tmp_path).digests(files)
    assert contents(tmp_path).digests(files[::-1]) == first[::-1]
    assert read == ["a", "b"]
    Path(files[1]).write_text("other")
    os.utime(files[1], ns=(OLD, OLD + 1))
    again = contents(tmp_path).digests(files)
    assert (again[0], again[1] == first[1], read) == (first[0], False, ["a", "b", "b"])


def test_contents__of_a_file_that_has_only_just_changed_are_not_remembered(tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "a").write_text("now")
    for _ in range(2):
        contents(tmp_path).digests([str(tmp_path / "a")])
    assert read == ["a", "a"]


@pytest.mark.parametrize("damage", ["{torn", "[1]", '{"a": 1}'])
def test_contents__are_read_again_where_what_is_remembered_is_damaged(tmp_path: Path, read: list[str], damage: str) -> None:
    (tmp_path / "a").write_text("old")
    os.utime(tmp_path / "a", ns=(OLD, OLD))
    first = contents(tmp_path).digests([str(tmp_path / "a")])
    (tmp_path / "kept" / "known.json").write_text(damage)
    assert contents(tmp_path).digests([str(tmp_path / "a")]) == first
    assert read == ["a", "a"]


def test_content_digest__sees_every_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.running.contents.SEGMENT_BYTES", 100)
    path, seen = tmp_path / "file", set()
    for at in (0, 99, 100, 999):
        data = bytearray(1000)
        data[at] = 1
        path.write_bytes(data)
        seen.add(content_digest(str(path)))
    path.write_bytes(bytes(1000))
    seen.add(content_digest(str(path)))
    assert len(seen) == 5
    assert SEGMENT_BYTES > 1 << 20
