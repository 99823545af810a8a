"""What a column says that is several numbers of a model's matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict


class Unfolded(BaseModel):
    """How one column becomes columns of the matrix: a frozen value, which the file beside a model has too."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """How many they are."""
        raise NotImplementedError(f"{type(self).__name__} has no size")

    def check(self, column: str, dtype: pl.DataType) -> None:
        """Raise StageError where a column is not such a one."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def names(self, column: str) -> list[str]:
        """What the columns of the matrix are called."""
        return [f"{column}[{place}]" for place in range(self.size)]

    def numbers(self, column: pl.Series, dtype: Any) -> np.ndarray[Any, Any]:
        """Their values [rows, size], NaN where missing. Raises DataError for a value that does not fit."""
        raise NotImplementedError(f"{type(self).__name__} has no numbers")
