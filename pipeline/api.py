"""The Python API: load a job, look at its plan, run it, explore what came out. The command line is a thin layer over it."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.backend.devices import choose_backend
from pipeline.clusters.in_use import need_allowed, no_gpu_for
from pipeline.errors import OutOfMemoryError, RunError
from pipeline.format import OutputFormat
from pipeline.job.load import load as load_job
from pipeline.job.spec import Job
from pipeline.plan.estimate_text import estimate_text
from pipeline.plan.plan import Plan, make_plan
from pipeline.registry import format_class
from pipeline.report.finding import check_findings
from pipeline.report.report import prepare_report, write_report
from pipeline.results.links import refuse_root
from pipeline.results.manifest import Entry, RunView, read_current, run_view
from pipeline.results.overlap import refuse_output_inside_input
from pipeline.results.private import private
from pipeline.results.publish import Results, RunFolder
from pipeline.results.published import Run, Scan
from pipeline.results.stage_limits import Limits
from pipeline.results.store import open_store, unreadable
from pipeline.running.appended import Earlier, earlier_files
from pipeline.running.balance import need_balance
from pipeline.running.certificate import CERTIFICATE, InputDigests, certificate, known_digests
from pipeline.running.display import Display, Quiet
from pipeline.running.ending import as_failure, note_failure, summary
from pipeline.running.energy import metered
from pipeline.running.execute import execute
from pipeline.running.executed import Executed
from pipeline.running.expected import expectation, over_budget
from pipeline.running.foreseen import Clock, Foreseen, foreseen
from pipeline.running.kept_inputs import check_imports
from pipeline.running.little import opened
from pipeline.running.meanwhile import helped, prepare
from pipeline.running.record import RunRecord
from pipeline.running.replayed import Replayed, compared, read_former
from pipeline.running.resuming import Resumption, look
from pipeline.tables.dtypes import dtype_of_text

__all__ = ["LoadedJob", "Run", "load", "open_run", "replay"]


@dataclass(frozen=True)
class LoadedJob:
    """A job that has been read and checked: `plan()` it, `run()` it. In a notebook it shows its plan."""

    job: Job
    allow_code: bool = False

    def plan(self, *, here: bool = True) -> Plan:
        """What will run and what every table will look like; reads only headers and footers.

        With `here` off a job for GPUs is planned on a machine without one too, as it would run where there are some; `lacks` says so.
        Raises JobError, InputError or PlaceError for all that can be known before anything starts.
        """
        elsewhere = self.job.cluster.for_backend("cpu").elsewhere
        backend = choose_backend(self.job.backend, workers_elsewhere=elsewhere or (not here and self.job.backend == "gpu"))
        cluster = self.job.cluster.for_backend(backend)
        need_allowed(cluster, allow_code=self.allow_code)
        if here or not no_gpu_for(backend, cluster):
            cluster.check()
        refuse_root(self.job.results)
        refuse_output_inside_input(self.job.results, [path for entry in self.job.inputs.values() for path in entry.reader.path])
        check_imports(self.job)
        if self.job.report:
            check_findings()
        plan = make_plan(self.job, backend)
        earlier_files(plan)
        return plan

    def lacks(self, plan: Plan) -> str:
        """What this machine lacks to run a plan that was made with `here` off; '' where it lacks nothing."""
        return no_gpu_for(plan.backend, self.job.cluster.for_backend(plan.backend))

    def allowing_code(self) -> LoadedJob:
        """The same job, whose cluster may run the commands that the job file names."""
        return replace(self, allow_code=True)

    def foreseen(self, plan: Plan) -> dict[str, Any]:
        """What a run by this plan will take, as run.json has it: seconds, a worker's bytes and money, each with its range, or why not."""
        return foreseen(plan).document(self.job.price)

    def resumed(self, plan: Plan, *, fresh: bool = False) -> Resumption:
        """What of a plan is there already, and why the rest is to run. Raises PlaceError where the results cannot be read."""
        try:
            return look(plan, fresh=fresh)
        except OSError as error:
            raise unreadable(self.job.results, error) from error

    def expected(self, plan: Plan) -> str:
        """What a run by this plan will take: seconds, memory, money and energy, by what was measured, or why that is not known.

        Raises PlaceError where the results cannot be read.
        """
        try:
            lines = (estimate_text(foreseen(plan), self.job.price), expectation(open_store(self.job.results), plan))
        except OSError as error:
            raise unreadable(self.job.results, error) from error
        return "\n".join(filter(None, lines))

    @private()
    def run(self, display: Display | None = None, *, lean: bool = False, fresh: bool = False) -> Run:
        """Run what of the job is not there already, and publish its results; where all is, give the run that has it.

        `fresh` runs all of it; `lean` where nobody else uses this process (the command line says so).

        Raises JobError, InputError or PlaceError where nothing was started, RunError or DataError where the run failed.
        """
        plan, clock = self.plan(), Clock()
        kept = self.job.checkpoints
        with Results(self.job.results, limits=Limits(kept.keep, int(kept.gigabytes * 1e9))).open_run() as folder, ExitStack() as stack:
            try:
                resumed, earlier = look(plan, fresh=fresh), earlier_files(plan)
                if resumed.is_done():
                    folder.discard()
                    return _there(self.job, display or Quiet())
                cluster = stack.enter_context(opened(plan, lean=lean))
            except BaseException:
                folder.discard()
                raise
            return _run(resumed, Foreseen(plan, cluster, clock), folder, display or Quiet(), earlier)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.plan().explain())}</pre>"


