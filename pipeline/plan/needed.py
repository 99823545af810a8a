"""Which columns of every table somebody reads: worked out from the outputs back to the inputs, by what stages tell of themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pipeline.job.spec import Output
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.tables.part import Schema
from pipeline.tables.told import TellsNeeds


@dataclass(frozen=True)
class Needed:
    """Of every table the columns that its readers together need, and of every reader, a stage and its role, those that it needs."""

    tables: Mapping[str, frozenset[str]]
    reads: Mapping[tuple[str, str], frozenset[str]]


def needed(plan: Plan, runs: Collection[str], outputs: Collection[str], whole: Collection[str]) -> Needed:
    """What the stages that run and the outputs that are written need; of tables that shall stay `whole` all is needed.

    A stage that tells nothing needs all that it is given, and so does one that reads arrays.
    """
    tables = {name: frozenset(plan.tables[name].columns.names()) for name in whole}
    for name in outputs:
        output = plan.job.outputs[name]
        tables[output.table] = tables.get(output.table, frozenset()) | _written(output, plan.tables[output.table])
    reads = dict[tuple[str, str], frozenset[str]]()
    for stage in reversed(plan.stages):
        if stage.spec.name in runs:
            for role, columns in _read(stage, tables).items():
                table = stage.spec.inputs[role]
                reads[stage.spec.name, role] = columns
                tables[table] = tables.get(table, frozenset()) | columns
    return Needed(tables, reads)


def _written(output: Output, schema: Schema) -> frozenset[str]:
    return frozenset(schema.columns) if output.columns is None else frozenset((*output.columns, *output.sort_by.names))


def _read(stage: PlannedStage, tables: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """What a stage needs in each role, at least one column: a table of none has no rows either."""
    every = {role: frozenset(schema.columns) for role, schema in stage.reads.items()}
    told, arrays = stage.spec.stage, any(schema.arrays for schema in stage.reads.values())
    if arrays or not isinstance(told, TellsNeeds):
        return every
    needs = told.needs(stage.reads, tables.get(stage.spec.name, frozenset()))
    firsts = {role: frozenset(schema.columns.names()[:1]) for role, schema in stage.reads.items()}
    return {role: frozenset(needs[role]) or firsts[role] for role in every}
