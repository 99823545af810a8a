"""Walks a plan on a cluster: submits every stage, writes the outputs, counts rows, tells progress. It knows no domain.

Nothing is waited for until all is submitted, so independent stages overlap and Dask frees a table when its last reader is done. A table is
held (computed once) where several read it and reading it twice would cost more; otherwise stages fuse into their reader's tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pipeline.clusters.in_use import Cluster
from pipeline.errors import PipelineError, RunError
from pipeline.format import InputFormat
from pipeline.job.spec import Output
from pipeline.plan.fingerprints import digest
from pipeline.plan.plan import PlannedStage
from pipeline.plan.sizes import size_of_input, size_of_table
from pipeline.plan.unchanged import need_unchanged
from pipeline.plan.versions import versions
from pipeline.results.manifest import Entry
from pipeline.results.publish import RunFolder
from pipeline.results.remembered import Remembered
from pipeline.results.store import open_store
from pipeline.running.accounting import Accounting
from pipeline.running.bad_rows import bad_rows
from pipeline.running.beside import Beside
from pipeline.running.certificate import certified
from pipeline.running.checkpointing import Checkpointing
from pipeline.running.executed import Executed
from pipeline.running.idleness import Idleness
from pipeline.running.inputs import input_table
from pipeline.running.kept_inputs import Imports, Kept, submit_import
from pipeline.running.memory import Memory
from pipeline.running.narrowing import Narrowing
from pipeline.running.pending import Waiting
from pipeline.running.progress import Progress, progress_of
from pipeline.running.record import Account
from pipeline.running.resuming import Resumption
from pipeline.running.until_read import UntilRead
from pipeline.running.writing import Written, submit_output
from pipeline.stage import Context
from pipeline.tables.audits import disagreements
from pipeline.tables.bad_rows import SCHEMA as BAD_ROWS
from pipeline.tables.columns import AXES
from pipeline.tables.foreseen import with_texts
from pipeline.tables.measured import Measured
from pipeline.tables.part import Schema
from pipeline.tables.steps import count_rows
from pipeline.tables.table import Table

Tell = Callable[[Progress], None]


class Execution:
    """One walk through a plan."""

    def __init__(self, resumed: Resumption, cluster: Cluster, folder: RunFolder, tell: Tell, accounts: dict[str, Account]) -> None:
        self.plan, self.cluster, self.folder, self.tell, self.accounts = resumed.meanings.plan, cluster, folder, tell, accounts
        self.session, self.waiting = cluster.session(), Waiting(cluster.client)
        self.session.frames, self.session.follow = self.plan.job.frames, self._progress
        self.resumed, self.accounting = resumed, Accounting(accounts, self.plan.rows)
        self.checkpoints = Checkpointing(resumed, self.session, accounts, self.waiting.add)
        self.narrowing = Narrowing(resumed, self.checkpoints.may_keep)
        self.beside = Beside(self.accounting, self.checkpoints.keep_beside)
        self.kept: dict[str, Kept] = {}  # inputs that are read from their imports
        self.written, self.stage = dict[str, list[Written]](), ""  # the stage that submits its tasks just now
        self.idleness, self.memory = Idleness(), Memory(cluster, self.plan)
        self.depths = dict[str, int]()  # of every table: stages on the longest way to it
        self.uses, self.reads, self.tables = resumed.uses(), dict[str, Table](), UntilRead(resumed.uses())

    def run(self, meanwhile: Callable[[], None]) -> Executed:
        """Submit, wait, and give what came out. Raises a task's first error, as RunError or DataError, and cancels the others.

        Where an input's files are no longer those of the plan, that is the error, whatever else came of it.
        """
        try:
            self._need_unchanged()
            self._import()
            self._submit()
            meanwhile()
            self._wait()
            self._need_unchanged()
        except BaseException as error:
            self.waiting.cancel()
            if isinstance(error, PipelineError):
                self._need_unchanged()
            raise
        finally:
            self.session.close()
        self.beside.take(self.resumed, self.accounts)
        self.accounting.on_disk(self.session.budget)
        done = Executed(idle=self.idleness.document(), checkpoints=self.checkpoints.used)
        notes = [*self.session.notes, *disagreements({name: account.counts for name, account in self.accounts.items()})]
        return done.fill(self.beside, notes, self.resumed, self._files)

    def _need_unchanged(self) -> None:
        """Raise DataError where a file that is read is not as the plan saw it; what was imported is read from its import."""
        for name, stamps in self.plan.stamps.items():
            if name not in self.kept:
                need_unchanged(stamps, self.plan.where(name))

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
            if self.resumed.needs(name):
                self._keep(name, self._input(name), self.plan.inputs[name])
        for stage in self.plan.stages:
            if stage.spec.name in self.resumed.runs:
                self._stage(stage)
            else:
                self._take(stage)
        for output in (output for name, output in self.plan.job.outputs.items() if name not in self.resumed.outputs):
            self._output(output)
        self.tables.clear()
        self.reads = {}
        for table, future in self.session.accounts:
            self.waiting.add(f"rows of {table or 'a table'}", [future], partial(self._measured, table))

    def _reader(self, name: str) -> InputFormat:
        reader = self.plan.job.inputs[name].reader  # workers of a running cluster may have been started in another folder
        return reader if self.cluster.spec.shares_our_folder else reader.absolute()

    def _input(self, name: str) -> Table:
        reader, schema, kept = self._reader(name), self.plan.inputs[name], self.kept.get(name)
        use, rows, counts = reader.name, self.plan.rows[name], dict[str, int]()
        if kept:
            reader, rows, counts = kept.reader(reader.parts), kept.rows, dict(kept.counts)
        table = input_table(self.session, name, reader, schema, size_of_input(schema, rows, self.plan.stamps[name], reader))
        self.accounts[name] = Account(name, use, rows=rows, parts=len(table.blocks), counts=counts)
        if rows is None and not schema.arrays:
            counted = self.session.submit(count_rows, name, table.sources, stage=name, on_host=True)
            self.waiting.add(f"rows {name}", [counted], partial(self.accounting.rows, name))
        if bad := bad_rows(self.session, name, reader, self.accounting, self.waiting):
            self._keep(f"{name}.quarantined", bad, BAD_ROWS)
        if counting := reader.infinities():
            counted = self.session.submit(counting, stage=name, on_host=True)
            self.waiting.add(f"infinities {name}", [counted], partial(self.accounting.infinities, name))
        return table

    def _stage(self, stage: PlannedStage) -> None:
        self.reads = reads = self.narrowing.reads(stage, self.tables.read(stage.spec.inputs))
        context = Context(stage.spec.name, self.plan.job.seed, self.session, self._remembered(stage))
        self.session.depth = 1 + max(self.depths[table] for table in stage.spec.inputs.values())
        self.accounts[stage.spec.name], self.stage = Account(stage.spec.name, stage.spec.use), stage.spec.name
        try:
            outcome = stage.spec.stage.run(reads, context)
            self.stage = ""
        except RunError as error:  # of what a stage does before its tasks: training over workers, say
            error.where = error.within(context.name).where or self.plan.where(error.stage, error.key)
            raise
        for name, table in outcome.tables.items():
            full = f"{stage.spec.name}.{name}" if name else stage.spec.name
            kept = full in self.resumed.tables
            self._keep(full, self.checkpoints.take(full) if kept else table, stage.gives[full], fresh=not kept)
        self.beside.wait_for(stage.spec.name, outcome, self.waiting)

    def _remembered(self, stage: PlannedStage) -> Remembered | None:
        """What earlier runs with the same libraries left of a stage that read the same tables."""
        reads = [[role, self.plan.fingerprints[table.split(".")[0]], table] for role, table in sorted(stage.spec.inputs.items())]
        return Remembered.of(open_store(self.plan.job.results), [reads, versions()], digest, fresh=self.resumed.fresh)

    def _take(self, stage: PlannedStage) -> None:
        """What is there of a stage that does not run."""
        self.session.depth, self.reads = 0, {}
        for name, schema in stage.gives.items():
            if name in self.resumed.tables:
                self._keep(name, self.checkpoints.take(name), schema, fresh=False)

    def _measured(self, table: str | None, values: list[Measured]) -> None:
        self.accounting.measured(table, values)
        self.checkpoints.measured(table, values[0])

    def _keep(self, name: str, table: Table, schema: Schema, *, fresh: bool = True) -> None:
        """Make a table known by its name, and its arrays' axes by theirs; hold it where several read it, keep it where that may pay."""
        uses, written = self.uses.get(name, 0), any(output.table == name for output in self.plan.job.outputs.values())
        held = self.narrowing.holds(name, table, uses, written=written)
        table, schema = self.narrowing.given(name, table, schema, self.reads, held=held)
        size = size_of_table(table.size, schema, (one.size for one in self.reads.values()))
        table = with_texts(replace(table, name=name, schema=schema, size=size), table.size)
        table = self.checkpoints.keep(name, table, held=held) if fresh and uses else table
        self.tables[name], self.depths[name] = self.narrowing.had(name, table, held=held), self.session.depth
        for array, axis in table.axes.items():
            if array in schema.arrays:
                self._keep(f"{name}.{AXES[array]}", axis, Schema(schema.arrays[array]), fresh=False)

    def _output(self, output: Output) -> None:
        expected, self.session.depth = self.plan.tables[output.table] if not output.columns else None, 1 + self.depths[output.table]
        stem = f"part-{self.folder.id}" if output.append else "part"  # after the files of earlier runs
        futures = submit_output(self.tables[output.table], certified(output, self.plan), expected, self.folder.file, stem)
        self.waiting.add(f"write {output.name}", futures, partial(self.written.__setitem__, output.name))

    def _files(self, output: Output) -> list[Entry]:
        """The files of an output, of parts without rows the first alone; a table that was never by itself has their account."""
        if output.name in self.resumed.outputs:
            run, entries = self.resumed.outputs[output.name]
            self.folder.keep(run.id, entries)
            return entries
        found, account = list[Entry](), self.accounting.of(output.table)
        unmeasured = account.bytes is None
        for number, one in enumerate(self.written[output.name]):
            kept = [(path, rows) for path, rows in one.files if rows != 0 or number == 0]
            found += [Entry(path.removeprefix(self.folder.path).lstrip("/"), rows) for path, rows in kept]
            if unmeasured:
                account.add(one.measured)
        return found

    def _wait(self) -> None:
        try:
            self.waiting.wait(self.session.look)
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


def execute(
    resumed: Resumption, cluster: Cluster, folder: RunFolder, tell: Tell, accounts: dict[str, Account], meanwhile: Callable[[], None]
) -> Executed:
    """Run what of a plan is not there yet; the outputs' files are in the run's folder afterwards, and nothing is published yet.

    `accounts` fills as the run goes, so that the record of a run that fails says how far it came. `meanwhile` is called once the tasks are
    under way.
    """
    return Execution(resumed, cluster, folder, tell, accounts).run(meanwhile)
