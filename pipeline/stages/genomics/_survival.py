"""Traits that are times to an event: two columns of a samples table, and the one number that a scan makes of them. Not a stage.

The number is the time of an event, or minus the time at which a person was last seen without one (censored).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnName, need_numeric
from pipeline.tables.part import Part, Schema


class TimeToEvent(BaseModel):
    """The columns of a trait."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: ColumnName = Field(description="Column of how long a person was seen: a number, 0 or more.")
    event: ColumnName = Field(description="Column that is 1 (or true) where that ended with the event, else 0.")


Traits = Mapping[str, TimeToEvent]


def with_traits(samples: Schema, traits: Traits) -> Schema:
    """A samples table with a number for each trait. Raises StageError where columns are missing, or no numbers."""
    for name, trait in traits.items():
        need_numeric(samples, (trait.time, trait.event), key="traits")
        if name in samples.columns and name not in {trait.time, trait.event}:
            raise StageError(f"the trait {name!r} has the name of another column of the samples table. Name it otherwise.", key="traits")
    kept = {name: dtype for name, dtype in samples.columns.items() if name not in traits}
    return replace(samples, columns=pl.Schema({**kept, **dict.fromkeys(traits, pl.Float64())}))


def columns_of(traits: Traits) -> list[pl.Expr]:
    """What is read of a samples table for the traits."""
    return [
        pl.col(column).cast(pl.Float64).alias(f"{kind} {name}")
        for name, trait in traits.items()
        for kind, column in (("time", trait.time), ("event", trait.event))
    ]


def signed(rows: Part, traits: Traits) -> Part:
    """These rows of `columns_of` with a number for each trait; null where time or event is missing.

    Raises DataError for a time that is negative or infinite, and for an event that is neither 0 nor 1.
    """
    frame = rows.frame
    for name, trait in traits.items():
        time, event = pl.col(f"time {name}"), pl.col(f"event {name}")
        for wrong, column, what in (
            (~time.is_finite() | (time < 0), f"time {name}", f"time {trait.time!r} has the value {{:g}}; it must be 0 or more"),
            (~event.is_in([0.0, 1.0]), f"event {name}", f"event {trait.event!r} has the value {{:g}}; it must be 1 (event) or 0 (none)"),
        ):
            odd = frame.filter(wrong)
            if odd.height:
                who = odd["sample_id"][0]
                raise DataError(f"trait {name!r}: the {what.format(odd[column][0])}, at sample {who!r}. Correct it, or make it null.")
        frame = frame.with_columns(pl.when(event.is_null()).then(None).when(event == 1).then(time).otherwise(-time).alias(f"signed {name}"))
    own = list(chain.from_iterable((f"time {name}", f"event {name}") for name in traits))
    renamed = {f"signed {name}": name for name in traits}
    return rows.replaced(frame.drop(own).rename(renamed))
