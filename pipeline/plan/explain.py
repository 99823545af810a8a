"""A plan as text: inputs whole, and of every stage's tables what is new, changed and dropped against the table it works on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import polars as pl

from pipeline.tables.part import Schema, listed

if TYPE_CHECKING:
    from pipeline.plan.plan import Plan, PlannedStage


@runtime_checkable
class Explained(Protocol):
    """A stage that says more of how it will run than its tables do."""

    def explained(self, schemas: Mapping[str, Schema]) -> str:
        """One line, of the tables that it reads by role."""


@runtime_checkable
class OfPairs(Protocol):
    """A stage whose work grows with the pairs of what labels an array's second axis."""

    def of_pairs(self, rows: int, labels: int) -> str:
        """One line of the work and how long it takes, for so many rows of the first table that it reads, and labels of its array."""


def explained(plan: Plan, said: Mapping[str, str]) -> str:
    """Every input's columns and rows where they are known, what each stage changes, and the outputs with their columns."""
    sizes = {"input": len(plan.inputs), "stage": len(plan.stages), "output": len(plan.job.outputs)}
    lines = [f"job {plan.job.name}: {', '.join(map(so_many, sizes.values(), sizes))}, on {plan.backend}"]
    for name, schema in plan.inputs.items():
        rows = plan.rows[name]
        known = f"{rows:,} rows, about {_megabytes(schema, rows)}" if rows is not None else "rows known once read"
        held = f", {said[f'input {name}']}" if f"input {name}" in said else ""
        lines += [f"input {name} ({plan.job.inputs[name].format}): {known}{held}", f"    {schema}"]
    for stage in plan.stages:
        there = said.get(stage.spec.name, "to run")
        lines += [f"stage {stage.spec.name}: {stage.spec.use} of {', '.join(stage.spec.inputs.values())}, {there}", *_stage(plan, stage)]
    for name, output in plan.job.outputs.items():
        schema = plan.tables[output.table]
        columns = schema.columns if output.columns is None else {column: schema.columns[column] for column in output.columns}
        there = f", {said[f'output {name}']}" if f"output {name}" in said else ""
        lines += [f"output {name}: {output.table}{there}", f"    {Schema(pl.Schema(columns), schema.arrays)}"]
    return "\n".join(lines)


def so_many(number: int, word: str) -> str:
    """A number of things: 1 input, 2 inputs."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _stage(plan: Plan, stage: PlannedStage) -> list[str]:
    """The tables that a stage gives: its own against the first table it reads that it has columns of, others whole."""
    lines = []
    for table, schema in stage.gives.items():
        shared = [role for role, read in stage.reads.items() if _words(read).keys() & _words(schema).keys()]
        if table == stage.spec.name and shared:
            lines += changes(stage.spec.inputs[shared[0]], stage.reads[shared[0]], schema)
        else:
            lines.append(f"{table}: {schema}")
    if isinstance(stage.spec.stage, Explained):
        lines.append(stage.spec.stage.explained(stage.reads))
    if isinstance(stage.spec.stage, OfPairs) and (known := _most(plan, stage)):
        lines.append(stage.spec.stage.of_pairs(*known))
    return [f"    {line}" for line in lines]


def _most(plan: Plan, stage: PlannedStage) -> tuple[int, int] | None:
    """Rows and labels of the one input with an array that a stage's first table is made of; None where files do not say them unread."""
    tables = {entry.spec.name: entry.spec.inputs.values() for entry in plan.stages}
    names, wanted = set[str](), [next(iter(stage.spec.inputs.values()))]
    while wanted:
        name = wanted.pop().partition(".")[0]
        names.add(name)
        wanted += tables.get(name, ())
    found = [name for name in names if name in plan.inputs and plan.inputs[name].arrays]
    rows = plan.rows[found[0]] if len(found) == 1 else None
    if rows is None:
        return None
    return rows, max(axis.height for axis in plan.job.inputs[found[0]].reader.axes().values())


def changes(table: str, before: Schema, after: Schema) -> list[str]:
    """What is new, changed and dropped against a table, a line each where there is any, and how many columns are as they were."""
    old, new = _words(before), _words(after)
    found = {
        "new": [f"{name} {word}" for name, word in new.items() if name not in old],
        "changed": [f"{name} {old[name]} -> {word}" for name, word in new.items() if name in old and old[name] != word],
        "dropped": [name for name in old if name not in new],
    }
    lines = [f"{what}: {listed(names)}" for what, names in found.items() if names]
    same = sum(old.get(name) == word for name, word in new.items())
    return [*lines, f"as in {table}: {same} column{'s' if same != 1 else ''}" if lines else f"columns as in {table}"]


def _words(schema: Schema) -> Mapping[str, str]:
    """Every column and array by name, and its type in words."""
    arrays = {name: str(Schema(pl.Schema(), {name: axis})).removeprefix(name) for name, axis in schema.arrays.items()}
    return {**{name: str(dtype) for name, dtype in schema.columns.items()}, **arrays}


def _megabytes(schema: Schema, rows: int | None) -> str:
    """A guess at a table's size in memory: fixed-width columns by their width, texts at 16 bytes."""
    widths = [8 if dtype.is_numeric() or dtype.is_temporal() else 1 if dtype == pl.Boolean else 16 for dtype in schema.columns.dtypes()]
    return f"{sum(widths) * (rows or 0) / 2**20:,.1f} MB"
