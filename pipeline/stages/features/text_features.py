"""Words of a text as numbers: tokens and n-grams in buckets by a hash, counted or weighed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, FittedRows, Outcome, need_columns
from pipeline.stages._keys import text_hashes
from pipeline.tables.part import Part, Schema
from pipeline.tables.stretches import divided
from pipeline.tables.table import Table

WORD = r"\b\w\w+\b"
SEEN = "rows"


PARTS = 8
"""Parts that a table is made into at least, for it becomes wide: as many on every cluster, for what is summed goes by parts."""


class TextFeatures(FittedRows, name="text_features", version=1):
    """Replace a text by COLUMN_0 to COLUMN_n, Float64: how often its words, and n-grams of neighbours, fall into each bucket of a hash.

    A token is a word of two letters, digits or underscores at least, in small letters; an accent that is a character of its own counts as a
    letter. A bucket is the FNV-1a hash of a token or n-gram (its words with a space between), the upper half folded into the lower, modulo
    `buckets`; several words may share one. `tfidf` weighs a count by ln((1 + rows) / (1 + rows that have the bucket)) + 1, of the rows
    learned from, and divides each row by its length, as scikit-learn's TfidfTransformer does. Words are counted on the host; `score`
    repeats it on a CPU alone. A text that is missing, or has no token, is 0 everywhere. Nothing but these weights is learned.

    Example: {use: text_features, from: divided, as: worded, column: purpose, buckets: 64, ngrams: [1, 2], fit_where: "split = 'train'"}
    """

    by_parts = True

    column: ColumnName = Field(description="A column of text.")
    buckets: int = Field(256, ge=2, le=4096, description="How many columns come of it.")
    ngrams: tuple[int, int] = Field((1, 1), description="The least and the greatest number of neighbouring words that are counted.")
    weights: Literal["counts", "binary", "tfidf"] = Field("tfidf", description="How often a bucket is there, whether it is, or tf-idf.")
    keep: bool = Field(False, description="Keep the text, too.")

    @model_validator(mode="after")
    def _range_of_ngrams(self) -> Self:
        if not 1 <= self.ngrams[0] <= self.ngrams[1] <= 5:
            raise ValueError(f"ngrams {list(self.ngrams)} must be two numbers from 1 to 5, the lesser one first")
        if self.weights != "tfidf" and self.fit_where is not None:
            raise ValueError(f"{self.weights} are not learned: leave out fit_where")
        return self

    @property
    def _made(self) -> list[str]:
        return [f"{self.column}_{place}" for place in range(self.buckets)]

    def check_input(self, role: str, schema: Schema) -> None:
        """The column is text, and no other one is written over."""
        need_columns(schema, [self.column], key="column")
        if schema.columns[self.column] != pl.String:
            raise StageError(
                f"column {self.column!r} is {schema.columns[self.column]}, and words are those of text. Cast it.", key="column"
            )
        if taken := [name for name in self._made if name in schema.columns]:
            raise StageError(f"there is a column {taken[0]!r} already. Rename or drop it before.", key="column")

    def writes(self) -> frozenset[str]:
        """The text, and the columns in its place."""
        return frozenset({self.column, *self._made})

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Buckets counted part by part, on the host; then as every stage that learns."""
        (rows,) = tables.values()
        rows = divided(rows.named(context.name), PARTS)
        return super().run({"rows": rows.map_parts(self._with_counts, writes=frozenset(self._made))}, context)

    def _with_counts(self, part: Part) -> Part:
        return part.replaced(self._counted(part.frame))

    def _counted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows with how often each bucket is there."""
        size, places = frame.height, [np.empty(0, np.int64)]
        for rows, hashes in ngram_hashes(frame[self.column], self.ngrams):
            buckets = (hashes ^ (hashes >> np.uint64(32))) % np.uint64(self.buckets)
            places.append(buckets.astype(np.int64) * size + rows)
        whole = np.concatenate(places)
        counts = np.bincount(whole, np.ones(len(whole)), minlength=self.buckets * size).astype(float, copy=False)
        counts = counts.reshape(self.buckets, size)
        return frame.with_columns(pl.Series(name, counts[place]) for place, name in enumerate(self._made))

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """In how many rows each bucket is there, and how many there are."""
        there = [(pl.col(self._made) > 0).cast(pl.Int64).sum()] if self.weights == "tfidf" else []
        return rows.select(pl.len().cast(pl.Int64).alias(SEEN), *there)

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """The same over all parts."""
        return partial.select(pl.all().sum())

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with counts or weights; buckets are counted where they are not yet."""
        schema = rows.collect_schema()
        there = schema if self.keep else {name: kind for name, kind in schema.items() if name != self.column}
        made = pl.Schema({**there, **dict.fromkeys(self._made, pl.Float64())})
        return rows.map_batches(partial(TextFeatures._weighed, self, fitted), schema=made)

    def _apply_part(self, part: Part, state: Part) -> Part:
        return part.replaced(self._weighed(state.frame, part.frame))

    def _weighed(self, fitted: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows with counts or weights, bucket by bucket in order; buckets are counted where they are not yet."""
        frame = frame if self._made[0] in frame.columns else self._counted(frame)
        found = frame if self.keep else frame.drop(self.column)
        if self.weights == "counts":
            return found
        numbers = frame.select(self._made).to_numpy().T
        if self.weights == "binary":
            return found.with_columns(pl.Series(name, numbers[place] > 0).cast(pl.Float64) for place, name in enumerate(self._made))
        weights = np.log((1 + fitted[SEEN].item()) / (1 + fitted.select(self._made).to_numpy()[0])) + 1
        weighed = numbers * weights[:, None]
        length = np.sqrt(sum(bucket * bucket for bucket in weighed))
        weighed /= np.where(length > 0, length, 1.0)
        return found.with_columns(pl.Series(name, weighed[place]) for place, name in enumerate(self._made))


def ngram_hashes(texts: pl.Series, ngrams: tuple[int, int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each size of n-gram the row and the hash of all that are there: `int[t]` and `uint64[t]`."""
    words = pl.DataFrame({"row": np.arange(len(texts)), "token": texts.str.to_lowercase().str.extract_all(WORD)})
    tokens = words.explode("token", empty_as_null=False).drop_nulls()
    rows, found = tokens["row"].to_numpy(), list[tuple[np.ndarray, np.ndarray]]()
    for size in range(ngrams[0], ngrams[1] + 1):
        count = max(tokens.height - size + 1, 0)
        pieces = [tokens["token"].slice(start, count) for start in range(size)]
        joined = pl.select(pl.concat_str(pieces, separator=" ")).to_series() if count else tokens["token"].clear()
        whole = rows[:count] == rows[size - 1 : size - 1 + count]
        found.append((rows[:count][whole], text_hashes(joined)[whole]))
    return found
