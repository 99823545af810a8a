"""A published model that answers rows in memory, as `score` answers those of a table: the same stages before it, the same refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from pipeline.backend.devices import Backend
from pipeline.errors import DataError, InputError, PipelineError, StageError
from pipeline.registry import stage_class
from pipeline.stages.models._predictor import Answerer
from pipeline.stages.models.score import Score
from pipeline.tables.part import Schema

KNOWN_SCHEMAS = 256
Answer = pl.DataFrame | Exception
Columns = tuple[tuple[str, pl.DataType], ...]
"""A frame's columns with their types, in order."""


class Served:
    """A model, ready to predict. Not to be asked by two threads at once.

    Raises InputError where there is no such model or it takes more than columns, PlaceError where a library that it needs is missing.
    """

    def __init__(self, path: str, backend: Backend = "cpu") -> None:
        self._keyless = Score(model=path, keep=()).opened(stage_class)
        self.published = self._keyless.published
        self.key = str(self.published.description["key"])
        self._keyed = self._keyless.model_copy(update={"keep": (self.key,)})
        if arrays := self.published.description["arrays"]:
            raise InputError(f"{path}: the model takes {arrays[0]} beside its columns, which no request brings. Score files by a job.")
        self.published.learner.need()
        self._predictor = self.published.predictor(backend)
        self._checked: set[Columns] = set()
        self._casts: dict[Columns, dict[str, pl.DataType]] = {}

    def description(self) -> dict[str, Any]:
        """What a client may want to know of the model."""
        told = self.published.description
        names = ("use", "objective", "target", "key", "classes", "predicts", "types", "categorical")
        return {
            "model": self.published.path,
            **{name: told[name] for name in names if name in told},
            "behind": [{"stage": step.name, "use": step.stage.name} for step in self.published.steps],
        }

    def answers(self, requests: Sequence[pl.DataFrame]) -> list[Answer]:
        """The predictions of every request, or why there are none; requests of the same columns are predicted together."""
        found: dict[int, Answer] = {}
        alike: dict[Columns, list[int]] = {}
        for at, rows in enumerate(requests):
            alike.setdefault(tuple(rows.schema.items()), []).append(at)
        for places in alike.values():
            found |= zip(places, self._together([requests[at] for at in places]), strict=True)
        return [found[at] for at in range(len(requests))]

    def _together(self, requests: Sequence[pl.DataFrame]) -> list[Answer]:
        """Of requests with the same columns. Where they cannot be answered together each is asked alone: one may be wrong."""
        whole = self._alone(pl.concat(requests)) if len(requests) > 1 and not isinstance(self._predictor, Answerer) else None
        if not isinstance(whole, pl.DataFrame):
            return [self._alone(rows) for rows in requests]
        ends = [0]
        for rows in requests:
            ends.append(ends[-1] + rows.height)
        return [whole[start:end] for start, end in pairwise(ends)]

    def _alone(self, rows: pl.DataFrame) -> Answer:
        stage = self._keyed if self.key in rows.columns else self._keyless
        try:
            if (schema := tuple(rows.schema.items())) not in self._checked:
                stage.outputs({"rows": Schema(rows.schema)})
                self._checked = {schema, *(self._checked if len(self._checked) < KNOWN_SCHEMAS else ())}
            return stage.answer(rows, self._predictor)
        except (PipelineError, pl.exceptions.PolarsError) as error:
            return error

    def typed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows whose columns have no types of their own (JSON's), with the types of training where that loses nothing.

        Raises DataError for a number that has no place in that type.
        """
        schema = tuple(rows.schema.items())
        if (casts := self._casts.get(schema)) is None:
            casts = self._found_casts(rows.clear())
            self._casts = {schema: casts, **(self._casts if len(self._casts) < KNOWN_SCHEMAS else {})}
        return rows.with_columns(_cast(rows[name], dtype) for name, dtype in casts.items())

    def _found_casts(self, rows: pl.DataFrame) -> dict[str, pl.DataType]:
        """The columns that are of another type than in training, though of its kind, and the types that they had there."""
        types = self.published.types
        casts = {name: types.get(name, pl.String()) for name, dtype in rows.schema.items() if dtype == pl.Null}
        empty = rows.with_columns(_cast(rows[name], dtype) for name, dtype in casts.items())
        try:
            learned: Mapping[str, pl.DataType] = self._keyless.as_learned(empty.lazy()).collect_schema()
        except (StageError, pl.exceptions.PolarsError):
            return casts  # what is wrong with them the check says
        numbers = [name for name, dtype in rows.schema.items() if name in types and _hold_numbers(dtype, types[name])]
        return casts | {name: types[name] for name in numbers if learned.get(name) not in (None, types[name])}


def _hold_numbers(given: pl.DataType, learned: pl.DataType) -> bool:
    """Whether both are types of numbers, or of lists of them."""
    if isinstance(given, pl.List) and isinstance(learned, pl.List):
        return given.inner.is_numeric() and learned.inner.is_numeric()
    return given.is_numeric() and learned.is_numeric()


def _cast(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column in another type, where every value has one there."""
    made = column.cast(dtype, strict=False)
    if isinstance(dtype, pl.List):
        _cast(column.explode(empty_as_null=False), made.explode(empty_as_null=False).dtype)
        return made
    lost = column.is_not_null() & (made.is_null() | (made.cast(column.dtype) != column if dtype.is_integer() else made.is_null()))
    if lost.any():
        raise DataError(f"column {column.name!r} has {column.filter(lost)[0]!r}, and was {dtype} in training, which has no such value")
    return made
