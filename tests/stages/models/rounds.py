"""What the tests of federated rounds share: three sites that differ, and rounds over them in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.registry import stage_class
from pipeline.stage import Context, Outcome, Stage
from pipeline.stages.models.federated_average import FederatedAverage
from pipeline.stages.models.federated_start import FederatedStart
from pipeline.stages.models.site_update import SiteUpdate
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED
from tests.stages.models.federation import SITES, leaving, shared

KEPT = str(Path(__file__).parents[2] / "data" / "models" / "shared.json")
"""A model of no round whose parameters are 0 and whose numbers are exact: what a site sends of it is the same on every machine."""

FEATURES = ("age", "dose")
TARGETS = {"binary": "ill", "regression": "days", "multiclass": "grade"}


def rows_of(site: str, rows: int = 90) -> pl.DataFrame:
    """Rows of a site: its ages are its own, and so is how often a target is 1. No value is missing."""
    place = SITES.index(site)
    random = np.random.default_rng(50 + place)
    age, dose, region = random.normal(40 + 12 * place, 9, rows), random.normal(size=rows), random.integers(0, 3, rows)
    score = 0.08 * (age - 50) - 0.9 * dose + 0.5 * (region == 1) + random.logistic(size=rows)
    frame = pl.DataFrame({"id": np.arange(rows) + 1000 * place, "age": age, "dose": dose, "region": region, "days": 3 * score + 20})
    return frame.with_columns(
        ill=(pl.Series(score) > 0).cast(pl.Int8),
        grade=pl.Series(np.digitize(score, [-1.0, 1.0])),
        split=pl.Series(random.choice(["train", "test"], rows, p=[0.8, 0.2])),
    )


def training_rows() -> pl.DataFrame:
    """The training rows of all sites."""
    return pl.concat([rows_of(site) for site in SITES]).filter(split="train")


def kept_rows(site: str) -> pl.DataFrame:
    """Rows for the kept model."""
    place = np.arange(40) + 100 * SITES.index(site)
    return pl.DataFrame({"id": place, "x": place % 7 - 3.0, "code": place % 3, "y": place % 5 / 4, "split": ["train"] * 40})


def kept_stage(site: str) -> SiteUpdate:
    """A site's part of a round of the kept model, in steps far below what is sent."""
    given = {"site": site, "sites": SITES, "study": "kept", "secrets": shared(site), "model": KEPT, "learning_rate": 1e-30}
    return SiteUpdate.model_validate(given).opened(stage_class)


def ran(stage: Stage, rows: pl.DataFrame) -> Outcome:
    """What the stage gives, in this process, of rows in three parts."""
    pieces = [Part(rows[start : start + 40]) for start in range(0, max(rows.height, 1), 40)]
    given = {"rows": Table.of(Session(), "rows", pieces, schema=Schema(rows.schema))}
    stage.plan({"rows": Schema(rows.schema)}, Context("risk", SEED, Session()))
    return stage.run(given, Context("risk", SEED, Session()))


def frame_of(outcome: Outcome) -> pl.DataFrame:
    """Its table."""
    frames: list[pl.DataFrame] = [part.frame for part in outcome.tables[""].futures()]
    return pl.concat(frames)


@dataclass
class Study:
    """A model in a folder, and rounds that make the next one of it."""

    folder: Path
    objective: str = "binary"
    start: dict[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        """Start: sums of three sites, and the model of no round."""
        target = TARGETS[self.objective]
        sums = [leaving(site, rows_of(site).filter(split="train"), target=target, features=FEATURES) for site in SITES]
        stage = FederatedStart.model_validate({"key": "id", "objective": self.objective, **self.start})
        self.publish(ran(stage, pl.concat(sums)))

    @property
    def model(self) -> str:
        """The file that describes the model."""
        return str(self.folder / "risk.json")

    def publish(self, outcome: Outcome) -> None:
        """Write the files."""
        self.outcome = outcome
        for name, content in outcome.files.items():
            (self.folder / name).write_bytes(content)

    def update(self, site: str, /, rows: pl.DataFrame | None = None, **more: Any) -> Outcome:
        """What a site gives."""
        given = {"site": site, "sites": SITES, "study": "one", "secrets": shared(site), "model": self.model, **more}
        stage = SiteUpdate.model_validate(given).opened(stage_class)
        frame = rows_of(site) if rows is None else rows
        return ran(stage, frame.cast({"region": pl.Int64}))

    def average(self, updates: pl.DataFrame, **more: Any) -> Outcome:
        """What comes of the sites' tables."""
        stage = FederatedAverage.model_validate({"model": self.model, "study": "one", **more}).opened(stage_class)
        return ran(stage, updates)

    def rounds(self, count: int, **more: Any) -> None:
        """So many rounds."""
        for _ in range(count):
            tables = [frame_of(self.update(site, **more)) for site in SITES]
            self.publish(self.average(pl.concat(tables)))

    def losses(self) -> list[float]:
        """The pooled losses, before each round."""
        assert self.outcome is not None
        found: list[float] = frame_of(self.outcome)["value"].to_list()
        return found
