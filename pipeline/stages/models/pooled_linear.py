"""Linear regression on the rows of several sites, from the masked sums that each of them gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns
from pipeline.stages.models._pooled.pooling import TABLE, pooled
from pipeline.stages.models._pooled.published import content, description
from pipeline.stages.models._pooled.solve import Solution, solved
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

OUTPUT = {"feature": pl.String(), **dict.fromkeys(("coefficient", "standard_error", "statistic", "p_value"), pl.Float64())}


class PooledLinear(Whole, name="pooled_linear", version=1):
    """Fit least squares on the rows of all sites together, from the union of the tables that `site_sums` made at each.

    A row for the intercept and for each feature: feature, coefficient, standard_error, statistic and p_value (Student's t). They are those
    of ordinary least squares on the pooled rows: sums are exact, centred as whole numbers, and solved in 150 decimal digits. Metrics are
    r_squared, residual_variance, rows and degrees_of_freedom. Every site of the study must be there once, with the same study, sites,
    columns and digits; masks that do not cancel are refused, and so are a column that does not vary and collinear features.

    With `key` the model is published as models/NAME.npz with models/NAME.json beside it, as one of `linear`: `score` takes it, with
    features as Float64, a missing one as the pooled mean.

    The pooled sums and this answer are not hidden from whoever runs it, and two studies that differ by a few rows tell about these.

    Example:
        {use: pooled_linear, from: sums_of_all, as: effects, key: patient_id}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "sites": Count("sites"),
        "rows_used": Count("rows of all sites"),
        "features": Count("features"),
    }

    key: ColumnName | None = Field(None, description="Column that names a row where the model will score; without it none is published.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a coefficient. Raises StageError for a table that is none of `site_sums`."""
        schema = schemas["rows"]
        need_columns(schema, TABLE, key="from")
        for name, dtype in TABLE.items():
            if schema.columns[name] != dtype:
                raise StageError(f"column {name!r} is {schema.columns[name]}, and {dtype} in a table of site_sums. Cast it.", key="from")
        return {"": Schema(pl.Schema(OUTPUT))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One task that adds, and one that solves."""
        submit, name = context.session.submit, context.name
        sums = submit(pooled, tables["rows"].named(name).value(), stage=name)
        found = submit(solved, sums, stage=name)
        table = Table.of(context.session, name, [submit(_table, found, stage=name)])
        files: dict[str, Any] = {}
        if self.key:
            files[f"{name}.npz"] = submit(content, found, stage=name)
            files[f"{name}.json"] = submit(description, found, name, self.key, stage=name)
        return Outcome({"": table}, files, submit(_metrics, found, stage=name), submit(_counts, sums, found, stage=name))


def _table(found: Solution) -> Part:
    columns = (found.names, found.coefficients, found.errors, found.statistics, found.p_values)
    return Part(pl.DataFrame(dict(zip(OUTPUT, columns, strict=True)), OUTPUT).fill_nan(None))


def _metrics(found: Solution) -> dict[str, Any]:
    return {
        "r_squared": found.r_squared,
        "residual_variance": found.residual_variance,
        "rows": found.rows,
        "degrees_of_freedom": found.freedom,
    }


def _counts(sums: Any, found: Solution) -> dict[str, int]:
    return {"sites": len(sums.agreed.sites), "rows_used": found.rows, "features": len(found.names) - 1}
