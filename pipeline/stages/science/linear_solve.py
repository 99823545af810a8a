"""Systems of linear equations, and least squares."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.kernels.principal_axes import joined
from pipeline.stage import Context, Outcome, Whole, need_columns, need_numeric
from pipeline.stages.science._least_squares import solved_by_qr, triangle_of
from pipeline.stages.science._matrices import FLOAT, Names, matrix_columns, over_parts
from pipeline.stages.science._refined import Laid, solved
from pipeline.stages.science._systems import Equations, Scales, Solution, scales, scales_of
from pipeline.stages.science._systems_in_memory import InMemory
from pipeline.stages.science._systems_on_disk import OnDisk, is_beyond
from pipeline.tables.part import Schema
from pipeline.tables.plain import as_in_files
from pipeline.tables.table import Table

DOUBTFUL = 1e8
"""Condition numbers above which a warning says how many digits hold."""


class LinearSolve(Whole, name="linear_solve", version=1):
    """Solve A X = B: an equation a row, columns of coefficients, and one or more columns of right-hand sides.

    `lu` is for as many equations as unknowns: LU with partial pivoting over blocks of whole columns, which several workers update at once.
    Where they are more than memory holds they lie on the machine's disk, and a task has one of them at a time. Of 1,000 unknowns or more
    the factors are of 32 bits, in half the time, and the answers are refined until they meet the equations to the last digit, as factors of
    64 bits would; where those of 32 bits hold too little of the matrix (conditions from 1e7 to 1e9 on) it is factored again in 64 bits.
    `least_squares` is for more equations: every part is reduced to a triangle (QR), so that a table may be longer than any memory. `auto`
    takes the one that fits.
    Equations and columns are scaled by powers of two first (in least squares columns alone), so numbers from 1e-300 to 1e300 stand beside
    one another.

    A row a column of coefficients: `unknown`, and its value for each right-hand side. The metrics have the condition number (an estimate in
    the Frobenius norm, of the scaled matrix; a third off at most, nearly always) and how closely the equations are met. A singular matrix
    is refused, and so is one whose condition is above `max_condition`: of 16 digits a condition of 1e12 leaves four.

    Example: {use: linear_solve, from: equations, as: solution, key: node, right: [load]}
    """

    right: Names = Field(description="Columns of right-hand sides.")
    columns: Names = Field((), description="Columns of coefficients; all others of numbers where not given.")
    key: Names = Field((), description="Columns that name the equations, and are none of the matrix.")
    method: Literal["auto", "lu", "least_squares"] = Field("auto", description="auto: lu where there are as many equations as unknowns.")
    max_condition: float = Field(1e12, ge=1, le=1e16, description="Condition number above which there is an error and no solution.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The unknowns. Raises StageError for columns that cannot be used."""
        schema = schemas["rows"]
        if not self.right:
            raise StageError("there is no right-hand side; name one column or more", key="right")
        need_columns(schema, self.key, key="key")
        need_numeric(schema, self.right, key="right")
        self._own(schema)
        if "unknown" in self.right:
            raise StageError("the result has a column 'unknown' of its own. Rename yours before.", key="right")
        return {"": Schema(pl.Schema({"unknown": pl.String(), **dict.fromkeys(self.right, FLOAT)}))}

    def _own(self, schema: Schema) -> tuple[str, ...]:
        return matrix_columns(schema, self.columns, [*self.key, *self.right])

    def prepare(self, *, lean: bool = False) -> None:
        """Import SciPy's LAPACK."""
        import_module("scipy.linalg")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Passes over the rows. Waits for the number of equations, and for answers that are refined."""
        rows, session, name = tables["rows"].named(context.name), context.session, context.name
        assert rows.schema is not None
        about = Equations(self._own(rows.schema), self.right, self.key, self.max_condition, session.backend)
        rows = as_in_files(rows, about.own + about.right).hold()
        sizes = over_parts(rows, scales, scales_of, about)
        square = session.value(session.submit(self._is_square, sizes, len(about.own), stage=name))
        if square:
            laid: Laid = (OnDisk if is_beyond(about, session) else InMemory)(rows, about, sizes, context)
            del rows  # its numbers are there
            solution, error = solved(laid, about, sizes, context)
        else:
            found = over_parts(rows, triangle_of, joined, about, sizes)
            solution, error = session.submit(solved_by_qr, found, sizes, about, stage=name), None
        part = session.submit(attrgetter("part"), solution, stage=name)
        metrics = session.submit(_metrics, solution, sizes, about, error, stage=name)
        warnings = session.submit(_warnings, solution, stage=name)
        return Outcome({"": Table.of(session, name, [part])}, metrics=metrics, warnings=warnings)

    def _is_square(self, sizes: Scales, unknowns: int) -> bool:
        """Whether LU solves it. Raises DataError where it was asked for and there are more or fewer equations than unknowns."""
        if self.method == "lu" and sizes.rows != unknowns:
            text = (
                f"{sizes.rows:,} equations of {unknowns:,} unknowns, and lu wants as many. Use method: least_squares, or choose `columns`."
            )
            raise DataError(text, key="method")
        return self.method != "least_squares" and sizes.rows == unknowns


def _metrics(solution: Solution, sizes: Scales, about: Equations, error: float | None) -> dict[str, Any]:
    """What was solved, how, and how well."""
    told = {"equations": sizes.rows, "unknowns": len(about.own), "condition": solution.condition}
    if error is not None:
        return {**told, "backward_error": error}
    return {**told, "residual_norm": {name: float(left) for name, left in zip(about.right, solution.left, strict=True)}}


def _warnings(solution: Solution) -> list[str]:
    if solution.condition <= DOUBTFUL:
        return []
    return [
        f"condition number {solution.condition:.1e}: of 16 digits the last {len(str(int(solution.condition)))} of the unknowns may be wrong"
    ]
