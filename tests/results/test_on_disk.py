"""A folder of this machine, without fsspec, beside what fsspec says of the same folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.results.at_url import Store
from pipeline.results.on_disk import LocalStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files in folders, an empty folder, links to a file and to a folder."""
    (tmp_path / "runs" / "one" / "deep").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "top.json").write_bytes(b"{}")
    (tmp_path / "runs" / "one" / "a.parquet").write_bytes(b"x" * 1000)
    (tmp_path / "runs" / "one" / "deep" / "b c.parquet").write_bytes(b"y" * 10)
    (tmp_path / "current").symlink_to("runs/one", target_is_directory=True)
    (tmp_path / "same.json").symlink_to("top.json")
    return tmp_path


@pytest.mark.parametrize("name", ["", "runs", "runs/one", "empty", "nowhere", "current", "top.json/x"])
def test_local_store__says_of_a_folder_what_fsspec_does(folder: Path, name: str) -> None:
    ours, theirs = LocalStore(str(folder), str(folder)), Store(str(folder), str(folder))
    assert ours.sizes(name) == theirs.sizes(name)
    assert ours.has(name) == theirs.has(name)
    if name != "top.json/x":  # of which fsspec raises
        assert sorted(ours.folders(name)) == sorted(set(theirs.folders(name)) - {"current"})


def test_local_store__reads_hashes_and_copies_as_fsspec_does(folder: Path) -> None:
    ours, theirs = LocalStore(str(folder), str(folder)), Store(str(folder), str(folder))
    for name in ("top.json", "runs/one/a.parquet", "same.json"):
        assert ours.read(name) == theirs.read(name)
        assert ours.digest(name) == theirs.digest(name)
    ours.upload(folder / "top.json", "new/folder/copy.json")
    assert theirs.read("new/folder/copy.json") == b"{}"
    for store in (ours, theirs):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            store.read("nowhere")
        with pytest.raises(FileNotFoundError, match="nowhere"):
            store.digest("nowhere")


def test_local_store__removes_files_folders_and_links_and_no_more(folder: Path) -> None:
    store = LocalStore(str(folder), str(folder))
    for name in ("current", "same.json", "nowhere"):
        store.remove(name)
    assert sorted(store.sizes("")) == ["runs/one/a.parquet", "runs/one/deep/b c.parquet", "top.json"]
    store.remove("runs/one/a.parquet")
    store.remove("runs")
    assert [path.name for path in sorted(folder.iterdir())] == ["empty", "top.json"]


@pytest.mark.process
def test_local_store__imports_no_library_for_it(folder: Path) -> None:
    program = "import sys; from pipeline.results.store import open_store; open_store(sys.argv[1]).sizes(''); print('fsspec' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
