"""Rows as lives: how long each lasted, whether it ended with an event, when it entered and in which stratum; checked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._cox.hazards import Lives

Array = Any


@dataclass(frozen=True)
class LifeColumns:
    """The columns that say of rows how long they lasted."""

    duration: str
    event: str
    entry: str | None
    strata: str | None

    @property
    def names(self) -> list[str]:
        """Those that there are."""
        return [name for name in (self.duration, self.event, self.entry, self.strata) if name]

    def known(self, frame: pl.DataFrame) -> Array:
        """Rows that say all of it, `bool[n]`."""
        return frame.select(pl.all_horizontal(pl.col(self.names).is_not_null())).to_series().to_numpy()

    def of(self, frame: pl.DataFrame) -> tuple[Lives, pl.Series]:
        """The lives of rows that are known, and the values of strata, whose places the lives have. Raises DataError for what is none."""
        duration, event = (frame[name].cast(pl.Float64).to_numpy() for name in (self.duration, self.event))
        entry = frame[self.entry].cast(pl.Float64).to_numpy() if self.entry else None
        if not np.isin(event, (0.0, 1.0)).all():
            odd = event[~np.isin(event, (0.0, 1.0))][0]
            raise DataError(f"{self.event!r} has the value {odd:g}; it must be 1 where the duration ended with an event, else 0")
        if not (np.isfinite(duration) & (duration >= 0)).all():
            odd = duration[~(np.isfinite(duration) & (duration >= 0))][0]
            raise DataError(
                f"{self.duration!r} has the value {odd:g}; a duration is 0 or more. Make it null, and the row is predicted only."
            )
        if entry is not None and not ((entry >= 0) & (entry < duration)).all():
            at = int(np.argmin((entry >= 0) & (entry < duration)))
            text = f"{self.entry!r} is {entry[at]:g} where {self.duration!r} is {duration[at]:g}"
            raise DataError(f"{text}; a row enters at 0 or later, and before it ends. Filter such rows out.")
        values = frame[self.strata].unique().sort() if self.strata else pl.Series("stratum", [0])
        numbers = values.to_frame().with_row_index("__number__")
        found = frame.select(self.strata).join(numbers, on=self.strata, how="left", maintain_order="left") if self.strata else None
        stratum = np.zeros(frame.height, np.int64) if found is None else found["__number__"].cast(pl.Int64).to_numpy()
        return Lives(duration, event == 1, entry, stratum), values
