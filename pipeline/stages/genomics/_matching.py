"""Rows of another table (weights, loadings) that meet variants by variant_id and alleles: who met whom, counted and checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.tables.counts import Count


class Matches(NamedTuple):
    """Of some variants: per row of the other table the variants of its id, and those of its alleles too, `int32[rows]`."""

    seen: Any
    matched: Any
    examples: list[str]

    @staticmethod
    def of(variants: pl.DataFrame, met: pl.DataFrame, used: pl.DataFrame, rows: int) -> Matches:
        """Of one part: its variants, those with an id of the other table, and those with its alleles; `place` is the other table's row."""
        seen, matched = (np.bincount(frame["place"].to_numpy(), minlength=rows).astype(np.int32) for frame in (met, used))
        return Matches(seen, matched, variants["variant_id"].head(2).to_list())

    def plus(self, other: Matches) -> Matches:
        """Of both sets of variants."""
        return Matches(self.seen + other.seen, self.matched + other.matched, [*self.examples, *other.examples][:2])

    def check(self, what: str, names: pl.Series) -> None:
        """Raise DataError where no row of the other table (`what`, its ids in `names`) is used, or one meets several variants."""
        if not self.matched.any():
            lacks = "has its alleles" if self.seen.any() else "is"
            raise DataError(
                f"none of the {len(names)} {what} {lacks} in the genotype table; the {what} name "
                f"{names.head(2).to_list()}, the genotypes {self.examples}. Are ids (with or without chr) and alleles written alike?"
            )
        several = self.matched > 1
        if several.any():
            raise DataError(
                f"{int(several.sum())} {what} meet several variants of the genotype table each, such as "
                f"{names[int(several.argmax())]!r}. Use drop_duplicates by variant_id, ref and alt before, or give each an id of its own."
            )

    @staticmethod
    def words(what: str) -> dict[str, Count]:
        """The words for what `counts` gives."""
        return {
            f"{what}_in": Count(f"{what} in"),
            f"{what}_unmatched": Count(f"{what} without a variant"),
            "other_alleles": Count("with other alleles"),
            f"{what}_out": Count(f"{what} out"),
        }

    def counts(self, what: str) -> dict[str, int]:
        """How many rows of the other table there are, have no variant, have one of other alleles only, and are used."""
        return {
            f"{what}_in": len(self.seen),
            f"{what}_unmatched": int((self.seen == 0).sum()),
            "other_alleles": int(((self.seen > 0) & (self.matched == 0)).sum()),
            f"{what}_out": int((self.matched > 0).sum()),
        }
