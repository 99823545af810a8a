"""Walks a plan on a cluster: submits every stage, writes the outputs, counts rows, tells progress. It knows no domain.

Nothing is waited for until all is submitted, so independent stages overlap and Dask frees a table when its last reader is done. A table is
held (computed once) where several read it and reading it twice would cost more; otherwise stages fuse into their reader's tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pipeline.clusters.cluster import Cluster
from pipeline.errors import DataError, PipelineError, RunError
from pipeline.format import InputFormat
from pipeline.job.spec import Output
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.results.manifest import Entry
from pipeline.results.publish import RunFolder
from pipeline.running.kept_inputs import Imports, Kept, submit_import
from pipeline.running.record import Account, Progress
from pipeline.running.writing import submit_output
from pipeline.stage import Context
from pipeline.tables.columns import AXES
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import key_prefix
from pipeline.tables.steps import count_rows
from pipeline.tables.table import Table

POLL_S = 0.2


@dataclass
class Executed:
    """What a run gave: the files written, model files, and metrics per stage."""

    entries: list[Entry] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)


class Execution:
    """One walk through a plan."""

    def __init__(self, plan: Plan, cluster: Cluster, folder: RunFolder, tell: Callable[[Progress], None]) -> None:
        self.plan, self.cluster, self.folder, self.tell = plan, cluster, folder, tell
        self.session = cluster.session()
        self.tables: dict[str, Table] = {}
        self.waiting: dict[tuple[str, str, int], Any] = {}  # (what, name, number) -> future
        self.accounts: dict[str, Account] = {}
        self.kept: dict[str, Kept] = {}  # inputs that are read from their imports

    def run(self) -> Executed:
        """Submit, wait, and give what came out. Raises a task's first error, as RunError or DataError, and cancels the others."""
        try:
            self._import()
            self._submit()
            results = self._wait()
        except BaseException:
            self.cluster.client.cancel(list(self.waiting.values()), force=True)
            raise
        finally:
            self.session.close()
        return self._collected(results)

    def _import(self) -> None:
        """Make the imports that the job wants and that are not there yet, one after the other."""
        for name, entry in self.plan.job.inputs.items():
            if entry.reader.keeps_import():
                self.kept[name] = Imports(self.plan.job.results).of(entry.reader, partial(self._convert, name))

    def _convert(self, name: str, folder: str) -> list[Any]:
        self.accounts[name] = Account(name, self.plan.job.inputs[name].reader.name)
        for number, future in enumerate(submit_import(self.session, name, self._reader(name), self.plan.inputs[name], folder)):
            self.waiting["import", name, number] = future
        written, self.waiting = list(self._wait().values()), {}
        return written

    def _submit(self) -> None:
        for name in self.plan.inputs:
            self._keep(name, self._input(name), self.plan.inputs[name])
        for stage in self.plan.stages:
            self._stage(stage)
        for output in self.plan.job.outputs.values():
            self._output(output)
        self.tables.clear()
        for number, (table, future) in enumerate(self.session.accounts):
            self.waiting["describe", table or "", number] = future
        if self.cluster.kind == "local" and self.cluster.workers == 1:
            for stage in self.plan.stages:
                stage.spec.stage.prepare(lean=self.session.lean)

    def _reader(self, name: str) -> InputFormat:
        reader = self.plan.job.inputs[name].reader  # workers of a running cluster may have been started in another folder
        return reader.absolute() if self.cluster.kind == "scheduler" else reader

    def _input(self, name: str) -> Table:
        reader, schema, kept = self._reader(name), self.plan.inputs[name], self.kept.get(name)
        use, rows, counts = reader.name, self.plan.rows[name], dict[str, int]()
        if kept:
            reader, rows, counts = kept.reader(reader.parts), kept.rows, dict(kept.counts)
        axes = {array: Table.of(self.session, name, [Part(frame)], schema=Schema(frame.schema)) for array, frame in reader.axes().items()}
        sources = reader.sources(self.cluster.workers * self.cluster.threads)
        self.accounts[name] = Account(name, use, rows=rows, parts=len(sources), counts=counts)
        if rows is None and not schema.arrays:
            self.waiting["rows", name, 0] = self.session.submit(count_rows, name, sources, stage=name)
        return Table.of(self.session, name, sources, schema=schema, axes=axes)

    def _stage(self, stage: PlannedStage) -> None:
        reads = {role: self.tables[table] for role, table in stage.spec.inputs.items()}
        context = Context(stage.spec.name, self.plan.job.seed, self.session)
        self.accounts[stage.spec.name] = Account(stage.spec.name, stage.spec.use)
        try:
            outcome = stage.spec.stage.run(reads, context)
        except RunError as error:  # of what a stage does before its tasks: training over workers, say
            error.within(context.name).where = self.plan.where(context.name, error.key)
            raise
        for name, table in outcome.tables.items():
            full = f"{stage.spec.name}.{name}" if name else stage.spec.name
            self._keep(full, table, stage.gives[full])
        for name, future in outcome.files.items():
            self.waiting["file", name, 0] = future
        for what, future in (("metrics", outcome.metrics), ("counts", outcome.counts)):
            if future is not None:
                self.waiting[what, stage.spec.name, 0] = future

    def _keep(self, name: str, table: Table, schema: Schema) -> None:
        """Make a table known by its name, and its arrays' axes by theirs; hold it where several read it."""
        table, uses = replace(table, name=name, schema=schema), self.plan.uses.get(name, 0)
        written = any(output.table == name for output in self.plan.job.outputs.values())
        if (uses > 1 and (written or not table.cheap)) or (self.plan.job.counts == "all" and uses):
            table = table.hold()
        self.tables[name] = table
        for array, axis in table.axes.items():
            if array in schema.arrays:
                self._keep(f"{name}.{AXES[array]}", axis, Schema(schema.arrays[array]))

    def _output(self, output: Output) -> None:
        expected = self.plan.tables[output.table] if not output.columns else None
        for number, future in enumerate(submit_output(self.tables[output.table], output, expected, self.folder.file)):
            self.waiting["write", output.name, number] = future

    def _wait(self) -> dict[tuple[str, str, int], Any]:
        futures = dict(self.waiting)
        while True:
            states = {key: future.status for key, future in futures.items()}
            self.tell(self._progress())
            failed = [key for key, state in states.items() if state in {"error", "cancelled", "lost"}]
            if failed:
                raise self._failure(failed[0], futures[failed[0]])
            if all(state == "finished" for state in states.values()):
                return dict(zip(futures, self.cluster.client.gather(list(futures.values())), strict=True))
            _pause(futures.values())

    def _failure(self, key: tuple[str, str, int], future: Any) -> PipelineError:
        """What a task failed with, with the place of its stage in the job file."""
        error = _cause(key, future)
        error.where = self.plan.where(error.stage, error.key)
        return error

    def _progress(self) -> Progress:
        seen = self.cluster.client.run_on_scheduler(scheduler_state, sorted(self.session.submitted))
        for stage, (_, _, seconds) in seen.items():
            if stage in self.accounts:
                self.accounts[stage].seconds = seconds
        return Progress({stage: (done, done + left) for stage, (done, left, _) in seen.items()}, {name: v[2] for name, v in seen.items()})

    def _collected(self, results: Mapping[tuple[str, str, int], Any]) -> Executed:
        done, written = Executed(), dict[str, list[dict[str, Any]]]()
        for (what, name, number), value in results.items():
            if what == "describe":
                self._add(name, value)
            elif what == "counts":
                self._account(name).counts.update(value)
            elif what == "rows":
                self._account(name).rows = value
            elif what == "metrics":
                done.metrics[name] = value
            elif what == "file":
                done.files[name] = value
            else:
                written.setdefault(name, []).append(value)
                kept = [(path, rows) for path, rows in value["files"] if rows != 0 or number == 0]
                done.entries += [Entry(path.removeprefix(self.folder.path).lstrip("/"), rows) for path, rows in kept]
        for output, pieces in written.items():
            account = self._account(self.plan.job.outputs[output].table)
            if account.bytes is None:
                for piece in pieces:
                    account.add(piece)
        return done

    def _add(self, table: str, described: Mapping[str, Any]) -> None:
        """Rows, bytes and parts to the table's account, and every count to the account of the stage that made it."""
        if table:
            if self._account(table).bytes is not None:  # computed once more for another reader
                return
            self._account(table).add(described)
        for name, count in described["counts"].items():
            stage, _, what = name.partition(":")
            counts = self._account(stage).counts
            counts[what] = counts.get(what, 0) + count

    def _account(self, table: str) -> Account:
        return self.accounts.setdefault(table, Account(table, "table"))


