"""Whether two programs wrote the same tables: cell by cell, rows in any order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from polars import selectors

PREDICTED = {"prediction": 1e-4, "model_accuracy": 0.03, "model_return": 2e-3}
"""Columns that training is in, whose sums and sketches of a feature's bins depend on the order of rows, and what is counted of decisions
near one half."""


def differences(ours: Path, theirs: Path, tables: Sequence[str], relative: float) -> list[str]:
    """What differs, a text a table; nothing where all is the same. Floats may differ by so much, of values beyond 1 relative to them."""
    found = []
    for table in tables:
        why = unlike(read(ours / table), read(theirs / f"{table}.parquet"), relative)
        found += [f"{table}: {why}"] if why else []
    return found


def read(path: Path) -> pl.DataFrame:
    """The rows of a file, or of all files of a folder."""
    return pl.read_parquet(path / "*.parquet" if path.is_dir() else path, hive_partitioning=False)


def unlike(ours: pl.DataFrame, theirs: pl.DataFrame, relative: float) -> str:
    """How two tables differ, in words: in columns, in rows, or in the cells of a column; '' where they do not."""
    if lacking := sorted({*theirs.columns} - {*ours.columns}):
        return f"ours has no {', '.join(lacking)}"
    if ours.height != theirs.height:
        return f"{ours.height:,} rows, theirs has {theirs.height:,}"
    first, second = alike(plain(ours.select(theirs.columns)), plain(theirs))
    for name in theirs.columns:
        one, other = first[name], second[name]
        if one.dtype != other.dtype:
            return f"{name} is {one.dtype}, theirs {other.dtype}"
        allowed = PREDICTED.get(name, relative)
        same = one.eq_missing(other)
        if one.dtype == pl.Float64:
            same = same | ((one - other).abs() <= allowed * one.abs().clip(lower_bound=1.0)).fill_null(value=False)
        if wrong := one.len() - int(same.sum()):
            return f"{wrong:,} of {one.len():,} cells of {name} differ"
    return ""


def plain(table: pl.DataFrame) -> pl.DataFrame:
    """Numbers of one width and text of one kind; what is no number is missing, as pandas and others write it."""
    floats = selectors.float() | selectors.decimal()
    return table.with_columns(
        floats.cast(pl.Float64).fill_nan(None),
        (selectors.integer() | selectors.boolean()).cast(pl.Int64),
        (selectors.date() | selectors.datetime()).cast(pl.Datetime("us")),
        (selectors.categorical() | selectors.string()).cast(pl.String),
    )


def alike(first: pl.DataFrame, second: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both in one order, by what is no float first; whole numbers are floats where the other has floats: DuckDB's sums leave it so."""
    numbers = {pl.Int64, pl.Float64}
    mixed = [name for name in first.columns if {first[name].dtype, second[name].dtype} == numbers]
    first, second = (table.with_columns(pl.col(mixed).cast(pl.Float64)) for table in (first, second))
    order = sorted(first.columns, key=lambda name: first[name].dtype == pl.Float64)
    return first.sort(order, nulls_last=True), second.sort(order, nulls_last=True)
