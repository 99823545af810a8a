"""Which tables are held, and tables without the columns that nobody reads, where they are held, joined or put in one place.

Within a query Polars reads what it needs; but a join's task, a task that holds a table and an exchange work on all columns they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.plan.needed import Needed, needed
from pipeline.plan.once import read_once
from pipeline.plan.plan import PlannedStage
from pipeline.running.resuming import Resumption
from pipeline.stage import Keyed, Rows
from pipeline.tables.narrowed import narrowed
from pipeline.tables.part import Schema
from pipeline.tables.table import Table
from pipeline.tables.told import TellsNeeds


class Narrowing:
    """What of a run's tables is needed; `may_keep` says of a stage and its table whether a checkpoint may be made, which has all of it."""

    def __init__(self, resumed: Resumption, may_keep: Callable[[PlannedStage, str], bool]) -> None:
        self.plan, plan = resumed.meanings.plan, resumed.meanings.plan
        every = plan.job.counts == "all"  # each table is told as it is
        whole = [name for stage in plan.stages for name in stage.gives if every or may_keep(stage, name)]
        outputs = [name for name in plan.job.outputs if name not in resumed.outputs]
        self.needed: Needed = needed(plan, resumed.runs, outputs, [*whole, *(plan.inputs if every else ())])
        self.once = read_once(plan, self.needed)  # inputs that are decoded once for all their readers

    def reads(self, stage: PlannedStage, given: dict[str, Table]) -> dict[str, Table]:
        """The tables of its roles as a stage is given them: with what it needs, where it is no query that picks its columns itself."""
        if isinstance(stage.spec.stage, Rows | Keyed) or not isinstance(stage.spec.stage, TellsNeeds):
            return given
        return {role: _with(self.needed.reads[stage.spec.name, role], table) for role, table in given.items()}

    def holds(self, name: str, table: Table, uses: int, *, written: bool) -> bool:
        """Whether a table with so many uses is computed once, and held for all of them."""
        if self.plan.job.counts == "all":
            return uses > 0
        return uses > 1 and (written or not table.cheap or name in self.once)

    def had(self, name: str, table: Table, *, held: bool) -> Table:
        """A table for its readers; an input whose texts turned out too long for memory is read by each of them after all."""
        return table.hold() if held and not (name in self.once and table.is_beyond) else table

    def given(self, name: str, table: Table, schema: Schema, reads: Mapping[str, Table], *, held: bool) -> tuple[Table, Schema]:
        """A table of the plan's schema as it is had, and its schema: with what its readers need, if it is held or came of such tables."""
        columns = self.needed.tables.get(name, frozenset(schema.columns))
        stage = next((stage for stage in self.plan.stages if name in stage.gives), None)
        less = stage is not None and any(reads[role].schema != known for role, known in stage.reads.items() if role in reads)
        if schema.arrays or columns.issuperset(schema.columns) or not (held or less):
            return table, schema
        table = narrowed(table, schema, columns)
        assert table.schema is not None
        return table, table.schema


def _with(columns: frozenset[str], table: Table) -> Table:
    return table if table.schema is None or columns.issuperset(table.schema.columns) else narrowed(table, table.schema, columns)
