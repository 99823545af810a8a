"""Training from external memory: the same model as whole in memory, chosen by the room that there is, and nothing left on the disk."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.backend import boosting
from pipeline.errors import StageError
from pipeline.plan.explain import Explained
from pipeline.stages.models import _training_rows
from pipeline.stages.models._training_rows import TrainingRows
from pipeline.stages.models._trees import booster as _booster
from pipeline.stages.models._trees import matrices as _matrices
from pipeline.stages.models._trees.booster import Trees
from pipeline.stages.models._trees.matrices import is_external, on_matrices
from pipeline.tables.part import Part, Schema
from pipeline.testing.stages import plan_stage
from tests.stages.models.training import PEOPLE, people, stage_for, train


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Several batches of the rows, and a disk of the test's own."""
    monkeypatch.setattr(_training_rows, "BATCH_ROWS", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("more", [{}, {"categorical": ["group"]}, {"subsample": 0.7, "colsample": 0.75}], ids=str)
def test_external_memory__gives_the_model_of_whole_memory(objective: str, more: dict[str, Any], tmp_path: Path) -> None:
    whole, external = (train(stage_for(objective, memory=memory, **more), PEOPLE) for memory in ("whole", "external"))
    assert external.model == whole.model
    np.testing.assert_array_equal(external.predicted, whole.predicted)
    assert external.metrics == whole.metrics
    assert external.counts == whole.counts | {"external_rows": PEOPLE.height}
    assert list(tmp_path.iterdir()) == []


def test_external_memory__keeps_its_batches_on_the_disk_while_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    telling = _booster.telling

    def watching(learning: Any) -> Any:
        seen.update(path.name.split("-")[0] for path in tmp_path.rglob("*") if path.is_file())
        return telling(learning)

    monkeypatch.setattr(_booster, "telling", watching)
    train(stage_for("regression", memory="external"), PEOPLE)
    assert seen == {"train", "validation"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_validation_rows__go_the_same_way_by_their_values_and_by_their_bins(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, at = pl.Series([3e38, -3e38, 1e-45, None, 0.0]), pl.int_range(pl.len())
    odd = pl.lit(values).gather(at % 5)
    rows = PEOPLE.with_columns(b=pl.when((pl.col("split") == "validation") & (at % 3 == 0)).then(odd).otherwise("b"))
    by_values = train(stage_for(objective, early_stopping_rounds=5), rows)
    monkeypatch.setattr(_matrices, "PLAIN_BYTES", 0)
    by_bins = train(stage_for(objective, early_stopping_rounds=5), rows)
    assert by_values.model == by_bins.model
    assert_frame_equal(by_values.tables["history"], by_bins.tables["history"], check_exact=True)


_MOST = _matrices.OWN_BYTES + 4 * 600 * 4 * 10 // 3


@pytest.mark.parametrize(("limit", "external"), [(None, False), (_MOST - 1, True), (_MOST, False)])
def test_auto__takes_external_memory_for_what_is_more_than_three_tenths_of_what_the_process_leaves_of_the_limit(
    limit: int | None, external: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_matrices, "worker_memory", lambda: limit)
    found = train(stage_for("binary"), people(600))
    assert ("external_rows" in found.counts) == external


def test_auto__has_room_for_more_bins_where_features_stay_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_matrices, "worker_memory", lambda: _matrices.OWN_BYTES + 1_000)
    auto: Trees = Trees("tested", stage_for("binary"), ("a",), ("Float64",), (), 1, "cpu", 1)
    assert [is_external(auto, rows, 1) for rows in (75, 76)] == [False, True]
    assert [is_external(auto, rows, 1, from_disk=True) for rows in (125, 126)] == [False, True]


def test_auto__asks_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_matrices, "gpu_memory", lambda: 1_000)
    auto, whole = (
        Trees("tested", stage_for("binary", memory=memory), ("a",), ("Float64",), (), 1, "gpu", 1) for memory in ("auto", "whole")
    )
    assert is_external(auto, 126, 1)
    assert not is_external(auto, 125, 1)
    assert not is_external(whole, 10**9, 9)


def test_batches__are_on_the_gpu_before_they_are_binned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, str]] = []

    def to_device(array: Any, backend: str) -> Any:
        asked.append((array.shape, backend))
        return array

    monkeypatch.setattr(_matrices, "to_device", to_device)
    monkeypatch.setattr(_matrices, "gpu_memory", lambda: 10**12)
    stage, rows = stage_for("regression", early_stopping_rounds=None), PEOPLE.filter(pl.col("split") == "train")
    learning: Trees = Trees("tested", stage, ("a", "b"), ("Float64", "Float64"), (), 1, "gpu", 1)
    trained = on_matrices(learning, TrainingRows.of(stage, Part(rows)), ["a", "b"], lambda made: made.train.num_row())
    assert trained == rows["regression"].count() == sum(shape[0] for shape, _ in asked)
    assert {backend for _, backend in asked} == {"gpu"}


def test_a_training_on_a_gpu__begins_with_memory_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    pool = SimpleNamespace(free_all_blocks=lambda: done.append("emptied"))
    runtime = SimpleNamespace(deviceSynchronize=lambda: done.append("waited"), memGetInfo=lambda: (1, 80))
    cupy = SimpleNamespace(get_default_memory_pool=lambda: pool, cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    boosting.make_room("cpu")
    assert done == []
    boosting.make_room("gpu")
    assert done == ["emptied", "waited"]
    assert boosting.gpu_memory() == 80


def test_external_memory_over_workers__is_refused() -> None:
    with pytest.raises(StageError, match=r"external memory is of one task\. Leave out workers: all"):
        plan_stage(stage_for("binary", memory="external", workers="all"), {"rows": PEOPLE})
    assert stage_for("binary", workers="all").explained({"rows": Schema(PEOPLE.schema)}) == "memory: whole, each worker's own rows"


def test_the_plan__says_where_the_rows_will_lie() -> None:
    schemas = {"rows": Schema(PEOPLE.schema)}
    for memory, said in (("external", "memory: external"), ("whole", "memory: whole")):
        stage = stage_for("binary", memory=memory)
        assert isinstance(stage, Explained)
        assert stage.explained(schemas) == said
    assert stage_for("binary").explained(schemas).startswith("memory: auto, which is external where 4 features of 32 bits a row are more")
