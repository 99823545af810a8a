"""What stages share that simulate prices: assets that move together until a horizon. Not a stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_device
from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.kernels.asset_paths import Market
from pipeline.kernels.philox import key_of
from pipeline.stage import Context, Whole
from pipeline.stages.finance._book import HESTON, assets_of, check_assets, check_correlations, loadings_of
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

MOST_STEPS = 100_000
TASKS, LEAST = 256, 1 << 16  # tasks at most, and paths of one at least: the number of workers says nothing


class Simulated(Whole):
    """The parameters of a simulation."""

    optional: ClassVar[frozenset[str]] = frozenset({"correlations"})

    paths: int = Field(1_000_000, ge=1_000, le=100_000_000_000, description="Paths to simulate.")
    horizon_days: int = Field(10, ge=1, le=10_000, description="Trading days until the horizon.")
    days_per_year: int = Field(252, ge=200, le=366, description="Trading days of a year.")
    copula: Literal["gaussian", "student_t"] = Field("gaussian", description="What ties the assets' moves together.")
    degrees_of_freedom: int | None = Field(None, ge=1, le=100, description="Of copula student_t: the fewer, the more assets fall together.")
    steps_per_day: int = Field(4, ge=1, le=1_000, description="Steps a day, where an asset is of Heston's model.")
    seed: int | None = Field(None, ge=0, description="Another seed, other paths; the job's seed where it is not given.")

    @property
    def years(self) -> float:
        """Until the horizon."""
        return self.horizon_days / self.days_per_year

    def check_market(self, schemas: Mapping[str, Schema]) -> None:
        """Raise StageError for tables and parameters that do not fit."""
        check_assets(schemas["assets"])
        if "correlations" in schemas:
            check_correlations(schemas["correlations"])
        if (steps := self.horizon_days * self.steps_per_day) > MOST_STEPS:
            raise StageError(f"a path would have {steps:,} steps, and {MOST_STEPS:,} are the most. Take fewer a day.", key="steps_per_day")
        if (self.copula == "student_t") != (self.degrees_of_freedom is not None):
            raise StageError("copula student_t needs degrees_of_freedom, say 4, and no other copula has them", key="degrees_of_freedom")

    def market(self, assets: pl.DataFrame, correlations: pl.DataFrame | None, seed: int) -> tuple[pl.DataFrame, Market]:
        """The assets in their order, and the market. Raises DataError for values that cannot be."""
        frame, found = assets_of(assets)
        if self.degrees_of_freedom and any(asset.heston for asset in found):
            name = next(name for name, asset in zip(frame["asset"], found, strict=True) if asset.heston)
            raise DataError(
                f"asset {name!r} is of Heston's model, and a t copula ties moves over the whole horizon, where no variance may move. "
                f"Leave {HESTON[0]} and the others empty, or take copula: gaussian.",
                key="copula",
            )
        loadings = loadings_of(correlations, frame)
        steps = self.horizon_days * self.steps_per_day
        return frame, Market(found, loadings, self.years, steps, self.degrees_of_freedom, key_of(seed))

    def ranges(self, context: Context) -> Table:
        """A part a task: the first of its paths, and the last, not included."""
        size = max(LEAST, -(-self.paths // TASKS))
        starts = range(0, self.paths, size)
        parts = [Part(pl.DataFrame({"first": [start], "last": [min(start + size, self.paths)]})) for start in starts]
        return Table.of(context.session, context.name, parts)


def given(tables: Mapping[str, Table], role: str) -> Any:
    """The whole of a table as a small value; None where the job gives none."""
    return tables[role].value() if role in tables else None


def frame_of(part: Part | None) -> pl.DataFrame | None:
    """The frame of such a value."""
    return None if part is None else part.frame


def nowhere(backend: Backend) -> Any:
    """An array of nothing, which lies where arrays of the backend do."""
    return to_device(np.empty(0), backend)
