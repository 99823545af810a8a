"""Assets, their correlations and positions: tables read into a market and a book. Not a stage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError, StageError, near
from pipeline.kernels.asset_paths import Asset, Heston
from pipeline.kernels.black_scholes import Option, option_values
from pipeline.kernels.position_losses import Position
from pipeline.stage import need_columns, need_numeric
from pipeline.tables.part import Schema

HESTON = ("mean_reversion", "long_variance", "volatility_of_variance", "spot_variance_correlation")
ASSETS = ("spot", "drift", "volatility")
OPTION = ("strike", "expiry_years")
KINDS = {"share": 0.0, "call": 1.0, "put": -1.0}
MOST = 10.0  # of yearly rates and volatilities: 20 for 20 % is a mistake
LEAST_EIGENVALUE = 1e-10

Row = Mapping[str, Any]


def check_assets(schema: Schema) -> None:
    """Raise StageError where the table of assets has not the columns that a simulation needs."""
    need_columns(schema, ["asset"], "assets")
    need_columns(schema, ASSETS, "assets")
    there = [name for name in (*HESTON, "dividend_yield") if name in schema.columns]
    need_numeric(schema, [*ASSETS, *there])
    if missing := [name for name in HESTON if any(one in there for one in HESTON) and name not in there]:
        raise StageError(
            f"the table given as 'assets' has columns of Heston's model, but not {missing[0]!r}. It needs all of {', '.join(HESTON)}"
        )


def check_positions(schema: Schema) -> None:
    """Raise StageError where the table of positions has not the columns that a portfolio needs."""
    need_columns(schema, ["position", "asset", "quantity"], "positions")
    need_numeric(schema, ["quantity"])
    if "kind" in schema.columns:
        need_columns(schema, OPTION, "positions")
        need_numeric(schema, [*OPTION, *(name for name in ("implied_volatility",) if name in schema.columns)])


def check_correlations(schema: Schema) -> None:
    """Raise StageError where the table of correlations has not both assets and a number."""
    need_columns(schema, ["asset", "other", "correlation"], "correlations")
    need_numeric(schema, ["correlation"])


def assets_of(frame: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Asset, ...]]:
    """The assets in the order of their names. Raises DataError for a value that is missing or cannot be."""
    frame = _named(frame, "asset", "assets")
    bounds = {"spot": (0.0, math.inf), "drift": (-MOST, MOST), "volatility": (0.0, MOST)}
    _within(frame, bounds, "assets")
    if not set(HESTON) <= set(frame.columns):
        return frame, tuple(Asset(row["spot"], row["drift"], row["volatility"]) for row in frame.iter_rows(named=True))
    given = frame.select(pl.sum_horizontal(pl.col(HESTON).is_not_null())).to_series()
    moving = frame.filter(given > 0)
    limits = {"mean_reversion": (0.0, 1e4), "long_variance": (0.0, MOST**2), "volatility_of_variance": (0.0, 1e3)}
    _within(moving, {**limits, "spot_variance_correlation": (-1 - 1e-12, 1 + 1e-12)}, "assets")
    return frame, tuple(
        Asset(row["spot"], row["drift"], row["volatility"], Heston(*(row[name] for name in HESTON)) if count else None)
        for row, count in zip(frame.iter_rows(named=True), given, strict=True)
    )


def loadings_of(correlations: pl.DataFrame | None, assets: pl.DataFrame) -> Any:
    """The triangle `float64[a, a]` of the assets' correlations. Raises DataError where a pair is missing or twice, or none can be so."""
    names = assets["asset"].to_list()
    matrix, places = np.full((len(names), len(names)), np.nan), {name: at for at, name in enumerate(names)}
    np.fill_diagonal(matrix, 1.0)
    for one, other, value in () if correlations is None else correlations.select("asset", "other", "correlation").iter_rows():
        for name in (one, other):
            if name not in places:
                raise DataError(f"correlations: {name!r} is none of the assets.{near(str(name), [str(known) for known in names])}")
        pair = places[one], places[other]
        if one == other or not np.isnan(matrix[pair]):
            raise DataError(f"correlations: each pair of assets has one row, and {one!r} with {other!r} has another. Leave it out.")
        if value is None or not -1 <= value <= 1:
            raise DataError(f"correlations: that of {one!r} with {other!r} is {value}; a number from -1 to 1 is needed.")
        matrix[pair] = matrix[pair[::-1]] = value
    if np.isnan(matrix).any():
        one, other = (names[at] for at in np.argwhere(np.isnan(matrix))[0])
        raise DataError(
            f"correlations: none is given for {one!r} with {other!r}. Give a row for every pair, 0 where they have nothing in common."
        )
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < LEAST_EIGENVALUE:
        raise DataError(
            f"correlations: no assets can be correlated so: the matrix has the eigenvalue {least:.2g}, and all must be above 0. "
            "Take all correlations from the same days, or leave out an asset that is the same as another."
        )
    return np.linalg.cholesky(matrix)


