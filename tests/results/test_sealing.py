"""Files of a run, synced and hashed while others are written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pipeline.results.manifest import Entry
from pipeline.results.sealing import Sealing
from pipeline.results.store import open_store


def written(folder: Path, name: str, text: str) -> Entry:
    path = folder / "runs" / "a" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Entry(name, 3)


def test_files__have_their_sizes_and_checksums_whether_or_not_they_were_begun(tmp_path: Path) -> None:
    entries = [written(tmp_path, name, name * 3) for name in ("two", "one")]
    sealing = Sealing(open_store(str(tmp_path)), "runs/a")
    sealing.begin(entries[:1])
    found = sealing.of(entries)
    assert [(one.path, one.rows, one.bytes) for one in found] == [("one", 3, 9), ("two", 3, 9)]
    assert [one.sha256 for one in found] == [hashlib.sha256(one.path.encode() * 3).hexdigest() for one in found]
    sealing.close()


def test_a_file__is_hashed_anew_for_whoever_asks_again(tmp_path: Path) -> None:
    sealing = Sealing(open_store(str(tmp_path)), "runs/a")
    for text in ("first", "again"):
        entry = written(tmp_path, "run.json", text)
        assert sealing.of([entry])[0].sha256 == hashlib.sha256(text.encode()).hexdigest()
    sealing.close()


def test_a_file_that_is_gone_or_short__is_an_error_once_its_checksum_is_wanted(tmp_path: Path) -> None:
    sealing = Sealing(open_store(str(tmp_path)), "runs/a")
    short, gone = Entry(written(tmp_path, "short", "abc").path, 1, 10), Entry("gone", 1)
    sealing.begin([short, gone])
    with pytest.raises(OSError, match="short has 3 bytes where 10 were written"):
        sealing.of([short])
    with pytest.raises(FileNotFoundError):
        sealing.of([gone])
    sealing.close()
