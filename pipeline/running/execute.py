"""Walks a plan on a cluster: submits every stage, writes the outputs, counts rows, tells progress. It knows no domain.

Nothing is waited for until all is submitted, so independent stages overlap and Dask frees a table when its last reader is done. A table is
held (computed once) where several read it and reading it twice would cost more; otherwise stages fuse into their reader's tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pipeline.clusters.cluster import Cluster
from pipeline.errors import DataError, PipelineError, RunError
from pipeline.format import InputFormat
from pipeline.job.spec import Output
from pipeline.plan.fingerprints import digest
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.plan.unchanged import need_unchanged
from pipeline.results.manifest import Entry
from pipeline.results.publish import RunFolder
from pipeline.results.remembered import Remembered
from pipeline.results.store import open_store
from pipeline.running.accounting import Accounting
from pipeline.running.idleness import Idleness
from pipeline.running.inputs import input_table
from pipeline.running.kept_inputs import Imports, Kept, submit_import
from pipeline.running.memory import Memory
from pipeline.running.pending import Waiting
from pipeline.running.progress import Progress, progress_of
from pipeline.running.record import Account, versions
from pipeline.running.writing import Written, submit_output
from pipeline.stage import Context, Outcome
from pipeline.tables.columns import AXES
from pipeline.tables.part import Schema
from pipeline.tables.steps import count_rows
from pipeline.tables.table import Table


@dataclass
class Executed:
    """What a run gave: the files written, model files, metrics per stage, and what was noticed and did not stop it."""

    entries: list[Entry] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    idle: dict[str, float] = field(default_factory=dict)


class Execution:
    """One walk through a plan."""

    def __init__(
        self, plan: Plan, cluster: Cluster, folder: RunFolder, tell: Callable[[Progress], None], accounts: dict[str, Account]
    ) -> None:
        self.plan, self.cluster, self.folder, self.tell, self.accounts = plan, cluster, folder, tell, accounts
        self.session = cluster.session()
        self.session.look = self._progress
        self.waiting = Waiting(cluster.client)
        self.tables: dict[str, Table] = {}
        self.accounting = Accounting(accounts, plan.rows)
        self.kept: dict[str, Kept] = {}  # inputs that are read from their imports
        self.metrics, self.files = dict[str, Any](), dict[str, bytes]()
        self.warnings: dict[str, list[str]] = {}
        self.written: dict[str, list[Written]] = {}
        self.stage = ""  # the one that submits its tasks just now
        self.idleness, self.memory = Idleness(), Memory(cluster, plan)
        self.depths = dict[str, int]()  # of every table: stages on the longest way to it

    def run(self) -> Executed:
        """Submit, wait, and give what came out. Raises a task's first error, as RunError or DataError, and cancels the others.

        Where an input's files are no longer those of the plan, that is the error, whatever else came of it.
        """
        try:
            self._need_unchanged()
            self._import()
            self._submit()
            self._wait()
            self._need_unchanged()
        except BaseException as error:
            self.waiting.cancel()
            if isinstance(error, PipelineError):
                self._need_unchanged()
            raise
        finally:
            self.session.close()
        return self._executed()

    def _need_unchanged(self) -> None:
        """Raise DataError where a file that is read is not as the plan saw it; what was imported is read from its import."""
        for name, stamps in self.plan.stamps.items():
            if name in self.kept:
                continue
            try:
                need_unchanged(stamps)
            except DataError as error:
                error.where = self.plan.where(name)
                raise

    def _import(self) -> None:
        """Make the imports that the job wants and that are not there yet, one after the other."""
        for name, entry in self.plan.job.inputs.items():
            if entry.reader.keeps_table():
                kept = Imports(self.plan.job.results).of(entry.reader, partial(self._convert, name))
                self._need_unchanged()
                self.kept[name] = kept

    def _convert(self, name: str, folder: str) -> list[Written]:
        self.accounts[name] = Account(name, self.plan.job.inputs[name].reader.name)
        written = list[Written]()
        futures = submit_import(self.session, name, self._reader(name), self.plan.inputs[name], folder)
        self.waiting.add(f"import {name}", futures, written.extend)
        self._wait()
        return written

    def _submit(self) -> None:
        for name in self.plan.inputs:
            self._keep(name, self._input(name), self.plan.inputs[name])
        for stage in self.plan.stages:
            self._stage(stage)
        for output in self.plan.job.outputs.values():
            self._output(output)
        self.tables.clear()
        for table, future in self.session.accounts:
            self.waiting.add(f"rows of {table or 'a table'}", [future], partial(self.accounting.measured, table))
        if self.cluster.spec.in_this_process:
            for stage in self.plan.stages:
                stage.spec.stage.prepare(lean=self.session.lean)

    def _reader(self, name: str) -> InputFormat:
        reader = self.plan.job.inputs[name].reader  # workers of a running cluster may have been started in another folder
        return reader if self.cluster.spec.shares_our_folder else reader.absolute()

    def _input(self, name: str) -> Table:
        reader, schema, kept = self._reader(name), self.plan.inputs[name], self.kept.get(name)
        use, rows, counts = reader.name, self.plan.rows[name], dict[str, int]()
        if kept:
            reader, rows, counts = kept.reader(reader.parts), kept.rows, dict(kept.counts)
        table = input_table(self.session, name, reader, schema)
        self.accounts[name] = Account(name, use, rows=rows, parts=len(table.blocks), counts=counts)
        if rows is None and not schema.arrays:
            counted = self.session.submit(count_rows, name, table.sources, stage=name, on_host=True)
            self.waiting.add(f"rows {name}", [counted], partial(self.accounting.rows, name))
        if counting := reader.infinities():
            counted = self.session.submit(counting, stage=name, on_host=True)
            self.waiting.add(f"infinities {name}", [counted], partial(self.accounting.infinities, name))
        return table

    def _stage(self, stage: PlannedStage) -> None:
        reads = {role: self.tables[table] for role, table in stage.spec.inputs.items()}
        context = Context(stage.spec.name, self.plan.job.seed, self.session, self._remembered(stage))
        self.session.depth = 1 + max(self.depths[table] for table in stage.spec.inputs.values())
        self.accounts[stage.spec.name], self.stage = Account(stage.spec.name, stage.spec.use), stage.spec.name
        try:
            outcome = stage.spec.stage.run(reads, context)
            self.stage = ""
        except RunError as error:  # of what a stage does before its tasks: training over workers, say
            error.within(context.name).where = self.plan.where(context.name, error.key)
            raise
        for name, table in outcome.tables.items():
            full = f"{stage.spec.name}.{name}" if name else stage.spec.name
            self._keep(full, table, stage.gives[full])
        self._wait_for(stage.spec.name, outcome)

    def _remembered(self, stage: PlannedStage) -> Remembered | None:
        """What earlier runs with the same libraries left of a stage that read the same tables."""
        reads = [[role, self.plan.fingerprints[table.split(".")[0]], table] for role, table in sorted(stage.spec.inputs.items())]
        return Remembered.of(open_store(self.plan.job.results), [reads, versions()], digest)

    def _wait_for(self, stage: str, outcome: Outcome) -> None:
        """What comes of a stage beside its tables: its model's files, metrics, counts."""
        files = list(outcome.files)
        wanted: list[tuple[str, list[Any], Callable[[list[Any]], None]]] = [
            ("file", [outcome.files[name] for name in files], lambda values: self.files.update(zip(files, values, strict=True))),
            ("metrics", [outcome.metrics], lambda values: self.metrics.update({stage: values[0]})),
            ("measures", [outcome.measures], lambda values: self.accounting.of(stage).measures.update(values[0])),
            ("warnings", [outcome.warnings], lambda values: self.warnings.update({stage: values[0]})),
            ("counts", [outcome.counts], lambda values: self.accounting.of(stage).counts.update(values[0])),
        ]
        for what, futures, done in wanted:
            if futures and futures[0] is not None:
                self.waiting.add(f"{what} {stage}", futures, done)

    def _keep(self, name: str, table: Table, schema: Schema) -> None:
        """Make a table known by its name, and its arrays' axes by theirs; hold it where several read it."""
        table, uses = replace(table, name=name, schema=schema), self.plan.uses.get(name, 0)
        written = any(output.table == name for output in self.plan.job.outputs.values())
        if (uses > 1 and (written or not table.cheap)) or (self.plan.job.counts == "all" and uses):
            table = table.hold()
        self.tables[name], self.depths[name] = table, self.session.depth
        for array, axis in table.axes.items():
            if array in schema.arrays:
                self._keep(f"{name}.{AXES[array]}", axis, Schema(schema.arrays[array]))

    def _output(self, output: Output) -> None:
        expected = self.plan.tables[output.table] if not output.columns else None
        self.session.depth = 1 + self.depths[output.table]
        stem = f"part-{self.folder.id}" if output.append else "part"  # after the files of earlier runs
        futures = submit_output(self.tables[output.table], output, expected, self.folder.file, stem)
        self.waiting.add(f"write {output.name}", futures, partial(self.written.__setitem__, output.name))

    def _wait(self) -> None:
        try:
            self.waiting.wait(self._progress)
        except RunError as error:
            error.where = error.where or self.plan.where(error.stage, error.key)
            raise

    def _progress(self) -> None:
        self.memory.look()
        progress = progress_of(self.cluster.client, self.session.submitted, self.stage)
        if progress.threads is not None:
            self.idleness.look(progress.threads)
        for stage, seconds in progress.seconds.items():
            if stage in self.accounts:
                self.accounts[stage].seconds = seconds
        self.tell(progress)

    def _executed(self) -> Executed:
        """What came out, in the order of the job; a table that was never by itself has the account of its files."""
        names = [stage.spec.name for stage in self.plan.stages]
        done = Executed(
            files=dict(sorted(self.files.items())),
            metrics={name: self.metrics[name] for name in names if name in self.metrics},
            idle=self.idleness.document(),
        )
        done.warnings = [f"{name}: {text}" for name in names for text in self.warnings.get(name, ())] + self.session.notes
        for output in self.plan.job.outputs.values():
            written = self.written[output.name]
            account = self.accounting.of(output.table)
            unmeasured = account.bytes is None
            for number, one in enumerate(written):
                kept = [(path, rows) for path, rows in one.files if rows != 0 or number == 0]
                done.entries += [Entry(path.removeprefix(self.folder.path).lstrip("/"), rows) for path, rows in kept]
                if unmeasured:
                    account.add(one.measured)
        return done


def execute(plan: Plan, cluster: Cluster, folder: RunFolder, tell: Callable[[Progress], None], accounts: dict[str, Account]) -> Executed:
    """Run a plan on a cluster; the outputs' files are in the run's folder afterwards, and nothing is published yet.

    `accounts` fills as the run goes, so that the record of a run that fails says how far it came.
    """
    return Execution(plan, cluster, folder, tell, accounts).run()
