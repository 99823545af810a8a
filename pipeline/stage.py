"""What a stage is: a frozen value, its parameters, that turns named tables into named tables; four shapes of it.

Take the narrowest shape that fits: `Rows` (any rows), `FittedRows` (rows, after one look at all of them), `Keyed` (rows with equal
keys together) and `Whole` (the tables themselves). A new stage is one file under stages/ named like the stage, and its test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import StageError, near, under
from pipeline.results.remembered import Remembered
from pipeline.sql.expression import Sql, Value, check_condition
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted
from pipeline.tables.learned import learned
from pipeline.tables.names import ColumnName as ColumnName  # this module is the door for authors of stages
from pipeline.tables.names import ColumnNames as ColumnNames
from pipeline.tables.part import Part, Schema
from pipeline.tables.picked import with_picks
from pipeline.tables.session import Session
from pipeline.tables.table import Fitted, Table

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Context:
    """What a whole stage may know beside its tables; as a model inside of another one, also the split that alone it is `asked` of."""

    name: str
    seed: int
    session: Session
    remembered: Remembered | None = None
    asked: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What a stage gives, as values or futures: tables ('' is its own name, 'x' is `NAME.x`), models by name, metrics, counts, warnings."""

    tables: Mapping[str, Table]
    files: Mapping[str, Any] = field(default_factory=dict)
    metrics: Any = None
    counts: Any = None
    warnings: Any = None  # a list of texts, each with the column that it is of and the remedy
    measures: Any = None  # what run.json says beside its counts (what a training step cost, say): a mapping of what JSON can hold


