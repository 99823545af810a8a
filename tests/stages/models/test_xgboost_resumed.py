"""Boosting that was ended goes on from the round that was kept, to the same bytes; where trees are drawn from the end of a block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.plan.fingerprints import digest
from pipeline.results.checkpoints import Keeping
from pipeline.results.remembered import Remembered
from pipeline.results.store import open_store
from pipeline.stage import Context, Outcome
from pipeline.stages.models._trees.blocks import BLOCK
from pipeline.stages.models.xgboost import Xgboost
from pipeline.tables.part import Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, cut
from tests.stages.models.training import PEOPLE, stage_for

KEPT = 6
LONG: dict[str, Any] = {"early_stopping_rounds": None, "rounds": 3 * BLOCK + 5}


def trained(stage: Xgboost, folder: Path) -> Outcome:
    """What the stage gives, which keeps how far it has come in a folder."""
    schema = Schema(PEOPLE.schema)
    rows = Table.of(Session(), "rows", cut(PEOPLE, [PEOPLE.height]), schema=schema)
    remembered = Remembered.of(open_store(str(folder)), ["these rows"], digest)
    return stage.run({"rows": rows}, Context("tested", SEED, Session(), remembered))


@pytest.mark.parametrize(
    ("objective", "more", "found"),
    [
        ("binary", {"categorical": ["group"], "class_weight": "balanced"}, KEPT),
        ("binary", {"memory": "external", "watch": "both"}, KEPT),
        ("multiclass", {"parameters": {"grow_policy": "lossguide", "max_leaves": 5, "gamma": 0.1}}, KEPT),
        ("regression", {"early_stopping_rounds": None, "rounds": 20}, KEPT),
        ("quantile", {"target": "regression", "quantiles": [0.1, 0.9]}, KEPT),
        ("binary", {"subsample": 0.7, **LONG}, 2 * BLOCK),
        ("regression", {"subsample": 0.5, "colsample": 0.5, **LONG}, 2 * BLOCK),
        ("binary", {"parameters": {"colsample_bynode": 0.5, "colsample_bylevel": 0.7}, **LONG}, 2 * BLOCK),
        ("multiclass", {"subsample": 0.8, "parameters": {"grow_policy": "lossguide", "max_leaves": 4}, **LONG}, 2 * BLOCK),
        ("binary", {"subsample": 0.7, "memory": "external", "parameters": {"num_parallel_tree": 2}, **LONG}, 2 * BLOCK),
        ("quantile", {"target": "regression", "quantiles": [0.1, 0.9], "colsample": 0.6, **LONG}, 2 * BLOCK),
        ("binary", {"parameters": {"sampling_method": "uniform"}}, 0),
    ],
)
def test_boosting__goes_on_to_the_same_model(
    objective: str, more: dict[str, Any], found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, asked = stage_for(objective, **more), list[int]()

    def due(keeping: Keeping) -> bool:
        """Keep the first rounds, and then no more: what is left is what a kill would leave."""
        asked.append(1)
        return keeping._place is not None and len(asked) <= (2 if "rounds" in more and stage.rounds == LONG["rounds"] else KEPT)

    with monkeypatch.context() as patched:
        patched.setattr(Keeping, "due", due)
        expected = trained(stage, tmp_path)
    resumed = trained(stage, tmp_path)
    assert resumed.files == expected.files
    assert resumed.metrics == expected.metrics
    assert resumed.tables["history"].value().frame.equals(expected.tables["history"].value().frame)
    assert resumed.counts.get("rounds_found", 0) == found


def test_a_file_that_is_torn__is_no_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_for("binary")
    with monkeypatch.context() as patched:
        patched.setattr(Keeping, "last", lambda _keeping: b"PK\x03\x04 torn")
        assert "rounds_found" not in trained(stage, tmp_path).counts
