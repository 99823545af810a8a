"""Singular value decomposition of a matrix of many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import StageError
from pipeline.kernels.powers_of_two import LEAST, divided
from pipeline.kernels.principal_axes import joined, triangle
from pipeline.kernels.tall_svd import RightSide, left_vectors, orthonormal, random_directions, right_side, righting, turned
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.science._matrices import FLOAT, Names, check_names, frame_of, greatest, matrix_columns, matrix_of, over_parts
from pipeline.tables.part import Part, Schema
from pipeline.tables.plain import as_in_files
from pipeline.tables.table import Table

Array = Any
EXACT = 1_000
"""Columns up to which `auto` is exact."""
PLAIN = 400
"""Exponents of numbers whose squares need no scaling."""
CONVERGED = 1e-6
"""Residuals above which a warning says so."""


class Svd(Whole, name="svd", version=1):
    """Decompose a matrix A = U S V': the first singular values with their left and right vectors.

    Of many rows and some hundred columns `exact` reduces every part to a triangle (QR), so small values keep the digits that A'A would
    lose; `randomized` turns a few random directions to the leading vectors in some passes, for many columns. A table may be longer than any
    memory. An axis's largest right entry is positive; of equal values the vectors are not determined; values that rounding alone would
    decide are 0, and so are their vectors. `truncated_svd` publishes such axes as a model for features instead.

    A row each: the `key` and component_1, component_2 ... (U). NAME.values has a line a component: singular value, share of the squares,
    and the residual |A'u - s v| / s_1, next to 0 where exact. NAME.right has V: a row a column.

    Example: {use: svd, from: spectra, as: decomposed, key: sample, components: 5}
    """

    key: Names = Field((), description="Columns that name the rows, and are none of the matrix.")
    columns: Names = Field((), description="Columns of the matrix; all others of numbers where not given.")
    components: int = Field(5, ge=1, le=2_000, description="Number of singular values.")
    method: Literal["auto", "exact", "randomized"] = Field("auto", description="auto: exact up to 1,000 columns.")
    passes: int = Field(6, ge=1, le=100, description="Times that the randomized method multiplies by A'A.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Left vectors, values and right vectors. Raises StageError for columns that cannot be used, or fewer than components."""
        schema, made = schemas["rows"], self._made()
        check_names(schema, self.key, made, key="key")
        own = matrix_columns(schema, self.columns, self.key)
        if self.components > len(own):
            raise StageError(f"{self.components:,} components of {len(own):,} columns; ask for at most as many", key="components")
        vectors = dict.fromkeys(made, FLOAT)
        values = {"component": pl.Int64(), **dict.fromkeys(("singular_value", "explained_share", "residual"), FLOAT)}
        left = {**{name: schema.columns[name] for name in self.key}, **vectors}
        right = {"column": pl.String(), **vectors}
        return {"": Schema(pl.Schema(left)), "values": Schema(pl.Schema(values)), "right": Schema(pl.Schema(right))}

    def _made(self) -> list[str]:
        return [f"component_{number}" for number in range(1, self.components + 1)]

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Passes over the parts."""
        rows, submit, name = tables["rows"].named(context.name), context.session.submit, context.name
        assert rows.schema is not None
        own, backend, made = matrix_columns(rows.schema, self.columns, self.key), context.session.backend, self._made()
        rows = as_in_files(rows, own).hold()
        reader = _Reader(own, self.key, backend)
        size = over_parts(rows, _size, _size_of, reader)
        read = (reader, size)
        basis = None
        if self.method == "randomized" or (self.method == "auto" and len(own) > EXACT):
            basis = submit(random_directions, len(own), self.components, context.seed, stage=name)
            for _ in range(self.passes):
                basis = submit(orthonormal, over_parts(rows, _turned, _added, *read, basis), stage=name)
        found = over_parts(rows, _triangle, _joined, *read, basis)
        side = submit(_right_side, found, basis, self.components, size, stage=name)
        straight = submit(righting, over_parts(rows, _left_triangle, joined, *read, side), side, stage=name)
        left = rows.map_parts(_left, *read, side, straight, made, writes=None)
        missed = over_parts(rows, _missed, _added, *read, side, straight)
        told = submit(_told, side, missed, size, own, made, stage=name)
        pieces = [submit(itemgetter(at), told, stage=name) for at in range(4)]
        values, right = (Table.of(context.session, name, [piece]) for piece in pieces[:2])
        return Outcome({"": left, "values": values, "right": right}, metrics=pieces[2], warnings=pieces[3])


@dataclass(frozen=True)
class _Reader:
    """Columns of the matrix, those that name its rows, and where it computes."""

    own: tuple[str, ...]
    key: tuple[str, ...]
    backend: Backend

    def values(self, part: Part, size: tuple[int, int]) -> Array:
        """The part's numbers; very large and very small ones all divided by one power of two that brings the greatest below 1."""
        found, power = matrix_of(part, self.own, "cpu", self.key), _power(size)
        return to_device(divided(found, power) if power else found, self.backend)


