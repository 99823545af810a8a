"""Matrices of jobs: a table whose rows are those of the matrix and whose numeric columns are its columns. Not a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BeforeValidator

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.kernels.powers_of_two import exponents
from pipeline.stage import ColumnName, need_columns, need_numeric
from pipeline.tables.part import Part, Schema
from pipeline.tables.reduced import together
from pipeline.tables.table import Table

Array = Any
Names = Annotated[tuple[ColumnName, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
FLOAT = pl.Float64()
EXACT = 2**53
MOST_COLUMNS = 20_000
"""Columns of a matrix at most: a table of more takes longer to read than its numbers to multiply."""


def matrix_columns(schema: Schema, chosen: Sequence[str], but: Sequence[str], *, key: str = "columns") -> tuple[str, ...]:
    """The columns of the matrix: those chosen, else all numbers that are not among `but`. Raises StageError where there are none."""
    if chosen:
        need_numeric(schema, chosen, key=key)
        for name in {*chosen} & {*but}:
            raise StageError(f"column {name!r} names the rows, and so is none of the matrix", key=key)
    found = tuple(chosen) or tuple(name for name, dtype in schema.columns.items() if dtype.is_numeric() and name not in but)
    if not found:
        raise StageError(f"the table has no column of numbers. It has: {schema}", key=key)
    if len(found) > MOST_COLUMNS:
        raise StageError(f"{len(found):,} columns, and a matrix here has at most {MOST_COLUMNS:,}. Give the transposed one.", key=key)
    return found


def check_names(schema: Schema, kept: Sequence[str], made: Sequence[str], *, key: str) -> None:
    """Raise StageError where a column that is kept, and must be there, has the name of one that is made."""
    need_columns(schema, kept, key=key)
    if taken := sorted({*kept} & {*made}):
        raise StageError(f"the result has a column {taken[0]!r} of its own. Rename yours before.", key=key)


def matrix_of(part: Part, columns: Sequence[str], backend: Backend = "cpu", names: Sequence[str] = ()) -> Array:
    """The numbers of a part, `float64[rows, columns]`, where the backend computes.

    Raises DataError, with the row's `names`, for a missing value, NaN and infinities: no answer of a whole matrix would be right.
    """
    frame = part.frame.select(columns)
    _check_whole(frame)
    if wide := [name for name, dtype in frame.schema.items() if dtype.is_decimal() or dtype in {pl.Int128, pl.Boolean}]:
        frame = frame.with_columns(pl.col(wide).cast(pl.Float64))
    found = frame.to_numpy().astype(np.float64, copy=False)  # a missing value is NaN there
    if not all_finite(found):
        row, column = (int(at[0]) for at in np.nonzero(~np.isfinite(found)))
        value = part.frame[columns[column]][row]
        which = ", ".join(f"{name} {part.frame[name][row]!r}" for name in names) or f"row {row + 1} of its part"
        text = "a value is missing" if value is None else f"a value is {value}"
        raise DataError(f"{text}: column {columns[column]!r}, {which}. A matrix has numbers alone: fill_missing or filter them before.")
    return to_device(found, backend)


def _check_whole(frame: pl.DataFrame) -> None:
    """Raise DataError for a whole number that float64 does not hold."""
    wide = [name for name, dtype in frame.schema.items() if dtype in {pl.Int64, pl.UInt64, pl.Int128}]
    for name in wide:
        found = max(
            (int(value) for value in frame.select(pl.min(name), pl.max(name).alias("most")).row(0) if value is not None), key=abs, default=0
        )
        if abs(found) > EXACT:
            raise DataError(
                f"column {name!r} has {found}, and float64 holds whole numbers to 2^53 alone. Is it a name? Then put it into key."
            )


def frame_of(values: Array, columns: Sequence[str]) -> pl.DataFrame:
    """A matrix as columns. Raises DataError for numbers beyond float64."""
    host = to_host(values)
    if not all_finite(host):
        row, column = (int(at[0]) for at in np.nonzero(~np.isfinite(host)))
        text = f"the result is beyond float64 (about 1.8e308) in column {columns[column]!r}, row {row + 1} of its part"
        raise DataError(f"{text}. Scale the columns before (rescale, standardize, derive).")
    return pl.DataFrame({name: np.ascontiguousarray(host[:, at]) for at, name in enumerate(columns)}, dict.fromkeys(columns, FLOAT))


def all_finite(values: Array) -> bool:
    """Whether there is neither NaN nor an infinity: then their sum is finite, and only very large numbers have to be looked at again."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return True
    return bool(np.isfinite(values.min(initial=0.0)) and np.isfinite(values.max(initial=0.0)))


def of_parts(rows: Table, function: Callable[..., Any], *given: Any) -> list[Any]:
    """What `function(Part, *given)` makes of every part, in the task that has the part: of rows on disk no other task holds it."""
    return [rows.session.evaluate_into(block, function, *given) for block in rows.blocks]


def over_parts(rows: Table, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *given: Any) -> Any:
    """The same of all parts together: `combine(values)` in a tree."""
    return together(rows, combine, of_parts(rows, function, *given))


def greatest(part: Part, columns: Sequence[str], names: Sequence[str] = ()) -> Array:
    """Exponents of the greatest number of every column, `int[columns]`. Raises DataError as `matrix_of` does."""
    found = matrix_of(part, columns, "cpu", names)
    return exponents(np.maximum(found.max(axis=0, initial=0.0), -found.min(axis=0, initial=0.0)))


def greatest_of(found: Sequence[Array]) -> Array:
    """Of several parts."""
    return np.max(np.stack(list(found)), axis=0)
