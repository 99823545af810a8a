"""Texts that repeat as whole numbers: each distinct one, a word, by its place among them in order.

Of millions of rows by compiled code that looks at a text's hash, and then whether the word is the text: a third of the time of a join.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from pipeline.backend.threads import by_blocks
from pipeline.tables.key_rows import KeyRows, a_row_each

FEW = 4_096  # words that Polars' enumerations number sooner than a join does
MANY_ROWS = 1 << 21  # what they save is more than it takes to load the compiled code
SAMPLE = 4 * FEW


@dataclass(frozen=True)
class Words:
    """Distinct texts in order, none missing; `many`: of millions of rows, whose places are asked for, if stretch by stretch."""

    texts: pl.Series
    many: bool = False

    def __len__(self) -> int:
        return len(self.texts)

    @staticmethod
    def of(column: pl.Series) -> Words:
        """Those of a column of texts."""
        return Words.numbered(column)[0]

    @staticmethod
    def numbered(column: pl.Series) -> tuple[Words, pl.Series | None]:
        """Those of a column of texts, and the places of its texts where these had to be found."""
        many = len(column) >= MANY_ROWS
        if many and column.gather_every(len(column) // SAMPLE + 1).n_unique() > FEW:
            words = Words(column.gather(a_row_each(_hashes(column))).drop_nulls().sort(), many)
            places = words.places(column)
            if places.null_count() == column.null_count():  # no two have one hash
                return words, places
        once = column.to_frame().lazy().select(pl.all().unique()).collect(engine="streaming")  # on all threads, where eager it has one
        return Words(once.to_series().drop_nulls().sort(), many), None

    def places(self, texts: pl.Series) -> pl.Series:
        """Of each text its place, Int64; null of one that is no word, and of null."""
        if len(self) <= FEW:
            return texts.cast(pl.Enum(self.texts), strict=False).to_physical().cast(pl.Int64)
        known = self._by_hash if self.many or len(texts) >= MANY_ROWS else None
        if known is None:
            return texts.replace_strict(self.texts, pl.int_range(len(self), eager=True), default=None, return_dtype=pl.Int64)
        return pl.concat(by_blocks(lambda rows: self._known(known, texts[rows]), len(texts)))

    def _known(self, known: KeyRows, texts: pl.Series) -> pl.Series:
        """The same by the words' hashes."""
        found = known.first(_hashes(texts))
        same = self.texts.gather(found) == texts
        return pl.select(pl.when(same).then(found.cast(pl.Int64))).to_series()

    @cached_property
    def _by_hash(self) -> KeyRows | None:
        """The words by their hashes; None where two have the same."""
        known = KeyRows.of(_hashes(self.texts))
        return None if known.again else known


def _hashes(texts: pl.Series) -> pl.Series:
    """Of each text a whole number from 0 on, Int64."""
    return (texts.hash(0) // 2).cast(pl.Int64)
