"""What the tests of unsupervised stages share: points to learn from, a stage run on them with all that it gives, and its model scoring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.registry import stage_class
from pipeline.stage import Context, Stage
from pipeline.stages.models.score import Score
from pipeline.tables.part import concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, cut, even_sizes, run_stage, table_schemas

FEATURES = ["a", "b", "c"]


def blobs(rows: int = 300, seed: int = 20261122) -> pl.DataFrame:
    """Rows around five places of three features of unlike scales, one of them whole numbers, and `split`."""
    random = np.random.default_rng(seed)
    places = np.array([[0.0, 0, 0], [6, 0, 1], [0, 6, 2], [6, 6, 3], [3, -5, 9]])
    found = places[random.choice(5, rows, p=[0.3, 0.25, 0.2, 0.15, 0.1])] + random.normal(size=(rows, 3))
    return pl.DataFrame(
        {
            "id": [f"r{number:04d}" for number in range(rows)],
            "a": found[:, 0] * 10 + 500,
            "b": found[:, 1],
            "c": np.rint(found[:, 2] * 3).astype(np.int64),
            "split": random.choice(["train", "validation", "test"], size=rows, p=[0.6, 0.2, 0.2]),
        }
    )


BLOBS = blobs()


def matrix(frame: pl.DataFrame, columns: Sequence[str] = FEATURES) -> Any:
    """The features as doubles."""
    return frame.select(pl.col(columns).cast(pl.Float64)).to_numpy()


@dataclass(frozen=True)
class Result:
    """All that a stage gave: tables by name, its files' bytes, what its JSON says, metrics, counts, warnings."""

    tables: Mapping[str, pl.DataFrame]
    model: bytes
    description: Mapping[str, Any]
    metrics: Any
    counts: Mapping[str, int]
    warnings: Sequence[str]

    @property
    def rows(self) -> pl.DataFrame:
        """Its own table, by key."""
        return self.tables[""].sort("id")

    def save(self, folder: Path) -> str:
        """The path of its JSON file, once both are written."""
        (folder / "tested.npz").write_bytes(self.model)
        (folder / "tested.json").write_text(json.dumps(self.description))
        return str(folder / "tested.json")

    def scored(self, frame: pl.DataFrame, folder: Path, parts: int = 1) -> pl.DataFrame:
        """What `score` says of rows by the published files, by key."""
        stage = Score(model=self.save(folder)).opened(stage_class)
        return run_stage(stage, {"rows": frame}, parts)[""].sort("id")


def learn(stage: Stage, frame: pl.DataFrame, parts: int | Sequence[int] = 1, session: Session | None = None) -> Result:
    """Run a stage that publishes a model; its tables have the planned schemas."""
    session = session or Session()
    pieces = cut(frame, even_sizes(frame.height, parts) if isinstance(parts, int) else parts)
    schema = table_schemas({"rows": frame})["rows"]
    planned = stage.plan({"rows": schema}, Context("tested", SEED, Session()))
    outcome = stage.run({"rows": Table.of(session, "rows", pieces, schema=schema)}, Context("tested", SEED, session))

    def had(value: Any) -> Any:
        return value.result(60) if session.is_future(value) else value

    tables = {name: concat_parts([had(part) for part in table.futures()]).frame for name, table in outcome.tables.items()}
    assert {name: table.schema for name, table in tables.items()} == {name: table.columns for name, table in planned.items()}
    files = {name: had(value) for name, value in outcome.files.items()}
    assert sorted(files) == ["tested.json", "tested.npz"]
    about = json.loads(files["tested.json"])
    return Result(tables, files["tested.npz"], about, had(outcome.metrics), had(outcome.counts), had(outcome.warnings))
