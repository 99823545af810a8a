"""Prices of assets at a horizon, path by path, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.devices import Backend
from pipeline.kernels.asset_paths import Market, log_prices
from pipeline.stage import Context, Outcome
from pipeline.stages.finance._simulated import Simulated, frame_of, given, nowhere
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

BLOCK = 1 << 14  # paths


class SimulatePrices(Simulated, name="simulate_prices", version=1):
    """Simulate the prices of assets at a horizon: a row a path and asset (path, asset, price), for payoffs and measures of one's own.

    `assets` and `correlations` are as `portfolio_risk` reads them, and so are the models; with the same seed the paths are the same. They
    are all kept, so ask for as many as a table may have rows; `portfolio_risk` takes far more. Prices are not discounted: for what
    something is worth today, give each asset the drift of the rate without risk less its dividend yield, and discount the mean.

    Example:
        {use: simulate_prices, from: {assets: assets, correlations: correlations}, as: prices, paths: 100000, horizon_days: 126}
    """

    roles: ClassVar[tuple[str, ...]] = ("assets", "correlations")
    counts: ClassVar[Mapping[str, Count]] = {"paths": Count("paths")}

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A price's columns. Raises StageError for tables that do not fit."""
        self.check_market(schemas)
        asset = schemas["assets"].columns["asset"]
        return {"": Schema(pl.Schema({"path": pl.Int64(), "asset": asset, "price": pl.Float64()}))}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        import_module("pipeline.kernels.compiled.asset_paths")
        import_module("pipeline.kernels.compiled.philox")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The paths of every part."""
        seed, name = context.seed if self.seed is None else self.seed, context.name
        assets, correlations = (given(tables, role) for role in self.roles)
        market = context.session.submit(self.named_market, assets, correlations, seed, stage=name)
        return Outcome({"": self.ranges(context).map_parts(_priced, market, context.session.backend)})

    def named_market(self, assets: Part, correlations: Part | None, seed: int) -> tuple[pl.Series, Market]:
        """The assets' names, and their market."""
        frame, market = self.market(assets.frame, frame_of(correlations), seed)
        return frame["asset"], market


def _priced(part: Part, named: tuple[pl.Series, Market], backend: Backend) -> Part:
    """The prices on the paths of a part."""
    (names, market), (first, last) = named, part.frame.row(0)
    xp = array_module(nowhere(backend))
    blocks = [
        to_host(xp.exp(xp.stack(log_prices(xp.arange(start, min(start + BLOCK, last), dtype=np.uint64), market), axis=1))).ravel()
        for start in range(first, last, BLOCK)
    ]
    asset = names.gather(np.tile(np.arange(len(names)), last - first))
    columns = {"path": np.repeat(np.arange(first, last), len(names)), "asset": asset, "price": np.concatenate(blocks)}
    return Part(pl.DataFrame(columns), counts={"paths": last - first})
