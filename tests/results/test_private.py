"""What a run writes is for the user alone, unless the environment says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from pipeline.api import load
from pipeline.errors import PlaceError
from pipeline.results.private import file_mask, private
from tests.small import inside

JOB = """\
job: small
inputs: {rows: {format: parquet, path: rows.parquet}}
stages: [{use: filter, from: rows, as: kept, where: a > 0}]
outputs: {kept: {from: kept}}
"""


@pytest.mark.parametrize(("said", "folders", "files"), [(None, 0o700, 0o600), ("027", 0o750, 0o640), ("0022", 0o755, 0o644)])
def test_run__makes_files_for_whom_the_environment_says(
    said: str | None, folders: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIPELINE_UMASK", raising=False)
    if said is not None:
        monkeypatch.setenv("PIPELINE_UMASK", said)
    pl.DataFrame({"a": [1, 2]}).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text(JOB)
    before = os.umask(0o022)
    try:
        with inside(tmp_path):
            load("job.yaml").run()
        assert os.umask(0o022) == 0o022  # as it was
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "results", *(tmp_path / "results").rglob("*")) if not path.is_symlink()]
    assert {path.lstat().st_mode & 0o777 for path in made if path.is_dir()} == {folders}
    assert {path.lstat().st_mode & 0o777 for path in made if path.is_file()} == {files}


@pytest.mark.parametrize("said", ["rw", "77", "07777", "0o77"])
def test_mask__that_is_no_number_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_UMASK", said)
    with pytest.raises(PlaceError, match="three octal digits are needed: 077"):
        file_mask()
    with pytest.raises(PlaceError, match="three octal digits"), private():
        pass
