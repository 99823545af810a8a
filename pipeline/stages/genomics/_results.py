"""The rows that a genome scan gives: their columns, the results of a block of variants, and how these become columns. Not a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module
from pipeline.genome.columns import dtypes_of
from pipeline.kernels.genotypes import Array

COLUMNS = (
    "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error", "effect_allele_frequency", "p_value",
    "neg_log_10_p_value", "variant_id", "n", "trait", "statistic", "test", "reason",
)  # fmt: skip
SCHEMA = dtypes_of(COLUMNS)
NUMBERS = ("beta", "standard_error", "effect_allele_frequency", "p_value", "neg_log_10_p_value", "statistic")


@dataclass(frozen=True)
class Tested:
    """Results to keep, each array one value a row, by variant and then by trait; NaN stands for null."""

    variant: Array
    """Place in the block."""
    trait: Array
    """Place in the model's traits."""
    numbers: Mapping[str, Array]
    """`float64` by name: beta, standard_error, effect_allele_frequency, p_value, neg_log_10_p_value, statistic."""
    n: Array
    test: Array
    """Place in the scan's `tests`."""
    reason: Array
    """Place in the scan's `reasons`, 0 where there is a result."""
    tested: Array
    """Results of each trait, kept or not, `int64[t]`."""

    @classmethod
    def joined(cls, blocks: Sequence[Tested], step: int) -> Tested:
        """The rows of neighbouring blocks of `step` variants each."""
        if len(blocks) == 1:
            return blocks[0]
        xp = array_module(blocks[0].variant)
        columns = {name: xp.concatenate([getattr(rows, name) for rows in blocks]) for name in ("trait", "n", "test", "reason")}
        return cls(
            variant=xp.concatenate([rows.variant + i * step for i, rows in enumerate(blocks)]),
            numbers={name: xp.concatenate([rows.numbers[name] for rows in blocks]) for name in NUMBERS},
            tested=sum(rows.tested for rows in blocks),
            **columns,
        )


def named_variants(variants: pl.DataFrame) -> pl.DataFrame:
    """The columns of COLUMNS that a variant has by itself, and `row`, its place in the part."""
    return variants.select("row", "chromosome", "base_pair_location", "variant_id", effect_allele="alt", other_allele="ref")


def words_column(name: str, words: tuple[str | None, ...], places: Any) -> pl.Series | pl.Expr:
    """A column of words by their places; one word alone is not spelled out row by row."""
    if len(places) and (places == places[0]).all():
        return pl.lit(words[int(places[0])], pl.String).alias(name)
    return pl.Series(name, words, pl.String).gather(places.astype(np.uint32))
