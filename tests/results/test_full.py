"""A disk that is full: what a run says of it, and that its record says that it failed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from pipeline.errors import DataError, RunError
from pipeline.results import full
from pipeline.results.checkpoints import Checkpoint
from pipeline.results.publish import Results
from pipeline.results.store import open_store
from tests.small import inside, last_record, run_main, write_small_job

SmallDisk = Callable[[int], Path]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Mounts a disk of so many kilobytes."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root of a Linux machine mounts a small disk")
    place = tmp_path / "small"
    place.mkdir()

    def mounted(kilobytes: int) -> Path:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)], check=False).returncode:
            pytest.skip("this container may not mount a disk")
        return place

    yield mounted
    subprocess.run(["umount", str(place)], check=False, capture_output=True)


def test_full__disk_of_the_results_fails_the_run_by_one_error_and_run_json_says_so(tmp_path: Path, small_disk: SmallDisk) -> None:
    place = small_disk(16) / "results"
    write_small_job(tmp_path)
    with inside(tmp_path):
        ended = run_main("job.yaml", "--quiet", "--out", str(place))
    record = last_record(place)
    first, second = ended.err.splitlines()
    assert ended.code == 1
    assert "is full (0 bytes of 16.4 kB are free). Make room there, or choose another place with --out." in first
    assert second.endswith("run.json has the record of this run; no result was published.")
    assert (record["status"], f"error: {record['error']}") == ("failed", first)
    assert {path.name for path in (place / "runs").rglob("*") if path.is_file()} == {
        "run.json"
    }  # a stage that took long may be kept beside it
    assert not (place / "current").exists()


def test_full__disk_is_freed_of_the_runs_own_files_before_its_record_is_written(small_disk: SmallDisk) -> None:
    place = small_disk(256)
    document = {"run": "x", "status": "failed", "more": "m" * 50_000}
    with Results(str(place)).open_run() as folder:
        with suppress(OSError):
            for number in range(100):
                folder.write_bytes(f"table/{number}", bytes(10_000))
        with pytest.raises(OSError, match="No space left"):
            folder.write_json("run.json", document)
        folder.clear()
        folder.write_last(document)
        assert json.loads((Path(folder.path) / "run.json").read_text()) == document
        assert [path.name for path in Path(folder.path).iterdir()] == ["run.json"]


def test_full__record_is_written_in_short_where_nothing_can_be_freed(small_disk: SmallDisk) -> None:
    place = small_disk(64)
    with Results(str(place)).open_run() as folder:
        with suppress(OSError):
            (place / "filling").write_bytes(bytes(100_000))
        folder.write_last({"run": folder.id, "status": "failed", "error": "why", "more": "m" * 9_000})
    record = json.loads((Path(folder.path) / "run.json").read_text())
    assert (record["run"], record["status"], record["error"]) == (folder.id, "failed", "why")
    assert "more" not in record


def test_full__disk_of_a_checkpoint_is_named_and_not_that_of_temporary_files(small_disk: SmallDisk) -> None:
    place = small_disk(64)
    kept = Checkpoint(open_store(str(place)), "key")
    kept.keep(b"former")
    with pytest.raises(RunError, match=rf"the disk of {place}/checkpoints is full \(.*--out"):
        kept.keep(bytes(100_000))
    assert kept.last() == b"former"


def test_full__disk_is_told_by_number_by_words_and_by_what_an_error_came_of() -> None:
    assert full.is_full(OSError(errno.ENOSPC, "No space left on device"))
    assert full.is_full(pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)"))
    assert not full.is_full(OSError(errno.EACCES, "Permission denied"))
    error = ValueError("not written")
    error.__cause__ = OSError(errno.EDQUOT, "Disk quota exceeded")
    assert full.is_full(error)


def test_full__disk_that_is_written_to_is_named_with_its_remedy(tmp_path: Path) -> None:
    said = r"the disk of .*/here/table is full \(.* of .* are free\)\. Make room there, or .* --out"
    with pytest.raises(RunError, match=said), full.on_disk_of(f"{tmp_path}/here/table"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(DataError, match="No space left"), full.on_disk_of(str(tmp_path)):
        raise DataError("No space left in this bed")
    with pytest.raises(ValueError, match="wrong"), full.on_disk_of(str(tmp_path)):
        raise ValueError("wrong")
    said = full.fault_text(OSError(errno.ENOSPC, "No space left on device"), str(tmp_path))
    assert "TMPDIR" in said or "DASK_TEMPORARY_DIRECTORY" in said
    assert full.fault_text(ValueError("wrong")) == "ValueError: wrong"
