"""The champion: promoted, rolled back, never removed, and found by score's path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from pipeline.errors import PlaceError
from pipeline.models import main, models_of
from pipeline.results.champion import promote, read_champion, roll_back
from pipeline.results.manifest import Entry
from pipeline.results.publish import Results


def publish(place: str, auc: float = 0.7, *, model: bool = True, keep: int = 5) -> str:
    """A run with a model of that AUC; its id."""
    with Results(place, keep).open_run() as run:
        with fsspec.open(run.file("table/part-00000.csv"), "wb") as file:
            file.write(b"a\n1\n")
        run.write_json("run.json", {"status": "done"})
        run.write_json("metrics.json", {"late": {"train": {"auc": 0.99}, "test": {"auc": auc}}})
        if model:
            run.write_json("models/late.json", {"auc": auc})
            run.write_bytes("models/late.ubj", b"trees")
        run.commit([Entry("table/part-00000.csv", rows=1)])
        return run.id


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A results folder, and a URL, which has neither links nor a lock."""
    if request.param == "folder":
        yield str(tmp_path / "results")
        return
    yield "memory://champions/job"
    fs = fsspec.filesystem("memory")
    if fs.exists("/champions"):
        fs.rm("/champions", recursive=True)


def test_promote__makes_a_run_the_champion_and_no_later_run_changes_it(place: str) -> None:
    assert read_champion(place) is None
    first = publish(place)
    assert promote(place, why="the first").run == first
    second = publish(place)
    found = read_champion(place)
    assert found is not None
    assert (found.run, found.why, found.before) == (first, "the first", ())
    assert promote(place, second).before == [first]
    assert promote(place, second).before == (first,)  # once more is no news


def test_roll_back__goes_to_the_champions_before_one_after_the_other(place: str) -> None:
    runs = [publish(place) for _ in range(3)]
    for run in runs:
        promote(place, run)
    assert [roll_back(place).run for _ in range(2)] == [runs[1], runs[0]]
    with pytest.raises(PlaceError, match="there is no champion before this one"):
        roll_back(place)
    found = read_champion(place)
    assert found is not None
    assert (found.run, found.why) == (runs[0], f"rolled back from {runs[1]}")


def test_champion__and_the_one_before_it_outlive_the_runs_that_are_kept(place: str) -> None:
    first, second = publish(place, keep=1), publish(place, keep=1)
    promote(place, first)
    promote(place, second)
    for _ in range(4):
        publish(place, keep=1)
    kept = [line["run"] for line in models_of(place)]
    assert {first, second} <= {*kept}
    assert len(kept) == 4
    assert roll_back(place).run == first


def test_promote__refuses_what_cannot_be_used(place: str) -> None:
    with pytest.raises(PlaceError, match="no run has been published there"):
        promote(place)
    bare = publish(place, model=False)
    with pytest.raises(PlaceError, match=f"the run {bare} has no model"):
        promote(place)
    good = publish(place)
    with pytest.raises(PlaceError, match=f"there is no whole run '{good[:-1]}x': .* Did you mean '{good}'"):
        promote(place, f"{good[:-1]}x")
    assert read_champion(place) is None


def test_champion__is_a_link_that_score_can_be_told(tmp_path: Path) -> None:
    place = tmp_path / "results"
    publish(str(place), 0.6)
    promote(str(place))
    publish(str(place), 0.8)
    assert json.loads((place / "champion/models/late.json").read_text()) == {"auc": 0.6}
    assert json.loads((place / "current/models/late.json").read_text()) == {"auc": 0.8}


def test_champion__that_is_damaged_keeps_every_run(tmp_path: Path) -> None:
    place = tmp_path / "results"
    first = publish(str(place), keep=0)
    (place / "champion.json").write_text("{")
    with Results(str(place), 0).open_run() as run:
        run.write_json("run.json", {})
        run.commit()
        assert "champion.json is damaged" in run.warnings[0]
    assert (place / "runs" / first).exists()
    with pytest.raises(PlaceError, match=r"damaged.*Promote a run"):
        read_champion(str(place))


def test_promote__waits_for_no_living_run(tmp_path: Path) -> None:
    place = str(tmp_path / "results")
    publish(place)
    with Results(place).open_run(), pytest.raises(PlaceError, match="another run writes there"):
        promote(place)


def test_models__lists_promotes_and_rolls_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "results")
    first, second = publish(place, 0.61), publish(place, 0.72)
    assert main([place]) == 0
    said = capsys.readouterr().out
    assert said.index(second) < said.index(first)
    assert "late: test auc 0.72" in said
    assert "no champion yet" in said
    assert main([place, "--promote", first]) == 0
    assert main([place, "--promote", "current", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["champion"] == second
    assert main([place, "--roll-back"]) == 0
    assert main([place, "--json"]) == 0
    lines = json.loads("\n".join(capsys.readouterr().out.splitlines()[1:]))
    assert [(line["run"], line["marks"]) for line in lines] == [(second, ["current"]), (first, ["champion"])]
    assert main([place, "--promote", "nosuch"]) == PlaceError.exit_code
    assert "error: " in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert "no run there has a model" in capsys.readouterr().out