def load(path: str | Path, **overrides: Any) -> LoadedJob:
    """Read and check a job file; `overrides` are as the command line's --set, with __ for the dots (`stages__passed__min_maf=0.05`).

    Raises JobError with every problem of the file.
    """
    return LoadedJob(load_job(str(path), {key.replace("__", "."): value for key, value in overrides.items()}))


def open_run(place: str | Path) -> Run:
    """The current run of a results folder. Raises RunError where there is none yet."""
    view = read_current(str(place))
    if view is None:
        raise RunError(f"{place}: no run has been published there yet")
    return Run(view.path, view, scan_of)


def replay(
    place: str | Path, *, out: str | None = None, overrides: Sequence[str] = (), display: Display | None = None, allow_code: bool = False
) -> Replayed:
    """Do the current run of a results folder, or a run by its folder, again, and compare what it gives; `overrides` are KEY=VALUE.

    The new run goes to `out`, or to a folder that is removed; `allow_code` as in `LoadedJob.allowing_code`.
    Raises PlaceError where the record does not suffice, and as a run does.
    """
    former = read_former(str(place))
    with TemporaryDirectory(prefix="pipeline-replay-") as folder:
        loaded = LoadedJob(former.job([*overrides, f"results={json.dumps(out or folder)}"]), allow_code)
        run = loaded.run(display, fresh=True)
        again = read_former(run.path)
        return compared(former, Run(former.path, run_view(former.path), scan_of), run, again.certificate)


def scan_of(described: Mapping[str, Any]) -> Scan:
    """The way to read an output that run.json describes: by its format's own settings, with the types that were planned."""
    writer = format_class(described["format"], OutputFormat).model_validate(described["settings"])
    known = {name: dtype_of_text(text) for name, text in described["columns"].items()}
    return partial(writer.scan, dtypes={name: dtype for name, dtype in known.items() if dtype is not None})


def _there(job: Job, display: Display) -> Run:
    """The current run, which has all that the job asks for."""
    run = open_run(job.results)
    outputs = {name: sum(entry.rows or 0 for entry in run.view.files if entry.path.startswith(f"{name}/")) for name in job.outputs}
    found = {"status": "unchanged", "run": run.view.id, "seconds": 0.0, "path": run.path, "outputs": outputs, "metrics": run.metrics}
    current, report = f"{job.results.rstrip('/')}/current", f"{run.path}/report.html" if job.report else None
    display.finished({**found, "current": current, "warnings": [], "report": report})
    return run


def _run(resumed: Resumption, foreseen: Foreseen, folder: RunFolder, display: Display, earlier: Earlier | None) -> Run:
    cluster, plan = foreseen.cluster, resumed.meanings.plan
    record = RunRecord(folder.id, plan, cluster.place(), expected=foreseen.document(), reused=resumed.document())
    record.warnings += resumed.warnings()
    try:
        display.started(folder.id, plan.job.results, cluster.dashboard, [stage.spec.name for stage in plan.stages])
        names = [*plan.inputs, *(stage.spec.name for stage in plan.stages)]
        with InputDigests(plan, known_digests(open_store(plan.job.results))) as digests:
            with metered(cluster, names, record.accounts, record.energy.update), helped(plan, cluster):
                executed = execute(
                    resumed, cluster, folder, display.progress, record.accounts, partial(prepare, plan, cluster, prepare_report)
                )
                need_balance(plan, record.accounts)
            executed.warnings += cluster.warnings
            if earlier is not None:
                folder.keep(earlier.run, earlier.entries())
                record.appended = earlier.document()
            record.known_by = resumed.meanings.document() | {"beside": executed.beside}
            folder.used, inputs = executed.checkpoints, digests.document()
        view = _publish(record, executed, folder, foreseen, inputs)
        for output in plan.job.outputs.values():
            own = [f"{view.path}/{entry.path}" for entry in executed.entries if entry.path.startswith(f"{output.name}/")]
            output.writer.deliver(own, view.id)
        display.finished(summary(record, executed, view))
    except BaseException as error:
        record.warnings += [text for text in cluster.warnings if text not in record.warnings]
        failure = as_failure(error, cluster, record)
        if isinstance(failure, OutOfMemoryError) and cluster.budget is not None:
            failure.table_memory = cluster.budget.less
        note_failure(record, folder, display, failure)
        if failure is not error:
            raise failure from error
        raise
    return Run(view.path, view, scan_of)


def _publish(record: RunRecord, executed: Executed, folder: RunFolder, foreseen: Foreseen, inputs: Mapping[str, Any]) -> RunView:
    folder.sealing.begin(executed.entries)
    for name, data in executed.files.items():
        folder.write_bytes(f"models/{name}", data)
    folder.write_json("metrics.json", executed.metrics)
    executed.warnings += over_budget(record.plan.job.power, record.energy)
    record.warnings += executed.warnings
    record.idle = executed.idle
    record.end("done")
    if record.plan.job.report:
        folder.write_bytes("report.html", write_report(record, executed, folder.path).encode())
        record.end("done")
    record.warnings += folder.warnings
    record.actual = foreseen.actual()
    folder.write_json("run.json", record.document())
    own = {*(entry.path for entry in executed.entries), *(f"models/{name}" for name in executed.files)}

    def certified(files: Sequence[Entry]) -> dict[str, Any]:
        """The certificate, once the files have their checksums."""
        return certificate(record, inputs, [entry for entry in files if entry.path in own])

    return folder.commit(executed.entries, (CERTIFICATE, certified))
