"""Values that are kept from run to run: found by all that they depend on, and by nothing less."""

from __future__ import annotations

from pathlib import Path

from pipeline.plan.fingerprints import digest
from pipeline.results.remembered import Remembered
from pipeline.results.store import open_store


def remembered(folder: Path, *about: str) -> Remembered:
    found = Remembered.of(open_store(str(folder)), about, digest)
    assert found is not None
    return found


def test_a_value__is_found_by_what_it_is_of(tmp_path: Path) -> None:
    value = {"metrics": {"validation": {"auc": 0.1 + 0.2, "log_loss": None}}}
    remembered(tmp_path, "rows").keep(["xgboost", {"max_depth": 3}], value)
    assert remembered(tmp_path, "rows").find(["xgboost", {"max_depth": 3}]) == value
    assert remembered(tmp_path, "rows").find(["xgboost", {"max_depth": 4}]) is None
    assert remembered(tmp_path, "other rows").find(["xgboost", {"max_depth": 3}]) is None


def test_a_value__that_is_kept_again_stays_as_it_was(tmp_path: Path) -> None:
    first = remembered(tmp_path)
    for value in (1, 2):
        first.keep("a", {"value": value})
    assert first.find("a") == {"value": 1}


def test_a_torn_value__is_none(tmp_path: Path) -> None:
    first = remembered(tmp_path)
    first.keep("a", {"value": 1})
    (manifest,) = tmp_path.glob("remembered/*/manifest.json")
    manifest.write_text(manifest.read_text()[:-20])
    assert first.find("a") is None
    first.keep("a", {"value": 2})
    assert first.find("a") == {"value": 2}


def test_results_at_a_url__keep_nothing() -> None:
    assert Remembered.of(open_store("memory://results"), (), digest) is None
