"""What the tests of matrix_factorization share: interactions of users who like one group of items, and the stage run on them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.stage import Context
from pipeline.stages.models.matrix_factorization import MatrixFactorization
from pipeline.tables.part import Part, added_counts, concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, cut, table_schemas

GROUPS = 4


def interactions(users: int = 120, items: int = 40, seed: int = 1) -> pl.DataFrame:
    """user, item, stars, day: everybody takes item 0 first, and then mostly items of their own group; some of them twice."""
    random = np.random.default_rng(seed)
    of_user, of_item = random.integers(0, GROUPS, users), random.integers(0, GROUPS, items)
    rows = []
    for user in range(users):
        likes = np.where(of_item == of_user[user], 1.0, 0.04)
        taken = [0, *random.choice(items, random.integers(1, 12), p=likes / likes.sum())]
        days = np.sort(random.choice(400, len(taken), replace=False))
        rows += [(f"u{user:03d}", int(item), int(random.integers(1, 6)), int(day)) for item, day in zip(taken, days, strict=True)]
    frame = pl.DataFrame(rows, schema=["user", "item", "stars", "day"], orient="row")
    return frame.sample(fraction=1, shuffle=True, seed=seed)


ROWS = interactions()


def stage_for(**given: Any) -> MatrixFactorization:
    """The stage for `interactions`, small."""
    shape = {"user": "user", "item": "item", "weight": "stars", "factors": 6, "rounds": 6, "regularization": 0.5, "top": 5}
    return MatrixFactorization.model_validate({**shape, **({"alpha": 4.0} if given.get("method") != "bpr" else {}), **given})


@dataclass(frozen=True)
class Result:
    """All that the stage gave; `counts` are its own, `lost` those of its rows."""

    lists: pl.DataFrame
    items: pl.DataFrame
    losses: list[float]
    model: bytes
    description: dict[str, Any]
    metrics: dict[str, dict[str, float]]
    counts: dict[str, int]
    lost: Mapping[str, int]

    @property
    def arrays(self) -> dict[str, Any]:
        """What is in the model's file."""
        with np.load(io.BytesIO(self.model), allow_pickle=False) as file:
            return dict(file)


class Counting(Session):
    """Tasks at once in this process; what the parts counted is kept."""

    def __init__(self) -> None:
        self.counted: list[Mapping[str, int]] = []

    def measure(self, name: str | None, stage: str, parts: Sequence[Part]) -> None:
        self.counted += [part.counts for part in parts]


def learn(stage: MatrixFactorization, rows: pl.DataFrame = ROWS, sizes: Sequence[int] = (), session: Session | None = None) -> Result:
    """Run the stage on rows, cut into parts of those sizes; what it gives has the planned schemas."""
    session = session or Counting()
    parts = cut(rows, sizes or [rows.height])
    schema = table_schemas({"rows": parts[0]})["rows"]
    planned = stage.plan({"rows": schema}, Context("tested", SEED, Session()))
    outcome = stage.run({"rows": Table.of(session, "rows", parts, schema=schema)}, Context("tested", SEED, session))

    def value(of: Any) -> Any:
        return of.result() if session.is_future(of) else of

    tables = {name: concat_parts([value(part) for part in table.futures()]).frame for name, table in outcome.tables.items()}
    assert {name: frame.schema for name, frame in tables.items()} == {name: schema.columns for name, schema in planned.items()}
    lost = {name.split(":")[-1]: count for name, count in added_counts(getattr(session, "counted", [])).items()}
    model, description = (value(outcome.files[f"tested.{suffix}"]) for suffix in ("npz", "json"))
    losses = tables["history"]["value"].to_list()
    numbers = value(outcome.metrics), value(outcome.counts)
    return Result(tables[""], tables["items"], losses, model, json.loads(description), *numbers, lost)
