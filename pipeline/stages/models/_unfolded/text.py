"""A column of text as the buckets that its words and their runs are hashed into."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.kernels.gram_hash import gram_buckets, gram_places
from pipeline.stages._keys import text_hashes
from pipeline.stages.models._unfolded.column import Unfolded

WORD = r"\w+"


class Ngrams(Unfolded):
    """How a text becomes numbers: which n-grams of its words count, and how many buckets they share."""

    kind: ClassVar[str] = "text"

    shortest: int = Field(1, ge=1, le=10, description="Words of the shortest n-gram.")
    longest: int = Field(2, ge=1, le=10, description="Words of the longest n-gram.")
    words: int = Field(100, ge=1, le=10_000, description="Words of a text that count: the first ones.")
    buckets: int = Field(65_536, ge=2, le=16_777_216, description="Numbers that n-grams are hashed into; those with one number are as one.")
    width: int = Field(16, ge=1, le=4_096, description="Numbers that an n-gram becomes.")

    @property
    def size(self) -> int:
        """Columns of the matrix."""
        return gram_places(self.shortest, self.longest, self.words)

    def check(self, column: str, dtype: pl.DataType) -> None:
        """Raise StageError for a column that is no text, and where no n-gram can be."""
        if dtype != pl.String:
            raise StageError(f"text names {column!r}, which is {dtype}, and takes texts", key="text")
        if not self.shortest <= self.longest <= self.words:
            said = f"n-grams of {self.shortest} to {self.longest} of a text's first {self.words} words"
            raise StageError(
                f"there are no {said}. Let the longest be no shorter than the shortest, and no longer than words.", key="ngrams"
            )

    def numbers(self, column: pl.Series, dtype: Any) -> np.ndarray[Any, Any]:
        """Buckets [rows, size], NaN after the last one of a text; a missing text has none."""
        spoken = self.spoken(column)
        bounds = np.append(0, spoken.list.len().cast(pl.Int64).cum_sum().to_numpy())
        hashes = text_hashes(spoken.explode(empty_as_null=False, keep_nulls=False))
        found = gram_buckets(hashes, bounds, (self.shortest, self.longest), self.words, self.buckets)
        return np.where(found < 0, np.nan, found).astype(dtype)

    def spoken(self, column: pl.Series) -> pl.Series:
        """The words of each text that count, in small letters: runs of letters, digits and `_`."""
        return column.fill_null("").str.to_lowercase().str.extract_all(WORD).list.head(self.words)
