"""Moments of a genome scan: the table of exact sums of products that a cohort leaves, a row a variant and trait, and their arithmetic.

Not a stage.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError, StageError, near
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.kernels.fixed_digits import carried, numbers_of
from pipeline.stage import need_columns
from pipeline.stages.genomics._pooled_scan import KEY, WIDTH
from pipeline.stages.models._pooled.masks import digits_in, text_of
from pipeline.tables.part import Schema

Array = np.ndarray[Any, Any]

TABLE = {
    "cohort": pl.String(),
    "trait": pl.String(),
    "covariates": pl.String(),
    "digits": pl.Int64(),
    **dtypes_of(VARIANT),
    "sums": pl.String(),
}
"""Columns of moments: `covariates` is a list in JSON; `sums` has the products of intercept, covariates, trait and genotype, each pair
once."""
OF_TRAIT = ("trait", *KEY)
"""What makes a row of one cohort that of another."""


def entries_of(covariates: Sequence[str]) -> int:
    """Numbers of a row."""
    columns = len(covariates) + 3
    return columns * (columns + 1) // 2


def texts_of(sums: Array) -> list[str]:
    """Sums `int64[rows, entries, digits]`, carried or not, each row as one text."""
    return [text_of(row) for row in carried(sums, WIDTH)]


def sums_in(rows: pl.DataFrame, covariates: Sequence[str]) -> Array:
    """What `texts_of` wrote, `int64[rows, entries, WIDTH]`. Raises DataError for a text that it did not."""
    try:
        return digits_in(rows["sums"].fill_null("").to_list(), entries_of(covariates), WIDTH)
    except ValueError as error:
        raise DataError(f"a row has no sums of {len(covariates)} covariates, trait and genotype ({error}). Take the file again.") from error


def whole_sums(sums: Array, covariates: Sequence[str]) -> Array:
    """The sums as Python's whole numbers, `object[rows, columns, columns]` (upper triangle)."""
    columns = len(covariates) + 3
    found = np.zeros((len(sums), columns, columns), object)
    found[:, *np.triu_indices(columns)] = numbers_of(carried(sums, WIDTH))
    return found


def without_covariates(sums: Array, covariates: Sequence[str], kept: Sequence[str]) -> Array:
    """The entries of the intercept, of the covariates that are `kept`, in their order, of the trait and of the genotype."""
    columns = len(covariates) + 3
    place = np.zeros((columns, columns), np.int64)
    upper = np.triu_indices(columns)
    place[upper] = np.arange(len(upper[0]))
    place = np.maximum(place, place.T)
    chosen = np.array([0, *(1 + covariates.index(name) for name in kept), columns - 2, columns - 1])
    first, second = np.triu_indices(len(chosen))
    return np.asarray(sums[:, place[chosen[first], chosen[second]]])


def covariates_in(said: pl.DataFrame) -> tuple[tuple[str, ...], int]:
    """Covariates and digits that all rows of moments share. Raises DataError where there are no rows, or these differ."""
    for name in ("covariates", "digits"):
        values = said[name].unique().sort().to_list()
        if not values:
            raise DataError("the table of moments has no rows. Give what gwas_moments made.")
        if len(values) > 1:
            raise DataError(
                f"the moments are of different {name}, {values[0]} and {values[1]}: their sums cannot be added. Make one of them again by "
                f"gwas_moments with the other's {name}" + (", or drop covariates by pool_moments first." if name == "covariates" else ".")
            )
    return tuple(json.loads(said["covariates"][0])), int(said["digits"][0])


def kept_covariates(covariates: Sequence[str], asked: Sequence[str] | None) -> tuple[str, ...]:
    """The covariates that are asked for, all where none are. Raises DataError for one that the moments do not have."""
    for name in asked or ():
        if name not in covariates:
            raise DataError(
                f"the moments have no covariate {name!r}, but {', '.join(covariates) or 'none'}: sums hold only what they were made of. "
                f"Make them again by gwas_moments with it.{near(name, covariates)}"
            )
    return tuple(covariates) if asked is None else tuple(asked)


def check_moments(schema: Schema, what: str) -> None:
    """Raise StageError for a table that is none of moments."""
    need_columns(schema, TABLE, key="from")
    for name, dtype in TABLE.items():
        if schema.columns[name] != dtype:
            raise StageError(f"column {name!r} of {what} is {schema.columns[name]}, and {dtype} in moments. Cast it.", key="from")
