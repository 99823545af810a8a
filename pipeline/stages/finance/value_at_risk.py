"""What a portfolio may lose: value at risk, expected shortfall, and how they would have held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import BeforeValidator, Field

from pipeline.errors import DataError, StageError
from pipeline.kernels.risk import historical_risk, kupiec_p_value, parametric_risk, stretches
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns, need_keys, need_numeric
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Array = Any
Level = Annotated[float, Field(gt=0.5, lt=1)]
By = Annotated[tuple[ColumnName, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
METHODS: dict[str, Callable[[Array, float, int], tuple[Array, Array]]] = {"historical": historical_risk, "parametric": parametric_risk}


class ValueAtRisk(Whole, name="value_at_risk", version=1):
    """Say of each series of returns which loss is exceeded with probability 1 - level (value at risk), and the mean loss beyond it.

    `historical` takes them from the returns as they were (the quantile on the line between two, and the mean of those not above it), over
    a longer `horizon` times its root; `parametric` from a normal distribution of their mean and standard deviation. Both are fractions
    like the returns, losses positive. They are of the last `window` returns, of all where it is not given.

    With a `window` each later return is compared with what the window before it said: `tested` returns, `exceedances` (losses beyond it),
    and Kupiec's p-value, low where these are too many or too few. NAME.days has them, a row a series, time, method and level.
    Rows without a return are left out and counted; times are there once a series. The order is that of the series, then of time.

    Example: {use: value_at_risk, from: returns, as: risk, by: portfolio, time: day, value: return, levels: [0.95, 0.99], window: 250}
    """

    counts: ClassVar[Mapping[str, Count]] = {"missing": Count("rows without a return, left out")}

    by: By = Field((), description="Columns that name a series; all rows are one where none is given.")
    time: ColumnName = Field(description="Column of dates, timestamps or whole numbers.")
    value: ColumnName = Field(description="Column of returns, as fractions: -0.02 is a loss of 2 %.")
    levels: tuple[Level, ...] = Field((0.95, 0.99), min_length=1, description="Probabilities of not losing more.")
    methods: tuple[Literal["historical", "parametric"], ...] = Field(("historical", "parametric"), min_length=1, description="How.")
    horizon: int = Field(1, ge=1, le=10_000, description="Periods ahead.")
    window: int | None = Field(None, ge=2, le=1_000_000, description="Last returns to learn from; all where it is not given.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Series, and with a window their days. Raises StageError for columns that cannot be used."""
        columns = schemas["rows"].columns
        need_keys(schemas["rows"], self.by, key="by")
        need_columns(schemas["rows"], [self.time], key="time")
        need_numeric(schemas["rows"], [self.value], key="value")
        if not (columns[self.time].is_temporal() or columns[self.time].is_integer()):
            raise StageError(f"column {self.time!r} is {columns[self.time]}: dates, timestamps or whole numbers are needed", key="time")
        if self.value in {*self.by, self.time}:
            raise StageError(f"{self.value!r} names a series or its time, too; give the column of its returns", key="value")
        keys = {name: columns[name] for name in self.by}
        told = {"method": pl.String(), "level": pl.Float64()}
        risk = {"value_at_risk": pl.Float64(), "expected_shortfall": pl.Float64()}
        whole = {**keys, "until": columns[self.time], **told, "observations": pl.Int64(), **risk}
        if self.window is None:
            return {"": self._schema(whole)}
        tested = {"tested": pl.Int64(), "exceedances": pl.Int64(), "kupiec_p_value": pl.Float64()}
        days = {**keys, self.time: columns[self.time], self.value: pl.Float64(), **told, **risk, "exceeded": pl.Boolean()}
        return {"": self._schema({**whole, **tested}), "days": self._schema(days)}

    def _schema(self, columns: dict[str, pl.DataType]) -> Schema:
        """Raises StageError where a column of the rows has the name of one that is made."""
        made = {"until", "method", "level", "observations", "value_at_risk", "expected_shortfall", "tested", "exceedances", "exceeded"}
        if taken := sorted(made & {*self.by, self.time, self.value}):
            raise StageError(f"the result has a column {taken[0]!r} of its own. Rename yours before.", key="by")
        return Schema(pl.Schema(columns))

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The series of every part."""
        rows = tables["rows"].named(context.name)
        rows = (rows.exchange(self.by) if self.by else rows.gather()).hold()
        schemas = self.outputs({"rows": Schema(tables["rows"].schema.columns)}) if tables["rows"].schema else {}
        works = {"": self._measured, "days": self._tested}
        return Outcome({name: rows.map_parts(works[name], schema) for name, schema in schemas.items()})

    def _series(self, part: Part) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
        """Every series of a part, its returns in the order of time. Raises DataError for a time that is missing or there twice."""
        frame = part.frame.select(*self.by, self.time, pl.col(self.value).cast(pl.Float64)).drop_nulls(self.value)
        frame = frame.sort(*self.by, self.time, nulls_last=True)
        wrong = frame.filter(pl.col(self.time).is_null() | pl.struct(*self.by, self.time).is_duplicated())
        if wrong.height:
            row = ", ".join(f"{name} {value!r}" for name, value in zip(frame.columns, wrong.row(0), strict=True))
            raise DataError(f"a series has each time once, and rows have one: {row}. Aggregate, or filter them before.", key="time")
        for key, series in frame.group_by(*self.by, maintain_order=True) if self.by else [((), frame)]:
            if series.height:
                yield tuple(key), series

    def _measured(self, part: Part, schema: Schema) -> Part:
        """One row a series, method and level."""
        rows: list[tuple[Any, ...]] = []
        for key, series in self._series(part):
            returns = series[self.value].to_numpy()
            last = returns[-self.window :] if self.window else returns
            for method in self.methods:
                for level in self.levels:
                    risk = self._risk(last[None, :], method, level, self.horizon)
                    found = (*key, series[self.time][-1], method, level, len(last), *(float(value[0]) for value in risk))
                    rows.append((*found, *self._held(returns, method, level)) if self.window else found)
        missing = int(part.frame[self.value].null_count())
        return Part(_frame(rows, schema), counts={"missing": missing} if missing else {})

    def _risk(self, windows: Array, method: str, level: float, horizon: int = 1) -> tuple[Array, Array]:
        if windows.shape[1] < 2:  # one return has no spread, and no quantile but itself
            return np.full(len(windows), np.nan), np.full(len(windows), np.nan)
        return METHODS[method](windows, level, horizon)

    def _forecasts(self, returns: Array, method: str, level: float) -> tuple[Array, Array]:
        """Of every return behind a whole window what the window said."""
        assert self.window is not None
        found = [self._risk(windows, method, level) for windows in stretches(returns, self.window)]
        said, short = ([np.empty(0), *(pair[at] for pair in found)] for at in (0, 1))
        return np.concatenate(said), np.concatenate(short)

    def _held(self, returns: Array, method: str, level: float) -> tuple[int, int, float]:
        said, _ = self._forecasts(returns, method, level)
        exceeded = int((-returns[len(returns) - len(said) :] > said).sum())
        return len(said), exceeded, kupiec_p_value(len(said), exceeded, level)

    def _tested(self, part: Part, schema: Schema) -> Part:
        """One row a series, time, method and level."""
        frames = [_frame([], schema)]
        for _, series in self._series(part):
            for method in self.methods:
                for level in self.levels:
                    said, short = self._forecasts(series[self.value].to_numpy(), method, level)
                    later = series.tail(len(said)).with_columns(
                        method=pl.lit(method), level=pl.lit(level), value_at_risk=pl.Series(said), expected_shortfall=pl.Series(short)
                    )
                    frames.append(later.with_columns(exceeded=-pl.col(self.value) > pl.col("value_at_risk")).cast(schema.columns))
        order = [*self.by, self.time, "method", "level"]
        return Part(pl.concat(frames).sort(order, maintain_order=True))


def _frame(rows: list[tuple[Any, ...]], schema: Schema) -> pl.DataFrame:
    """The rows; what cannot be measured is null."""
    return pl.DataFrame(rows, schema.columns, orient="row").with_columns(pl.col(pl.Float64).fill_nan(None))
