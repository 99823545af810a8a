"""The rows that a model learns from and predicts: in the order of their key, with labels and splits, a fixed number at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._supervised import Supervised
from pipeline.tables.laid import Stack
from pipeline.tables.part import Part, take

SPLITS = ("train", "validation", "test")
WIDE = (pl.Float64, pl.Int64, pl.UInt64, pl.Int128, pl.Decimal)  # numbers of more than the 32 bits that many models take
BATCH_ROWS = 131_072  # rows handed over at once; fixed, so that the model does not depend on how the rows are divided


@dataclass(frozen=True)
class Labels:
    """What is known of rows beside their features.

    `values` float64 [rows]: the target, class numbers for several classes, NaN for none. `splits` int8 [rows]: each its place in SPLITS,
    -1 for none of them.
    """

    values: np.ndarray[Any, Any]
    splits: np.ndarray[Any, Any]

    @staticmethod
    def of(stage: Supervised, rows: pl.DataFrame) -> Labels:
        """Of a frame with the target and the split; without a split column all rows train."""
        target = rows[stage.target]
        if stage.classes:
            numbers = {name: float(i) for i, name in enumerate(stage.class_names)}
            target = target.cast(pl.String).replace_strict(numbers, default=None, return_dtype=pl.Float64)
        values = target.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        if not stage.split:
            return Labels(values, np.zeros(rows.height, np.int8))
        codes = {name: code for code, name in enumerate(SPLITS)}
        return Labels(values, rows[stage.split].replace_strict(codes, default=-1, return_dtype=pl.Int8).to_numpy())

    @staticmethod
    def of_all(parts: Sequence[Labels]) -> Labels:
        """Of rows one below the other."""
        return Labels(np.concatenate([part.values for part in parts]), np.concatenate([part.splits for part in parts]))

    def of_split(self, split: str, at: slice = slice(None)) -> np.ndarray[Any, Any]:
        """Which rows (of those at `at`) are of a split and have a label."""
        chosen: np.ndarray[Any, Any] = (self.splits[at] == SPLITS.index(split)) & ~np.isnan(self.values[at])
        return chosen

    def check(self, stage: Supervised, target: pl.Series, *, validation: bool) -> None:
        """Raise DataError where the training rows' target cannot be learned; `validation` says that validation rows are needed too."""
        name, names, known = stage.target, stage.class_names, self.values[~np.isnan(self.values)]
        odd = sorted({*target.drop_nulls().cast(pl.String).unique().to_list()} - {*names}) if names else []
        if odd:
            raise DataError(f"{name!r} has the value {odd[0]!r}, which classes does not list: {names}")
        if np.isinf(known).any():
            raise DataError(f"{name!r} has infinite values (a division by zero?). Make them null, and they are predicted only.")
        if stage.objective == "binary" and not ((known == 0) | (known == 1)).all():
            raise DataError(f"{name!r} is not binary, it has values {np.unique(known)[:5].tolist()}; 0 and 1 are needed")
        seen = self.values[self.of_split("train")]
        if len(seen) == 0:
            raise DataError(f"no training row has a {name!r}. Is the split column right, and the target not all missing?")
        if seen.min() == seen.max():
            value = names[int(seen[0])] if names else f"{seen[0]:g}"
            raise DataError(f"{name!r} is {value} in every training row; there is nothing to learn")
        if validation and not self.of_split("validation").any():
            raise DataError(f"early stopping needs validation rows with a {name!r}, and there are none")


@dataclass(frozen=True)
class TrainingRows:
    """Rows to learn from and to predict: their part and their labels.

    Where they are too many, the part has what is known of them beside their features, which are read of the files of a `stack` as they are
    needed.
    """

    part: Part
    labels: Labels
    stack: Stack | None = None

    @staticmethod
    def of(stage: Supervised, part: Part) -> TrainingRows:
        """The rows of a part."""
        return TrainingRows(part, Labels.of(stage, part.frame))

    def chosen(self, split: str) -> Iterator[tuple[np.ndarray[Any, Any], Part]]:
        """One split's rows that have a label, a fixed number of source rows at a time: their places among all rows, and the rows."""
        for at in self._slices():
            wanted = np.flatnonzero(self.labels.of_split(split, at))
            if len(wanted):
                yield wanted + at.start, self._piece(at, wanted if len(wanted) < at.stop - at.start else slice(None))

    def of_split(self, split: str) -> TrainingRows:
        """One split's rows, those without a label too."""
        at = np.flatnonzero(self.labels.splits == SPLITS.index(split))
        part = Part(self.part.frame[at], {name: take(array, at) for name, array in self.part.arrays.items()})
        return TrainingRows(part, Labels(self.labels.values[at], self.labels.splits[at]))

    def pieces(self) -> Iterator[Part]:
        """All rows in order, a fixed number of them at a time."""
        return (self._piece(at) for at in self._slices())

    def _slices(self) -> list[slice]:
        return [slice(start, start + BATCH_ROWS) for start in range(0, max(self.part.frame.height, 1), BATCH_ROWS)]

    def _piece(self, at: slice, wanted: Any = slice(None)) -> Part:
        frame = self.part.frame if self.stack is None else self.stack
        return Part(frame[at][wanted], {name: array[at][wanted] for name, array in self.part.arrays.items()})


def in_32_bits(stage: Supervised, features: Sequence[str], rows: pl.LazyFrame) -> pl.LazyFrame:
    """The rows with wide features in the 32 bits of a model that takes these; codes and what is unfolded stay as they are."""
    if stage.precision != pl.Float32():
        return rows
    numbers = {*features} - {*stage.categorical, *stage.unfolded}
    wide = [name for name, dtype in rows.collect_schema().items() if name in numbers and isinstance(dtype, WIDE)]
    return rows.with_columns(pl.col(wide).cast(pl.Float32))


def in_key_order(stage: Supervised, whole: Part) -> Part:
    """The rows in the order of the key; as they are where they have it already. Raises DataError where a key comes twice."""
    name = stage.key
    if not whole.frame[name].is_sorted():
        order = whole.frame[name].arg_sort()
        whole = Part(whole.frame[order], {array: take(values, order.to_numpy()) for array, values in whole.arrays.items()})
    check_once(stage, whole.frame[name])
    return whole


def check_once(stage: Supervised, keys: pl.Series) -> None:
    """Raise DataError for a key that comes twice, of keys that are in order."""
    again = keys.slice(1).eq_missing(keys.head(-1)).arg_max()
    if again is not None and keys[again] == keys[again + 1]:
        raise DataError(f"the key {stage.key!r} has the value {keys[again]!r} twice. It must name each row once.")
