"""What a run writes stays in its results folder: links that lead out of it are refused, and what they lead to is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import PlaceError
from pipeline.results.links import OWN, refuse_root
from pipeline.results.publish import Results
from tests.small import inside, run_main, write_small_job


@pytest.mark.parametrize("name", OWN)
def test_links__name_that_a_run_writes_is_no_link_to_elsewhere(name: str, tmp_path: Path) -> None:
    place, other = tmp_path / "results", tmp_path / "other"
    place.mkdir()
    if name in {"lock", "current.json", "champion.json"}:
        other.write_text("mine")
    else:
        other.mkdir()
        (other / "mine").write_text("mine")
    (place / name).symlink_to(other)
    with pytest.raises(PlaceError, match=rf"results: {name} is a link to .*/other, and what is written here must stay here\. Remove"):
        Results(str(place)).open_run()
    assert (other if other.is_file() else other / "mine").read_text() == "mine"
    assert [path.name for path in (other.iterdir() if other.is_dir() else ())] == (["mine"] if other.is_dir() else [])


def test_links__pointer_leads_to_a_run_of_its_own_folder(tmp_path: Path) -> None:
    place, other = tmp_path / "results", tmp_path / "runs" / "other"
    with Results(str(place)).open_run() as run:
        run.commit()
    other.mkdir(parents=True)
    current = place / "current"
    current.unlink()
    current.symlink_to(place / "runs" / run.id)
    with Results(str(place)).open_run():
        pass
    current.unlink()
    current.symlink_to(other)
    with pytest.raises(PlaceError, match=r"current is a link to .*/other"):
        Results(str(place)).open_run()


def test_links__lock_that_becomes_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "other").write_text("mine")
    (tmp_path / "results" / "lock").symlink_to(tmp_path / "other")
    monkeypatch.setattr("pipeline.results.on_disk.refuse_links", lambda *_: None)
    with pytest.raises(PlaceError, match="results cannot be written there"):
        Results(str(tmp_path / "results")).open_run()
    assert (tmp_path / "other").read_text() == "mine"


def test_links__results_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "large")
    with Results(str(tmp_path / "results")).open_run() as run:
        run.commit()
    assert (tmp_path / "large" / "current").exists()


def test_links__root_of_a_file_system_is_no_place_for_results(tmp_path: Path) -> None:
    for place in ("/", "//", "/tmp/..", f"{tmp_path}/{'../' * 40}"):
        with pytest.raises(PlaceError, match="results need a folder of their own, and this is the root of the file system"):
            refuse_root(place)
    refuse_root(str(tmp_path))
    write_small_job(tmp_path)
    with inside(tmp_path):
        ended = run_main("job.yaml", "--out", "/", "--check")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: /: results need a folder of their own, and this is the root of the file system. Give one with --out.\n"