class Stage(BaseModel):
    """Base of all stages. `roles` names the tables it reads: `from` is one table for one role, a list for '*', a mapping for '**'."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, arbitrary_types_allowed=True)

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    roles: ClassVar[tuple[str, ...]] = ("rows",)
    optional: ClassVar[frozenset[str]] = frozenset()  # those of several roles that a job may leave out
    counts: ClassVar[Mapping[str, Count]] = {}  # the words for what its tasks count
    unmarks: ClassVar[frozenset[str]] = frozenset()  # kinds of marks of its inputs (genome builds) that its tables no longer have
    long: ClassVar[Literal["", "tables", "training"]] = ""  # checkpoints may pay: of its tables; of a training also of what it reads

    def __init_subclass__(cls, **options: Any) -> None:
        """Take `name` and `version` out of the class statement."""
        cls.name = options.pop("name", cls.name)
        cls.version = options.pop("version", cls.version)
        super().__init_subclass__(**options)

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """Schemas of the tables that the stage gives, before anything is read: here by running it on empty frames.

        Raises StageError (or Polars' own errors) for what does not fit.
        """
        for role, schema in schemas.items():
            self.check_input(role, schema)
        empty = {role: Table.empty(context.session, context.name, schema) for role, schema in schemas.items()}
        return {name: table.known_schema() for name, table in self.run(empty, context).tables.items()}

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the files that its parameters name read, once, by the plan; raises InputError for what they are not."""
        return self

    def files(self) -> Sequence[str]:
        """Those files: like an input's they may not change under a run."""
        return ()

    def check_input(self, role: str, schema: Schema) -> None:
        """Raise StageError for what an empty frame cannot show (ranges, types that Polars lets pass); once a role, by the plan."""

    def writes(self) -> frozenset[str] | None:
        """Columns that a stage of rows, or of keys, may change or drop, never one of its keys; None where it cannot say."""
        return None

    def noticed(self, counts: Mapping[str, int]) -> Sequence[str]:
        """What a run is warned of, by what the stage's tasks counted: texts with the remedy."""
        return ()

    def prepare(self, *, lean: bool = False) -> None:
        """Load what tasks in this process want, while the first of them run; `lean`: without what only a notebook's user would miss."""

    def prepare_for(self, roles: Collection[str], *, lean: bool = False) -> None:
        """As `prepare`, by the roles that the job has tables for."""
        self.prepare(lean=lean)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The stage's work, lazily: verbs on the tables of its roles."""
        raise NotImplementedError(f"{type(self).__name__} has no run")


class Rows(Stage):
    """A row-wise stage: one lazy map, the same on any part of the rows; it fuses with its neighbours."""

    keeps_rows_apart: ClassVar[bool] = False  # each row gives one row at most, so that keys that were unique stay so

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows after the stage."""
        raise NotImplementedError(f"{type(self).__name__} has no apply")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map over the parts."""
        (rows,) = tables.values()
        found, touched = rows.named(context.name).map(self.apply, writes=self.writes()), self.writes()
        same = self.keeps_rows_apart and touched is not None and touched.isdisjoint(rows.unique)
        return Outcome({"": replace(found, unique=rows.unique if same else ())})


class FittedRows(Stage):
    """A row-wise stage that first learns a small state from all rows, or from those that `fit_where` picks (say, split = 'train').

    `fit` gives a small frame a part, `merge` one of all of them below one another, `apply` uses it. A model saved later carries it along.
    Where it may be more than a task holds, the stage says how it goes in parts (`tables/categories`).
    """

    counts: ClassVar[Mapping[str, Count]] = INFINITIES
    by_parts: ClassVar[bool] = False  # `_apply_part` makes a part of a part, on the host, which a query of many columns would do slowly
    fit_where: Sql | None = Field(None, description="SQL: the rows to learn from, at least one; all where it is not given.")

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """A few rows of sums, counts or values from one part."""
        raise NotImplementedError(f"{type(self).__name__} has no fit")

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """The state, from the partial frames of all parts below one another."""
        raise NotImplementedError(f"{type(self).__name__} has no merge")

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows after the stage."""
        raise NotImplementedError(f"{type(self).__name__} has no apply")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A map and a gather for the state, then a map that applies it. Raises DataError, in a task, where `fit_where` picks no row."""
        (rows,) = tables.values()
        rows = (rows if rows.cheap else rows.hold()).named(context.name)
        found = learned(rows.map(self._fit_rows), self)
        applied = found.applied(rows, self._apply_part)
        fitted = (*applied.fitted, Fitted(context.name, self.name, self, found.state))
        return Outcome({"": replace(applied, fitted=fitted), "fitted": found.table})

    def _fit_rows(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        if self.fit_where is None:
            return self.fit(rows)
        condition = self.fit_condition(rows.collect_schema())
        return with_picks(self.fit(rows.filter(counted(rows, condition))), rows, condition.expr)

    def fit_condition(self, schema: pl.Schema) -> Value:
        """The condition of `fit_where`, which is given. Raises ExpressionError where it does not fit the columns."""
        assert self.fit_where is not None
        with under("fit_where"):
            return check_condition(self.fit_where, schema)

    def _apply_part(self, rows: Any, state: Part) -> Any:
        return self.apply(rows, state.frame)


class Keyed(Stage):
    """Rows with equal keys must stand together. `partial` and `final` are `apply` in two steps, where rows can be made fewer first."""

    def keys(self) -> Sequence[str]:
        """The columns whose equal rows belong together."""
        raise NotImplementedError(f"{type(self).__name__} has no keys")

    def partial(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Fewer rows with the same answer, made before rows move between workers; by default all of them."""
        return rows

    def final(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows after the stage, from what `partial` gave, whole keys in a part."""
        return self.apply(rows)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows after the stage, from parts that hold whole keys."""
        raise NotImplementedError(f"{type(self).__name__} has no apply")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """An exchange by the keys, only where it must be, and a map."""
        (rows,) = tables.values()
        rows, together = rows.named(context.name), self.apply
        if rows.is_apart and len(rows.blocks) > 1:
            rows, together = rows.map(self.partial, writes=self.writes()), self.final
        return Outcome({"": rows.exchange(self.keys()).map(together, writes=self.writes(), whole="groups")})


class Whole(Stage):
    """A stage that works on the tables themselves, with all their verbs; it states the schemas it gives."""

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Schemas of the tables that the stage gives. Raises StageError where the tables do not fit."""
        raise NotImplementedError(f"{type(self).__name__} has no outputs")

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """What `outputs` says."""
        return self.outputs(schemas)


def need_columns(schema: Schema, columns: Iterable[str], role: str = "", *, key: str = "") -> None:
    """Raise StageError, with a near name, for the first column that a table does not have; `key` is the parameter that names them."""
    for column in columns:
        if column not in schema.columns:
            table = f"the table given as {role!r}" if role else "the table"
            raise StageError(f"{table} has no column {column!r}.{near(column, schema.columns.names())}", key=key)


def need_keys(schema: Schema, columns: Iterable[str], *, key: str = "") -> None:
    """Raise StageError for a column that is missing or a float, and so no key of rows; `key` is the parameter that names them."""
    need_columns(schema, names := list(columns), key=key)
    for name in names:
        if schema.columns[name].is_float():
            raise StageError(f"column {name!r} is {schema.columns[name]}, and a fraction is no key. Round it and cast it.", key=key)


def need_numeric(schema: Schema, columns: Sequence[str], *, key: str = "") -> None:
    """Raise StageError for a column that is missing or holds no numbers; `key` is the parameter that names them."""
    need_columns(schema, columns, key=key)
    for column in columns:
        if not schema.columns[column].is_numeric() and schema.columns[column] != pl.Boolean:
            raise StageError(f"column {column!r} is {schema.columns[column]}, and numbers are needed. Cast it, or categorify it.", key=key)


def need_array(schema: Schema, array: str, role: str, *, made: str = "") -> pl.Schema:
    """The axis of an array that a table must have; StageError where it has none. `made` says where such tables come from."""
    if array not in schema.arrays:
        raise StageError(f"the table given as {role!r} has no {array}{made and f' ({made})'}. It has: {schema}")
    return schema.arrays[array]
