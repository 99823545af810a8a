"""What every stage says that takes a published model and rows for it: which model, and the rows as the model learned from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import polars as pl
from pydantic import Field, PrivateAttr

from pipeline.errors import DataError, StageError, near, under
from pipeline.stage import ColumnName, Stage, Whole, need_columns
from pipeline.stages.models._predictor import check_finite, feature_matrix
from pipeline.stages.models._published import Published, read_published
from pipeline.tables.columns import AXES, AXIS_IDS
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class OfModel(Whole):
    """Takes rows as they were before the first stage that the model was learned behind, and repeats those stages with what they learned."""

    roles = ("rows",)

    model: str = Field(min_length=1, description="The JSON file of a published model; the model itself lies beside it.")
    fitted: tuple[str, ...] | None = Field(None, description="Stages before the model to repeat, by their names; all by default.")

    _published: Published = PrivateAttr()

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the model's description read."""
        with under("model"):
            found = read_published(self.model, stage_class)
        made = self.model_copy()
        made._published = replace(found, steps=[step for step in found.steps if self.fitted is None or step.name in self.fitted])
        named = [step.name for step in found.steps]
        for name in self.fitted or ():
            if name not in named:
                raise StageError(f"the model was learned behind no stage {name!r}.{near(name, named)}", key="fitted")
        return made

    def files(self) -> Sequence[str]:
        """The model's two files."""
        return (self._published.path, self._published.model)

    @property
    def kept(self) -> tuple[ColumnName, ...]:
        """The columns of the rows that stay beside what the model takes."""
        return ()

    def check_rows(self, schema: Schema) -> Schema:
        """The rows' schema once they are prepared.

        Raises StageError where a column of training is missing or of another type; PlaceError where a library is not installed.
        """
        self._published.learner.need()
        need_columns(schema, self.kept, key="keep")
        for step in self._published.steps:
            try:
                step.stage.check_input("rows", schema)
            except StageError as error:
                raise StageError(f"{step.name!r}, which the model was learned behind: {error.text}", key="from") from error
            schema = replace(schema, columns=step.apply(schema.columns.to_frame().lazy()).collect_schema())
        _need_features(self._published.asked(schema.columns.names()), schema)
        return schema

    def prepared(self, rows: Table) -> tuple[Table, list[Any]]:
        """The rows as the model takes them, the kept columns as they were beside them, and their arrays' axes."""
        axes = [rows.axes[array].value() for array in self._published.description["arrays"]]
        return rows.map(self.as_learned), axes

    @property
    def published(self) -> Published:
        """The model, once it is opened."""
        return self._published

    def as_learned(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows after the stages that the model was learned behind, the kept columns as they were beside them."""
        rows = rows.with_columns(pl.col(name).alias(_kept(name)) for name in self.kept)
        for step in self._published.steps:
            rows = step.apply(rows)
        return rows

    def kept_of(self, part: Part) -> pl.DataFrame:
        """The kept columns of a part that is prepared."""
        return part.frame.select(pl.col(_kept(name)).alias(name) for name in self.kept)

    def matrix(self, part: Part, axes: Sequence[Part], published: Published | None = None) -> Any:
        """Features `[rows, features]` of a part that is prepared, for the model or a form of it that is not published yet.

        Raises DataError for what training did not have.
        """
        published = published or self._published
        told, names = published.description, list(published.types)
        for name, largest in told["codes"].items():
            _need_known(part.frame[name], largest)
        unfolded = published.unfolded
        check_finite([name for name in names if name not in unfolded], part.frame, published.precision)
        _need_same(
            [*names, *(name for array, axis in zip(told["arrays"], axes, strict=True) for name in _labels(array, axis))], told["features"]
        )
        return feature_matrix(part, names, told["arrays"], published.precision, unfolded)


def _need_features(published: Published, schema: Schema) -> None:
    """Raise StageError where the rows, once prepared, are not what the model was trained on."""
    for name, dtype in published.types.items():
        if name not in schema.columns:
            text = f"the model needs the column {name!r}, as {dtype}.{near(name, schema.columns.names())} {_not_repeated(published)}"
            raise StageError(text, key="from")
        if schema.columns[name] != dtype:
            raise StageError(f"column {name!r} is {schema.columns[name]}, and was {dtype} in training. Cast it.", key="from")
    if lacking := [array for array in published.description["arrays"] if array not in schema.arrays]:
        raise StageError(f"the model needs {lacking[0]} beside the rows, which have none (see genotype_features)", key="from")


def _need_known(codes: pl.Series, largest: int | None) -> None:
    """Raise DataError for a code above those of training."""
    beyond = codes.filter((codes > (-1 if largest is None else largest)) | (codes < 0))
    if len(beyond):
        text = f"{codes.name!r} has the code {beyond[0]}, and training saw none above {largest}. Make it null, or train with such rows."
        raise DataError(text)


def _need_same(found: Sequence[str], trained: Sequence[str]) -> None:
    """Raise DataError where the features, which arrays bring too, are not those of training in their order."""
    if list(found) == list(trained):
        return
    at = next((i for i, (one, other) in enumerate(zip(found, trained, strict=False)) if one != other), min(len(found), len(trained)))
    here, then = (repr(names[at]) if at < len(names) else "none" for names in (found, trained))
    raise DataError(
        f"the model takes {len(trained)} features and {len(found)} are here; number {at + 1} is {here}, and was {then} in training. "
        "Choose the same ones, in the same order."
    )


def _kept(name: str) -> str:
    return f"__kept__{name}"


def _labels(array: str, axis: Part) -> list[str]:
    labels: list[str] = axis.frame[AXIS_IDS[AXES[array]]].to_list()
    return labels


def predicted_columns(predicts: Mapping[str, pl.DataType], predicted: Any) -> list[pl.Series]:
    """What a model predicts, `[rows]` or `[rows, columns]`, as its columns with their types."""
    columns = zip(predicts.items(), np.atleast_2d(predicted.T), strict=True)
    return [pl.Series(name, np.ascontiguousarray(values)).cast(dtype) for (name, dtype), values in columns]


def _not_repeated(published: Published) -> str:
    """Which stages before the model are repeated, and what to do about the others."""
    repeated = ", ".join(repr(step.name) for step in published.steps)
    found = f"Of the stages before the model only those that learned are repeated ({repeated})" if repeated else "No stage is repeated here"
    return f"{found}: if one that learns nothing made it (derive, window, date_parts, join), put the same stage before this one."