def _size(part: Part, reader: _Reader) -> tuple[int, int]:
    """Rows, and the exponent of the greatest number."""
    return part.rows, int(greatest(part, reader.own, reader.key).max())


def _size_of(found: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(rows for rows, _ in found), max(most for _, most in found)


def _power(size: tuple[int, int]) -> int:
    return size[1] if abs(size[1]) > PLAIN and size[1] > LEAST else 0


def _turned(part: Part, reader: _Reader, size: tuple[int, int], basis: Array) -> Array:
    values = reader.values(part, size)
    return to_host(turned(values, array_module(values).asarray(basis)))


def _added(found: Sequence[Array]) -> Array:
    return sum(found[1:], start=found[0])


def _triangle(part: Part, reader: _Reader, size: tuple[int, int], basis: Array | None) -> tuple[Array, float]:
    """R of the rows, or of their products with a basis, and the sum of their squares."""
    values = reader.values(part, size)
    squares = float((values * values).sum())
    return to_host(triangle(values if basis is None else values @ array_module(values).asarray(basis))), squares


def _joined(found: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
    return joined([one for one, _ in found]), sum(squares for _, squares in found)


def _right_side(found: tuple[Array, float], basis: Array | None, components: int, size: tuple[int, int]) -> RightSide:
    return right_side(found[0], basis, components, size[0], found[1])


def _left_triangle(part: Part, reader: _Reader, size: tuple[int, int], side: RightSide) -> Array:
    return to_host(triangle(left_vectors(reader.values(part, size), side)))


def _left(part: Part, reader: _Reader, size: tuple[int, int], side: RightSide, straight: Array, made: Sequence[str]) -> Part:
    found = left_vectors(reader.values(part, size), side)
    return Part(part.frame.select(reader.key).hstack(frame_of(found @ array_module(found).asarray(straight), made)))


def _missed(part: Part, reader: _Reader, size: tuple[int, int], side: RightSide, straight: Array) -> Array:
    """A'U of a part, `float64[p, k]`."""
    values = reader.values(part, size)
    found = left_vectors(values, side)
    return to_host(values.T @ (found @ array_module(found).asarray(straight)))


def _told(
    side: RightSide, products: Array, size: tuple[int, int], own: Sequence[str], made: Sequence[str]
) -> tuple[Part, Part, dict[str, Any], list[str]]:
    """Values, right vectors, metrics and warnings."""
    largest = side.singular.max(initial=0.0)
    residual = np.sqrt(((products - side.vectors * side.singular) ** 2).sum(axis=0)) / (largest or 1.0)
    share = side.singular**2 / (side.squares or 1.0)
    values = {
        "component": np.arange(1, len(made) + 1),
        "singular_value": np.ldexp(side.singular, _power(size)),
        "explained_share": share,
        "residual": residual,
    }
    right = pl.DataFrame({"column": list(own)}, {"column": pl.String}).hstack(frame_of(side.vectors, made))
    rank = int((side.singular > 0).sum())
    metrics = {"rows": size[0], "columns": len(own), "components": rank, "share_of_squares": float(share.sum())}
    slow = int((residual > CONVERGED).sum())
    text = f"{slow:,} of {len(made):,} components have a residual above {CONVERGED:g}: others lie close. Raise passes, or use method: exact"
    return Part(pl.DataFrame(values)), Part(right), metrics, [text] if slow else []
