"""A column of images as their pixels."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnName
from pipeline.stages.models._unfolded.column import Unfolded

MOST_PIXELS = 4_096


class Image(Unfolded):
    """Images of one size, row by row, the channels of a pixel beside one another."""

    kind: ClassVar[str] = "image"

    column: ColumnName = Field(description="The feature: lists or arrays of numbers, or bytes, a number each.")
    height: int = Field(ge=1, le=MOST_PIXELS, description="Rows of pixels.")
    width: int = Field(ge=1, le=MOST_PIXELS, description="Pixels of a row.")
    channels: int = Field(1, ge=1, le=1_024, description="Numbers of a pixel: 1 grey, 3 colours.")

    @property
    def size(self) -> int:
        """Numbers of an image."""
        return self.height * self.width * self.channels

    def check(self, column: str, dtype: pl.DataType) -> None:
        """Raise StageError for a column that is no image, or one of another size."""
        if not (dtype == pl.Binary or _holds_numbers(dtype)):
            raise StageError(f"{column!r} is {dtype}, and an image is a list or an array of numbers, or bytes", key="image.column")
        if isinstance(dtype, pl.Array) and prod(dtype.shape) != self.size:
            raise StageError(f"{column!r} is {dtype}, and {self._said} are {self.size} numbers", key="image")

    @property
    def _said(self) -> str:
        return f"images of {self.height} x {self.width} x {self.channels}"

    def names(self, column: str) -> list[str]:
        """column[row,pixel], or column[row,pixel,channel]."""
        axes = (self.height, self.width, self.channels)[: 2 if self.channels == 1 else 3]
        return [f"{column}[{','.join(map(str, place))}]" for place in product(*map(range, axes))]

    def numbers(self, column: pl.Series, dtype: Any) -> np.ndarray[Any, Any]:
        """Pixels [rows, size], NaN where one is missing, or the whole image. Raises DataError for other sizes and infinite values."""
        there = column.is_not_null().to_numpy()
        images = column.drop_nulls()
        binary = images.dtype == pl.Binary
        if isinstance(images.dtype, pl.Array):
            flat = images.reshape((-1,))
        else:
            lengths = images.bin.size() if binary else images.list.len()
            if len(odd := lengths.filter(lengths != self.size)):
                raise DataError(f"{column.name!r} has an image of {odd[0]} numbers, and {self._said} are {self.size}", key="image")
            flat = pl.Series(np.frombuffer(b"".join(images), np.uint8)) if binary else images.explode(empty_as_null=False)
        made: np.ndarray[Any, Any] = np.full((len(column), self.size), np.nan, dtype)
        made[there] = flat.cast(pl.Float32 if dtype == np.float32 else pl.Float64).to_numpy().reshape(-1, self.size)
        if np.isinf(made).any():
            raise DataError(f"{column.name!r} has infinite values, or some beyond the model's numbers. Make them null.", key="image")
        return made


def _holds_numbers(dtype: pl.DataType) -> bool:
    """Whether it is a list of numbers, or an array of them with however many axes."""
    inner: Any = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else None
    while isinstance(dtype, pl.Array) and isinstance(inner, pl.Array):
        inner = inner.inner
    return inner is not None and inner.is_numeric()
