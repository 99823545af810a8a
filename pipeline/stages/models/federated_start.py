"""The model that sites begin to train together: how features are standardized, by pooled sums, and parameters to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.neural import need_neural
from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns
from pipeline.stages.models._federated.shared_model import FEDERATED, described
from pipeline.stages.models._network.deep_learning import Width
from pipeline.stages.models._pooled.pooling import TABLE, Pooled, pooled
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

OUTPUT = {"column": pl.String(), "mean": pl.Float64(), "scale": pl.Float64()}
MOST_EMBEDDED = 50  # numbers that a category becomes where the job does not say, as in network


@dataclass(frozen=True)
class Scales:
    """Means and standard deviations of the columns over the rows of all sites: features, and last the target."""

    columns: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    rows: int


class FederatedStart(Whole, name="federated_start", version=1):
    """Make the network that several sites train together, from the union of the tables that `site_sums` made at each.

    The sums say how the features, and a regression's target, are standardized: by mean and standard deviation of the rows of all sites that
    miss none of them. `categorical` are features that are no part of the sums: codes that all sites write alike, by how many there are.
    Parameters are drawn by the job's seed, as network draws them. The model is published as models/NAME.safetensors with
    models/NAME.json beside it, as one of `network`: `site_update` trains it, `federated_average` makes the next one, `score` takes each. It
    takes features as Float64 and categories as Int64. A row a column: column, mean, scale.

    Example:
        {use: federated_start, from: sums_of_all, as: risk, key: patient_id, objective: binary, layers: [16]}
    """

    counts: ClassVar[Mapping[str, Count]] = {"rows_used": Count("rows of all sites"), "features": Count("features")}

    key: ColumnName = Field(description="Column that names a row, at every site and where the model will score.")
    objective: Literal["regression", "binary", "multiclass"] = Field(description="What the target is.")
    classes: tuple[str | int, ...] = Field((), description="Values of a multi-class target, in the order of the prediction columns.")
    categorical: Mapping[ColumnName, int] = Field({}, description="Further features that hold codes of categories, with how many codes.")
    layers: tuple[Width, ...] = Field((), max_length=100, description="Width of each hidden layer; none makes a linear model.")
    activation: Literal["relu", "gelu", "silu", "tanh"] = Field("relu", description="What follows each hidden layer.")
    embedding: int | None = Field(
        None, ge=1, le=4_096, description="Numbers that a category becomes; by default half of the categories, at most 50."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a column. Raises StageError for a table that is none of `site_sums`; PlaceError where JAX is not installed."""
        need_neural()
        need_columns(schemas["rows"], TABLE, key="from")
        for name, dtype in TABLE.items():
            if (found := schemas["rows"].columns[name]) != dtype:
                raise StageError(f"column {name!r} is {found}, and {dtype} in a table of site_sums. Cast it.", key="from")
        if (self.objective == "multiclass") != bool(self.classes) or len({*map(str, self.classes)}) < len(self.classes):
            raise StageError("the values of a multi-class target, each once, and of no other", key="classes")
        for name, count in self.categorical.items():
            if not 1 <= count <= 1_000_000:
                raise StageError(f"{name!r} cannot have {count} codes: 1 to 1,000,000", key="categorical")
        return {"": Schema(pl.Schema(OUTPUT))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One task that adds, and one that makes the model."""
        submit, name = context.session.submit, context.name
        scales = submit(self.scaled, submit(pooled, tables["rows"].named(name).value(), stage=name), stage=name)
        table = Table.of(context.session, name, [submit(_table, scales, stage=name)])
        files = {
            f"{name}.safetensors": submit(self.content, scales, context.seed, stage=name),
            f"{name}.json": submit(self.description, scales, name, stage=name),
        }
        return Outcome({"": table}, files, counts=submit(self.tally, scales, stage=name))

    def scaled(self, sums: Pooled) -> Scales:
        """Means and deviations, from exact sums. Raises DataError for a category among them, and a target that does not vary."""
        intercept, *columns = sums.agreed.columns
        if both := sorted({*columns} & {*self.categorical}):
            raise DataError(f"the sums are of {both[0]!r} too, a category's codes. Leave it out of the features of site_sums.")
        count, unit = sums.rows, 1 << (2 * sums.agreed.digits)
        totals = [sums.entries[intercept, name] for name in columns]
        spreads = [count * sums.entries[name, name] - total * total // unit for name, total in zip(columns, totals, strict=True)]
        if spreads[-1] <= 0:
            raise DataError(f"target {columns[-1]!r} has one value in all rows of all sites; there is nothing to learn")
        deviations = [float(np.sqrt(max(spread, 0) / (count * count * unit))) or 1.0 for spread in spreads]
        return Scales(tuple(columns), tuple(total / (count * unit) for total in totals), tuple(deviations), count)

    def content(self, scales: Scales, seed: int) -> bytes:
        """The file of the network."""
        from pipeline.neural.inputs import Inputs
        from pipeline.neural.perceptron import Shape, initial
        from pipeline.neural.saved import Trained

        shape = Shape.of(self._shape(scales))
        drawn = int(np.random.default_rng(seed).integers(2**31))
        parameters = initial(shape, drawn, [np.arange(count + 1) for count in self.categorical.values()])
        numbers = tuple(range(shape.numbers))
        codes = tuple(range(shape.numbers, shape.numbers + len(self.categorical)))
        inputs = Inputs(numbers, codes, np.array(scales.means[:-1]), np.array(scales.scales[:-1]))
        target = (scales.means[-1], scales.scales[-1]) if self.objective == "regression" else (0.0, 1.0)
        return Trained(shape, self.objective, inputs, target, parameters).saved()

    def description(self, scales: Scales, name: str) -> bytes:
        """The file beside it."""
        *numbers, target = scales.columns
        classes = [str(value) for value in self.classes]
        types = {**dict.fromkeys(numbers, "Float64"), **dict.fromkeys(self.categorical, "Int64")}
        predicts = [f"prediction_{value}" for value in classes] or ["prediction"]
        return described({
            "use": "network", "model": f"{name}.safetensors", "objective": self.objective, "target": target, "key": self.key,
            "classes": classes, "precision": "Float32", "predicts": dict.fromkeys(predicts, "Float32"), "features": [*types],
            "types": types, "arrays": [], "categorical": [*self.categorical],
            "codes": {name: count - 1 for name, count in self.categorical.items()}, "network": self._shape(scales), "rounds_used": 0,
            "fitted": [], FEDERATED: {"round": 0, "history": []},
        })  # fmt: skip

    def tally(self, scales: Scales) -> dict[str, int]:
        """What is counted."""
        return {"rows_used": scales.rows, "features": len(scales.columns) - 1 + len(self.categorical)}

    def _shape(self, scales: Scales) -> dict[str, Any]:
        sizes = [[count + 1, self.embedding or min(MOST_EMBEDDED, (count + 2) // 2)] for count in self.categorical.values()]
        return {
            "numbers": len(scales.columns) - 1, "embeddings": sizes, "layers": list(self.layers), "outputs": len(self.classes) or 1,
            "activation": self.activation,
        }  # fmt: skip


def _table(scales: Scales) -> Part:
    return Part(pl.DataFrame(dict(zip(OUTPUT, (scales.columns, scales.means, scales.scales), strict=True)), OUTPUT))
