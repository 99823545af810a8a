"""Sums of products of a genome scan: as they leave a site, a row a variant, masked; and as they are read back. Not a stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.kernels.fixed_digits import carried, numbers_of
from pipeline.kernels.linear_regression import REASONS, Association
from pipeline.kernels.p_values import significant
from pipeline.stages.genomics._results import COLUMNS, NUMBERS
from pipeline.stages.models._pooled.masks import Agreed, Pads, digits_in, text_of

Array = np.ndarray[Any, Any]

KEY = ("chromosome", "base_pair_location", "ref", "alt")
"""What makes a variant of one site that of another."""
TABLE = {
    "study": pl.String(),
    "site": pl.String(),
    "sites": pl.String(),
    "columns": pl.String(),
    "digits": pl.Int64(),
    **dtypes_of(VARIANT),
    "masked": pl.String(),
}
"""Columns of what leaves a site; `sites` and `columns` are lists in JSON."""
GENOTYPE = {"complete_case": "(genotype, complete cases)", "mean": "(genotype, else its mean)"}
"""Name of the column of genotypes, by what a missing call means."""
WIDTH = 10
"""Digits of a masked number: 160 bits, for 2^32 products of values of 62 bits."""
MOST_BITS = 60
_MOST_PEOPLE = 1 << 32


def entries_of(agreed: Agreed) -> int:
    """Numbers of a variant: the upper triangle of the products of the columns."""
    return len(agreed.columns) * (len(agreed.columns) + 1) // 2


def masked_texts(variants: pl.DataFrame, sums: Array, pads: Pads) -> list[str]:
    """The sums `int64[v, entries, digits]` of variants, masked, each as one text."""
    padded = zip(variants.select(KEY).iter_rows(), sums, strict=True)
    return [text_of(carried(_added(found, pads.digits(["variant", *key], len(found), WIDTH)), WIDTH)) for key, found in padded]


def pooled_sums(rows: pl.DataFrame, agreed: Agreed) -> Array:
    """The sums over all sites, `object[v, columns, columns]` (upper triangle), of rows in the order of variants, each with all its sites.

    Raises DataError for a text that is no sum, and where masks do not cancel.
    """
    count, columns, sites = entries_of(agreed), len(agreed.columns), len(agreed.sites)
    try:
        digits = digits_in(rows["masked"].fill_null("").to_list(), count, WIDTH)
    except ValueError as error:
        raise DataError(f"a row has no masked sums of {columns} columns ({error}). Take the files of all sites again.") from error
    numbers = numbers_of(carried(digits.reshape(-1, sites, count, WIDTH).sum(axis=1), WIDTH))
    unit = 1 << (2 * agreed.digits)
    for number, key in zip(numbers[:, 0], rows.select(KEY).gather_every(sites).iter_rows(), strict=True):
        if number % unit or not 0 <= number < unit * _MOST_PEOPLE:
            raise DataError(
                f"the masks of the sites do not cancel at {':'.join(map(str, key))}: what should be the number of people is none. Two of "
                f"{', '.join(agreed.sites)} have used different secrets for each other, or a table was changed. Let each pair share a new "
                "secret, and run site_gwas_sums at every site again, under a new study."
            )
    found = np.zeros((len(numbers), columns, columns), object)
    found[:, *np.triu_indices(columns)] = numbers
    return found


def check_once(variants: pl.DataFrame, what: str, by: Sequence[str] = KEY) -> None:
    """Raise DataError where a variant is there twice."""
    twice = variants.filter(pl.struct(by).is_duplicated())
    if twice.height:
        named = ":".join(str(value) for value in twice.select(KEY).row(0))
        raise DataError(f"{what} has the variant {named} twice: use drop_duplicates by {', '.join(KEY)} before.")


def result_rows(variants: pl.DataFrame, found: Association, max_p: float) -> pl.DataFrame:
    """The results that `max_p` keeps, as `linear_gwas` gives them, of variants with their column `trait`, one result each."""
    variant, _, p_value, logarithm = significant(found.statistic, found.degrees_of_freedom, max_p)
    numbers: dict[str, Any] = {"p_value": p_value, "neg_log_10_p_value": logarithm}
    numbers |= {name: getattr(found, name).reshape(-1)[variant] for name in NUMBERS if name not in numbers}
    reasons = pl.Series([None, *REASONS[1:]], dtype=pl.String)
    rows: pl.DataFrame = variants[variant].select(
        "chromosome", "base_pair_location", "variant_id", "trait",
        *(pl.Series(name, values, pl.Float64, nan_to_null=True) for name, values in numbers.items()),
        pl.Series("n", found.n[variant], pl.Int64),
        reasons.gather(found.reason[variant, 0].astype(np.uint32)).alias("reason"),
        effect_allele="alt", other_allele="ref", test=pl.lit("linear"),
    )  # fmt: skip
    return rows.select(COLUMNS)


def _added(sums: Array, masks: Array) -> Array:
    found = masks.copy()
    found[:, : sums.shape[1]] += sums
    return found
