"""The rows that a genome scan gives: their columns, the results of a block of variants, and how these become columns. Not a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_host
from pipeline.genome.columns import dtypes_of
from pipeline.kernels.genotypes import Array

COLUMNS = (
    "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error", "effect_allele_frequency", "p_value",
    "neg_log_10_p_value", "variant_id", "n", "trait", "statistic", "test", "reason",
)  # fmt: skip
SCHEMA = dtypes_of(COLUMNS)
NUMBERS = ("beta", "standard_error", "effect_allele_frequency", "p_value", "neg_log_10_p_value", "statistic")


@dataclass(frozen=True)
class ScanRows:
    """The results of a block that are kept, each array one value a row, by variant and then by trait; NaN stands for null."""

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
    with_result: Array
    """Variants with a result for each trait, kept or not, `int64[t]`."""

    @classmethod
    def of(cls, variant: Array, trait: Array, found: Mapping[str, Array], **own: Array) -> ScanRows:
        """The rows at these places of a block's results, by name `[v, t]`, or `[v]` where all traits share them.

        `own` are arrays that have a value a row already.
        """

        place = variant * found["reason"].shape[1] + trait

        def rows(name: str) -> Array:
            """One of the row's values."""
            if name in own:
                return own[name]
            return found[name].ravel()[place] if found[name].ndim == 2 else found[name][variant]

        numbers, with_result = {name: rows(name) for name in NUMBERS}, (found["reason"] == 0).sum(axis=0)
        return cls(variant, trait, numbers, rows("n"), rows("test"), rows("reason"), with_result)

    def on_host(self) -> ScanRows:
        """These rows in the host's memory: from a GPU in two copies, each of which waits."""
        xp = array_module(self.variant)
        if xp is np:
            return self
        numbers = to_host(xp.stack([self.numbers[name] for name in NUMBERS]))
        columns = [array.astype(xp.int64, copy=False) for array in (self.variant, self.trait, self.n, self.test, self.reason)]
        whole = to_host(xp.concatenate([*columns, self.with_result.astype(xp.int64, copy=False)]))
        variant, trait, n, test, reason, with_result = np.split(whole, np.arange(1, 6) * len(self.variant))
        return ScanRows(variant, trait, dict(zip(NUMBERS, numbers, strict=True)), n, test, reason, with_result)

    @classmethod
    def joined(cls, blocks: Sequence[ScanRows], step: int) -> ScanRows:
        """The rows of neighbouring blocks of `step` variants each."""
        if len(blocks) == 1:
            return blocks[0]
        xp = array_module(blocks[0].variant)
        columns = {name: xp.concatenate([getattr(rows, name) for rows in blocks]) for name in ("trait", "n", "test", "reason")}
        return cls(
            variant=xp.concatenate([rows.variant + i * step for i, rows in enumerate(blocks)]),
            numbers={name: xp.concatenate([rows.numbers[name] for rows in blocks]) for name in NUMBERS},
            with_result=sum(rows.with_result for rows in blocks),
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


def follow(rows: Sequence[pl.Series]) -> bool:
    """Whether pieces of a part have its variants one after the other, by their places in the part: as those of its chromosomes do."""
    some = [each for each in rows if len(each)]
    return len(rows) == 1 or (all(each.is_sorted() for each in some) and all(one[-1] < other[0] for one, other in pairwise(some)))