def execute(plan: Plan, cluster: Cluster, folder: RunFolder, tell: Callable[[Progress], None], accounts: dict[str, Account]) -> Executed:
    """Run a plan on a cluster; the outputs' files are in the run's folder afterwards, and nothing is published yet.

    `accounts` fills as the run goes, so that the record of a run that fails says how far it came.
    """
    execution = Execution(plan, cluster, folder, tell)
    execution.accounts = accounts
    return execution.run()


def scheduler_state(stages: list[str], dask_scheduler: Any) -> dict[str, tuple[int, int, float]]:
    """On the scheduler: per stage the tasks done, those still to do, and the seconds that its tasks computed."""
    from dask.utils import key_split

    found = {}
    for stage in stages:
        prefix = dask_scheduler.task_prefixes.get(key_split(f"{key_prefix(stage)}-{'0' * 32}"))
        if prefix is None:
            found[stage] = (0, 1, 0.0)
            continue
        left = sum(prefix.states.get(state, 0) for state in ("waiting", "queued", "no-worker", "processing"))
        found[stage] = (int(prefix.state_counts.get("memory", 0)), int(left), float(prefix.all_durations["compute"]))
    return found


def _pause(futures: Iterable[Any]) -> None:
    """Wait until all are done, or for the time between two looks at the progress; errors show in the futures' status."""
    from distributed import wait

    with suppress(TimeoutError):
        wait(list(futures), timeout=POLL_S)


def _cause(key: tuple[str, str, int], future: Any) -> PipelineError:
    error = future.exception() if future.status == "error" else None
    if isinstance(error, RunError):
        return error
    if isinstance(error, PipelineError):  # an input that turned out bad only when it was read: the run has started, so it fails
        return DataError(error.text)
    what = f"{type(error).__name__}: {error}" if error else "its task was cancelled or lost with its worker"
    failure = RunError(f"{key[0]} {key[1]}: {what}")
    failure.__cause__ = error
    return failure
