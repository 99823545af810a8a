"""Products of matrices: A B, A'A and A'B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError, near
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns
from pipeline.stages.science._matrices import FLOAT, Names, check_names, frame_of, matrix_columns, matrix_of, over_parts
from pipeline.tables.part import Part, Schema
from pipeline.tables.plain import as_in_files
from pipeline.tables.table import Table

Array = Any


class MatrixProduct(Whole, name="matrix_product", version=1):
    """Multiply matrices: A B of two tables, or A'A, the products of a table's columns with one another.

    A row of a table is a row of the matrix, a column of numbers one of its columns. Of two tables the rows of `right` are found by name:
    its column `right_key` holds the names of the columns of `left`, each once, in any order; the result has a row for each row of `left`,
    with its `key`, and the columns of `right`, which must fit into one worker's memory. `left` may be larger than any memory.

    Of `left` alone the result is A'A, or A'B with the columns `against`: a row for each column, named in `column`. Sums are float64; a
    result beyond float64 is refused, and so are missing values, NaN and infinities.

    Example: {use: matrix_product, from: {left: features, right: weights}, as: products, key: row, right_key: feature}
    """

    roles = ("left", "right")
    optional: ClassVar[frozenset[str]] = frozenset({"right"})

    key: Names = Field((), description="Columns of left that name its rows: they are kept, and are none of the matrix.")
    columns: Names = Field((), description="Columns of left; all of numbers where not given.")
    right_key: ColumnName | None = Field(None, description="Column of right that names its rows: they are columns of left.")
    right_columns: Names = Field((), description="Columns of right; all of numbers where not given.")
    against: Names = Field((), description="Without right: the columns of left that are B in A'B; where not given B is A.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The product. Raises StageError for columns that cannot be used, and for parameters of the other form."""
        left, right = schemas["left"], schemas.get("right")
        need_columns(left, self.key, key="key")
        own = self._columns(left)
        if right is None:
            if self.right_key is not None or self.right_columns:
                name = "right_key" if self.right_key is not None else "right_columns"
                raise StageError("there is no table given as 'right' that it is of. Give one: from: {left: A, right: B}", key=name)
            against = matrix_columns(left, self.against or own, self.key, key="against")
            check_names(left, (), (), key="against")
            if "column" in against:
                raise StageError("the result has a column 'column' of its own. Rename yours before.", key="against")
            return {"": Schema(pl.Schema({"column": pl.String(), **dict.fromkeys(against, FLOAT)}))}
        if self.against:
            raise StageError("it is of A'B, and the table given as 'right' is B already. Leave one out.", key="against")
        if self.right_key is None:
            raise StageError("of which column of right names its rows nothing is said: those names are columns of left", key="right_key")
        need_columns(right, [self.right_key], "right", key="right_key")
        if right.columns[self.right_key] != pl.String:
            raise StageError(f"column {self.right_key!r} of right is {right.columns[self.right_key]}, and names are text", key="right_key")
        others = matrix_columns(right, self.right_columns, [self.right_key], key="right_columns")
        check_names(left, self.key, others, key="key")
        return {"": Schema(pl.Schema({**{name: left.columns[name] for name in self.key}, **dict.fromkeys(others, FLOAT)}))}

    def _columns(self, left: Schema) -> tuple[str, ...]:
        return matrix_columns(left, self.columns, self.key)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A map over the parts of left, or a sum over them."""
        left, name, backend = tables["left"].named(context.name), context.name, context.session.backend
        assert left.schema is not None
        own = self._columns(left.schema)
        left = as_in_files(left, (*own, *self.against))
        if "right" not in tables:
            against = self.against or own
            total = over_parts(left, _cross_products, _added, own, against, backend, self.key)
            return Outcome({"": Table.of(context.session, name, [context.session.submit(_named_rows, total, own, against, stage=name)])})
        right = tables["right"].named(name)
        assert right.schema is not None
        others = matrix_columns(right.schema, self.right_columns, [self.right_key or ""], key="right_columns")
        factor = context.session.submit(_in_order, right.value(), own, others, self.right_key, stage=name)
        return Outcome({"": left.map_parts(_multiplied, own, others, self.key, factor, backend, writes=None)})


def _in_order(right: Part, own: Sequence[str], columns: Sequence[str], key: str) -> Array:
    """Right's rows in the order of left's columns, `float64[columns of left, columns of right]`. Raises DataError where they differ."""
    names = right.frame[key]
    again = names.filter(names.is_duplicated() | names.is_null())
    if again.len():
        raise DataError(
            f"right has a row {again[0]!r} {again.eq_missing(again[0]).sum():,} times in {key!r}; give each name once", key="right_key"
        )
    places = {name: at for at, name in enumerate(names)}
    if lacking := [name for name in own if name not in places]:
        text = f"right has no row {lacking[0]!r} in {key!r}, which is a column of left.{near(lacking[0], list(places))}"
        raise DataError(f"{text} {len(lacking):,} of {len(own):,} lack; choose left's by `columns`.", key="right_key")
    if more := [name for name in places if name not in set(own)]:
        text = f"right's row {more[0]!r} in {key!r} is no column of left.{near(more[0], list(own))}"
        raise DataError(f"{text} {len(more):,} of {len(places):,} are none; filter them before.", key="right_key")
    return matrix_of(right, columns, "cpu", (key,))[[places[name] for name in own]]


def _multiplied(part: Part, own: Sequence[str], columns: Sequence[str], key: Sequence[str], factor: Array, backend: Backend) -> Part:
    values = matrix_of(part, own, backend, key)
    with np.errstate(over="ignore", invalid="ignore"):  # refused by frame_of
        product = (to_device(factor, backend).T @ values.T).T  # columns of the result lie as columns: nothing is copied twice
    return Part(part.frame.select(key).hstack(frame_of(product, columns)))


def _cross_products(part: Part, own: Sequence[str], against: Sequence[str], backend: Backend, key: Sequence[str]) -> Array:
    """A'B of a part, `float64[columns of A, columns of B]`, in the host's memory."""
    values = matrix_of(part, own, backend, key)
    others = values if own == against else matrix_of(part, against, backend, key)
    assert array_module(values) is array_module(others)
    with np.errstate(over="ignore", invalid="ignore"):
        return to_host(values.T @ others)


def _added(found: Sequence[Array]) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return sum(found[1:], start=found[0])


def _named_rows(total: Array, own: Sequence[str], against: Sequence[str]) -> Part:
    return Part(pl.DataFrame({"column": list(own)}, {"column": pl.String}).hstack(frame_of(total, against)))
