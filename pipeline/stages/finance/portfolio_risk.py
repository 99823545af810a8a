"""What a portfolio may lose until a horizon: value at risk and expected shortfall by Monte Carlo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import StageError
from pipeline.kernels.position_losses import Book, greatest_loss, path_blocks, position_losses, unit_of
from pipeline.kernels.tail_measures import LevelRisk, Z, level_risks
from pipeline.kernels.tail_risk import BINS, Cuts, TailSums, added, exact, first_paths, split, tail_sums
from pipeline.stage import Context, Outcome
from pipeline.stages.finance._book import check_positions, positions_of
from pipeline.stages.finance._simulated import Simulated, frame_of, given, nowhere
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Level = Annotated[float, Field(gt=0.5, lt=1)]
BEYOND = 10  # paths beyond a level, at least
SIZED = 4  # blocks of paths whose losses say what a unit is
TOGETHER = 32  # blocks whose sums are held before they are added up
MEASURES = (
    "value_at_risk",
    "value_at_risk_low",
    "value_at_risk_high",
    "expected_shortfall",
    "expected_shortfall_low",
    "expected_shortfall_high",
)


class PortfolioRisk(Simulated, name="portfolio_risk", version=1):
    """Say which loss of a portfolio is exceeded by a horizon with probability 1 - level (value at risk), and the mean loss beyond it.

    `assets` have a row each: asset, spot (the price now), drift (the mean price grows by exp(drift) a year), volatility (a year's, 0.2 for
    20 %), and if wanted dividend_yield. They are geometric Brownian motions; of Heston's model where mean_reversion, long_variance,
    volatility_of_variance and spot_variance_correlation are given (the variance now is volatility squared). `correlations` have a row for
    every pair of assets: asset, other, correlation, of the normal numbers that move them; one asset needs none.

    `positions` have a row each: position (its name), asset, quantity (negative: owed or written), and where there are options kind
    (share, call or put), strike, expiry_years and if wanted implied_volatility, which stays as it is (the asset's volatility where it is
    missing). Options are European, are worth what Black and Scholes say at the yearly `rate`, and none expires before the horizon.

    Losses are in the prices' currency, of the value now against the value at the horizon, not discounted; gains are negative. A row a
    level: both measures, each with an interval that holds with 95 %. NAME.contributions says what each position adds to them (Euler's
    allocation: they sum to the whole); NAME.losses counts losses by bins, the first and last without end. Metrics are the value now, the
    mean loss and its standard deviation. A path's numbers come from its own number and the seed, so workers, parts and their order
    change no digit.

    Example:
        {use: portfolio_risk, from: {positions: positions, assets: assets, correlations: correlations}, as: risk, levels: [0.99]}
    """

    roles: ClassVar[tuple[str, ...]] = ("positions", "assets", "correlations")
    counts: ClassVar[Mapping[str, Count]] = {"paths": Count("paths"), "assets": Count("assets"), "positions": Count("positions")}

    levels: tuple[Level, ...] = Field((0.95, 0.99), min_length=1, description="Probabilities of not losing more.")
    rate: float = Field(0.0, gt=-1, lt=1, description="Yearly rate without risk, continuously compounded, that options are valued with.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Levels, positions and bins. Raises StageError for tables that do not fit, and for too few paths."""
        self.check_market(schemas)
        check_positions(schemas["positions"])
        if (beyond := self.paths * (1 - max(self.levels))) < BEYOND - 1e-6:
            raise StageError(
                f"{self.paths:,} paths leave {beyond:.1f} beyond level {max(self.levels)}, and {BEYOND} are needed. Ask for more.",
                key="paths",
            )
        columns = schemas["positions"].columns
        told = {"position": columns["position"], "asset": columns["asset"], "kind": pl.String(), "value": pl.Float64()}
        parts = {"level": pl.Float64(), "value_at_risk": pl.Float64(), "expected_shortfall": pl.Float64()}
        return {
            "": Schema(pl.Schema({"level": pl.Float64(), "paths": pl.Int64(), **dict.fromkeys(MEASURES, pl.Float64())})),
            "contributions": Schema(pl.Schema({**told, **parts})),
            "losses": Schema(pl.Schema({"low": pl.Float64(), "high": pl.Float64(), "paths": pl.Int64()})),
        }

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        import_module("pipeline.kernels.compiled.asset_paths")
        import_module("pipeline.kernels.compiled.philox")
        import_module("pipeline.kernels.compiled.black_scholes")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The first paths, which say where the quantiles lie; all paths, in parts; and what they come to."""
        submit, name, backend = context.session.submit, context.name, context.session.backend
        seed = context.seed if self.seed is None else self.seed
        parts = [given(tables, role) for role in self.roles]
        book = submit(self.book, *parts, seed, stage=name)
        cuts = submit(self.scouted, book, backend, stage=name)
        sums = self.ranges(context).reduce(_summed, added, book, cuts, backend)
        found = submit(self.found, book, cuts, sums, backend, stage=name)
        tables_of = {each: submit(_table, found, each, stage=name, on_host=True) for each in ("", "contributions", "losses")}
        made = {each: Table.of(context.session, name, [future]) for each, future in tables_of.items()}
        metrics, counts = (submit(getattr, found, what, stage=name, on_host=True) for what in ("metrics", "counts"))
        return Outcome(made, metrics=metrics, counts=counts)

    def book(self, positions: Part, assets: Part, correlations: Part | None, seed: int) -> Portfolio:
        """The portfolio. Raises DataError for values that cannot be."""
        frame, market = self.market(assets.frame, frame_of(correlations), seed)
        owned, found = positions_of(positions.frame, frame, self.years, self.rate)
        return Portfolio(Book(market, found), owned.select("position", "asset", "kind", "value"))

    def scouted(self, portfolio: Portfolio, backend: Backend) -> Scouted:
        """What the first paths say: the unit of losses, and where the quantiles lie."""
        blocks = list(path_blocks(0, first_paths(self.paths), portfolio.book, nowhere(backend)))
        unit = unit_of(max(greatest_loss(paths, portfolio.book) for paths in blocks[:SIZED]))
        losses = [to_host(position_losses(paths, portfolio.book, unit).sum(axis=0)) for paths in blocks]
        return Scouted(unit, Cuts.of(np.concatenate(losses), self.levels, self.paths))

    def found(self, portfolio: Portfolio, scouted: Scouted, sums: TailSums, backend: Backend) -> Measured:
        """Tables, metrics and counts."""
        unit, cuts = scouted.unit, scouted.cuts
        risks = level_risks(cuts, sums, partial(_losses_of, portfolio.book, unit, backend))
        rows = [_row(risk, sums.paths, unit) for risk in risks]
        parts = [
            portfolio.positions.with_columns(
                level=pl.lit(risk.level),
                value_at_risk=pl.Series(risk.value_parts * unit),
                expected_shortfall=pl.Series(risk.shortfall_parts * unit),
            )
            for risk in risks
        ]
        edges = (cuts.origin + (np.arange(BINS + 1, dtype=np.float64) * 2.0**cuts.shift)) * unit
        losses = pl.DataFrame({"low": [None, *edges], "high": [*edges, None], "paths": sums.histogram}).cast({"paths": pl.Int64})
        mean = float(exact(sums.total).sum()) * unit / sums.paths
        first, second = exact(sums.moments) / sums.paths
        spread = float(np.sqrt(max(second - first * first, 0.0))) * 2.0**cuts.coarse * unit
        value = float(portfolio.positions["value"].sum())
        return Measured(
            {"": pl.DataFrame(rows), "contributions": pl.concat(parts), "losses": losses},
            {"value": value, "mean_loss": mean, "standard_deviation": spread},
            {"paths": sums.paths, "assets": len(portfolio.book.market.assets), "positions": len(portfolio.book.positions)},
        )


@dataclass(frozen=True)
class Portfolio:
    """A book, and its positions as rows."""

    book: Book
    positions: pl.DataFrame


@dataclass(frozen=True)
class Scouted:
    """The unit of losses, and between which of them the quantiles lie."""

    unit: float
    cuts: Cuts


@dataclass(frozen=True)
class Measured:
    """What the stage gives."""

    tables: Mapping[str, pl.DataFrame]
    metrics: Mapping[str, float]
    counts: Mapping[str, int]


def _summed(part: Part, portfolio: Portfolio, scouted: Scouted, backend: Backend) -> TailSums:
    """The sums over the paths of a part."""
    first, last = part.frame.row(0)
    found = list[TailSums]()
    for paths in path_blocks(first, last, portfolio.book, nowhere(backend)):
        sums = tail_sums(position_losses(paths, portfolio.book, scouted.unit), paths, scouted.cuts)
        found = [added([*found, sums])] if len(found) == TOGETHER else [*found, sums]
    return added(found).on_host()


def _losses_of(book: Book, unit: float, backend: Backend, paths: Any) -> Any:
    """The positions' losses on these paths, summed, `float64[p]`: their numbers make them again."""
    total = np.zeros((2, len(book.positions)), np.int64)
    block = len(next(path_blocks(0, 1 << 40, book, nowhere(backend))))
    for start in range(0, len(paths), block):
        losses = position_losses(to_device(paths[start : start + block], backend), book, unit)
        total += to_host(split(losses.sum(axis=1)))
    return exact(total)


def _row(risk: LevelRisk, paths: int, unit: float) -> dict[str, Any]:
    apart = Z * risk.shortfall_error
    measures = (risk.value, risk.low, risk.high, risk.shortfall, risk.shortfall - apart, risk.shortfall + apart)
    return {"level": risk.level, "paths": paths, **{name: value * unit for name, value in zip(MEASURES, measures, strict=True)}}


def _table(found: Measured, name: str) -> Part:
    return Part(found.tables[name])
