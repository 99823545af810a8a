"""The Python API: load a job, look at its plan, run it, explore what came out. The command line is a thin layer over it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.backend.devices import choose_backend
from pipeline.clusters.cluster import open_cluster
from pipeline.errors import PlaceError, RunError
from pipeline.format import OutputFormat
from pipeline.job.load import load as load_job
from pipeline.job.spec import Job
from pipeline.plan.estimate_text import estimate_text
from pipeline.plan.plan import Plan, make_plan
from pipeline.registry import format_class
from pipeline.report.finding import check_findings
from pipeline.report.report import write_report
from pipeline.results.links import refuse_root
from pipeline.results.manifest import RunView, read_current
from pipeline.results.overlap import refuse_output_inside_input
from pipeline.results.publish import Results, RunFolder
from pipeline.results.published import Run, Scan
from pipeline.results.store import open_store
from pipeline.running.appended import Earlier, earlier_files
from pipeline.running.display import Display, Quiet
from pipeline.running.ending import as_failure, note_failure
from pipeline.running.energy import metered
from pipeline.running.execute import Executed, execute
from pipeline.running.expected import expectation, over_budget
from pipeline.running.foreseen import Clock, Foreseen, foreseen
from pipeline.running.kept_inputs import check_imports
from pipeline.running.record import RunRecord
from pipeline.tables.dtypes import dtype_of_text

__all__ = ["LoadedJob", "Run", "load", "open_run"]


@dataclass(frozen=True)
class LoadedJob:
    """A job that has been read and checked: `plan()` it, `run()` it. In a notebook it shows its plan."""

    job: Job

    def plan(self) -> Plan:
        """What will run and what every table will look like; reads only headers and footers.

        Raises JobError, InputError or PlaceError for all that can be known before anything starts.
        """
        elsewhere = self.job.cluster.for_backend("cpu").elsewhere
        backend = choose_backend(self.job.backend, workers_elsewhere=elsewhere)
        self.job.cluster.for_backend(backend).check()
        refuse_root(self.job.results)
        refuse_output_inside_input(self.job.results, [path for entry in self.job.inputs.values() for path in entry.reader.path])
        check_imports(self.job)
        if self.job.report:
            check_findings()
        plan = make_plan(self.job, backend)
        earlier_files(plan)
        return plan

    def foreseen(self, plan: Plan) -> dict[str, Any]:
        """What a run by this plan will take, as run.json has it: seconds, a worker's bytes and money, each with its range, or why not."""
        return foreseen(plan).document(self.job.price)

    def expected(self, plan: Plan) -> str:
        """What a run by this plan will take: seconds, memory, money and energy, by what was measured, or why that is not known.

        Raises PlaceError where the results cannot be read.
        """
        try:
            lines = (estimate_text(foreseen(plan), self.job.price), expectation(open_store(self.job.results), plan))
        except OSError as error:
            raise PlaceError(f"{self.job.results}: {error}. Mend that, or choose another place with --out.") from error
        return "\n".join(filter(None, lines))

    def run(self, display: Display | None = None, *, lean: bool = False) -> Run:
        """Run the job and publish its results; `lean` where nobody else uses this process (the command line says so).

        Raises JobError, InputError or PlaceError where nothing was started, RunError or DataError where the run failed.
        """
        plan, clock = self.plan(), Clock()
        with Results(self.job.results).open_run() as folder, ExitStack() as stack:
            try:
                earlier = earlier_files(plan)
                cluster = stack.enter_context(open_cluster(self.job.cluster, plan.backend, lean=lean))
            except BaseException:
                folder.discard()
                raise
            return _run(plan, Foreseen(plan, cluster, clock), folder, display or Quiet(), earlier)

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


def scan_of(described: Mapping[str, Any]) -> Scan:
    """The way to read an output that run.json describes: by its format's own settings, with the types that were planned."""
    writer = format_class(described["format"], OutputFormat).model_validate(described["settings"])
    known = {name: dtype_of_text(text) for name, text in described["columns"].items()}
    return partial(writer.scan, dtypes={name: dtype for name, dtype in known.items() if dtype is not None})


def _run(plan: Plan, foreseen: Foreseen, folder: RunFolder, display: Display, earlier: Earlier | None) -> Run:
    cluster = foreseen.cluster
    record = RunRecord(folder.id, plan, cluster.place(), expected=foreseen.document())
    try:
        display.started(folder.id, plan.job.results, cluster.dashboard, [stage.spec.name for stage in plan.stages])
        names = [*plan.inputs, *(stage.spec.name for stage in plan.stages)]
        with metered(cluster, names, record.accounts, record.energy.update):
            executed = execute(plan, cluster, folder, display.progress, record.accounts)
        executed.warnings += cluster.warnings
        if earlier is not None:
            folder.keep(earlier.run, earlier.entries())
            record.appended = earlier.document()
        view = _publish(record, executed, folder, foreseen)
        for output in plan.job.outputs.values():
            own = [f"{view.path}/{entry.path}" for entry in executed.entries if entry.path.startswith(f"{output.name}/")]
            output.writer.deliver(own, view.id)
        display.finished(_summary(record, executed, view))
    except BaseException as error:
        failure = as_failure(error, cluster, record)
        note_failure(record, folder, display, failure)
        if failure is not error:
            raise failure from error
        raise
    return Run(view.path, view, scan_of)


def _publish(record: RunRecord, executed: Executed, folder: RunFolder, foreseen: Foreseen) -> RunView:
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
    return folder.commit(executed.entries)


def _summary(record: RunRecord, executed: Executed, view: RunView) -> dict[str, Any]:
    rows: dict[str, int] = {}
    for entry in executed.entries:
        output = entry.path.split("/")[0]
        rows[output] = rows.get(output, 0) + (entry.rows or 0)
    return {
        "status": record.status,
        "run": record.run,
        "seconds": round(record.seconds, 3),
        "path": view.path,
        "current": f"{record.plan.job.results.rstrip('/')}/current",
        "outputs": rows,
        "metrics": executed.metrics,
        "warnings": executed.warnings,
        "report": f"{view.path}/report.html" if record.plan.job.report else None,
    }