def positions_of(frame: pl.DataFrame, assets: pl.DataFrame, years: float, rate: float) -> tuple[pl.DataFrame, tuple[Position, ...]]:
    """The positions in the order of their names, and what each is worth now: the frame has `kind` and `value`.

    Raises DataError for a value that is missing or cannot be, and for an option that expires before the horizon.
    """
    frame = _named(frame, "position", "positions")
    if "kind" not in frame.columns:
        frame = frame.with_columns(kind=pl.lit("share"))
    frame = frame.with_columns(pl.col("kind").fill_null("share"))
    if (wrong := frame.filter(~pl.col("kind").is_in(list(KINDS)))).height:
        raise DataError(f"positions: {wrong['position'][0]!r} is a {wrong['kind'][0]!r}; share, call and put are known.")
    _within(frame, {"quantity": (-math.inf, math.inf)}, "positions")
    options = frame.filter(pl.col("kind") != "share")
    if options.height:
        _within(options, {"strike": (0.0, math.inf), "expiry_years": (0.0, math.inf)}, "positions")
        early = options.filter(pl.col("expiry_years") < years * (1 - 1e-9))
        if early.height:
            name, expiry = early["position"][0], early["expiry_years"][0]
            raise DataError(
                f"positions: {name!r} expires in {expiry:g} years, before the horizon of {years:.4g}. Leave it out, or take a nearer one."
            )
    known, found = {row["asset"]: (at, row) for at, row in enumerate(assets.iter_rows(named=True))}, []
    for row in frame.iter_rows(named=True):
        if row["asset"] not in known:
            names = [str(name) for name in known]
            raise DataError(
                f"positions: {row['position']!r} is of {row['asset']!r}, which is none of the assets.{near(str(row['asset']), names)}"
            )
        found.append(_position(row, *known[row["asset"]], years, rate))
    value = pl.Series("value", [one.quantity * one.value for one in found], pl.Float64)
    return frame.with_columns(value), tuple(found)


def _position(row: Row, at: int, asset: Row, years: float, rate: float) -> Position:
    spot, quantity = float(asset["spot"]), float(row["quantity"])
    if row["kind"] == "share":
        return Position(at, quantity, spot)
    volatility, dividends = row.get("implied_volatility"), asset.get("dividend_yield") or 0.0
    volatility = asset["volatility"] if volatility is None else volatility
    if not 0 < volatility <= MOST:
        raise DataError(
            f"positions: {row['position']!r} has implied_volatility {volatility}; one above 0 and up to {MOST:g} is needed, 0.2 for 20 %."
        )
    now = Option(KINDS[row["kind"]], float(row["strike"]), float(row["expiry_years"]), float(volatility), rate, float(dividends))
    left = now.years - years
    price = np.array([spot])
    return Position(at, quantity, float(option_values(np.log(price), price, now)[0]), now._replace(years=left if left > 1e-9 else 0.0))


def _named(frame: pl.DataFrame, column: str, table: str) -> pl.DataFrame:
    """The rows in the order of their names. Raises DataError where one has none, or another one's, and where there is no row."""
    if frame.height == 0:
        raise DataError(f"the table given as {table!r} has no rows.")
    frame = frame.sort(column, nulls_last=True)
    wrong = frame.filter(pl.col(column).is_null() | pl.col(column).is_duplicated())
    if wrong.height:
        raise DataError(f"{table}: every row has a name of its own in {column!r}, and {wrong.height} have {wrong[column][0]!r}.")
    return frame


def _within(frame: pl.DataFrame, bounds: Mapping[str, tuple[float, float]], table: str) -> None:
    """Raise DataError for a number that is missing or not between the bounds: above the lower one, up to the upper one, and finite."""
    name = frame.columns[frame.columns.index("position" if table == "positions" else "asset")]
    for column, (low, high) in bounds.items():
        value = pl.col(column).cast(pl.Float64)
        wrong = frame.filter((value.is_finite() & (value > low) & (value <= high)).not_().fill_null(value=True))
        if wrong.height:
            between = f"above {low:g}" + (f" and up to {high:g}" if math.isfinite(high) else "") if math.isfinite(low) else "that is finite"
            raise DataError(f"{table}: {wrong[name][0]!r} has {column} {wrong[column][0]}; a number {between} is needed.")
