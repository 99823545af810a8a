"""How a run ends: what is told of one that is published; for one that fails one error that says what helps, and a record that says so."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

from pipeline.clusters.in_use import Cluster
from pipeline.errors import DataError, PipelineError, RefusedError, RunError
from pipeline.results.full import RESULTS, full_text, is_full
from pipeline.results.manifest import RunView, current_run
from pipeline.results.publish import RunFolder
from pipeline.running.display import Display
from pipeline.running.executed import Executed
from pipeline.running.killed import of_killed_workers
from pipeline.running.record import RunRecord


def as_failure(error: BaseException, cluster: Cluster, record: RunRecord) -> BaseException:
    """What is told of an error that ended a run.

    An input that only its reading showed to be bad is of the data: by now the run has started. What the cluster, the disk or a service did
    is a fault of theirs, and not of the program.
    """
    if isinstance(error, RefusedError):
        return _instead(DataError(error.text), error)
    if not isinstance(error, Exception):
        return error
    if lost := cluster.lost():
        return _instead(RunError(f"cluster: {lost}. Start it again, and run again."), error)
    if killed := of_killed_workers(error, cluster, record.plan, record.expected):
        return _instead(killed, error)
    if text := _not_sent(error):
        return _instead(RunError(text), error)
    if isinstance(error, PipelineError) or not isinstance(error, OSError):
        return error
    place = record.plan.job.results
    if is_full(error):
        return _instead(RunError(full_text(place, RESULTS)), error)
    return _instead(RunError(f"{place}: {type(error).__name__}: {error}. Mend that and run again."), error)


def _not_sent(error: Exception) -> str:
    """What is told where a task, or what it gives, did not come from one process to another; '' of other errors."""
    if isinstance(error, CancelledError):
        reasons = " ".join(str(error).split())
        return f"a task was cancelled, or what it works with could not be sent to its worker, or was lost with it. {reasons}"
    if isinstance(error, TypeError) and str(error.args[0] if error.args else "").startswith("Could not serialize"):
        reason = str(error.__cause__ or str(error).strip().splitlines()[-1])
        return f"what a task works with, or gives, cannot be sent to another process: {reason}. What a stage gives to a task must pickle."
    return ""


def _instead(failure: PipelineError, error: BaseException) -> PipelineError:
    failure.__cause__ = error
    failure.__notes__ = getattr(error, "__notes__", [])
    return failure


def note_failure(record: RunRecord, folder: RunFolder, display: Display, error: BaseException) -> None:
    """Remove what the run has written, write how it ended to run.json, and what became of the results to the error's notes."""
    if folder.overtaken:  # it is whole, and its record as it must be
        display.finished({"status": record.status, "run": record.run, "error": str(error)})
        return
    current = current_run(record.plan.job.results)
    if current == folder.id:
        error.add_note(f"The new result was in place already: {folder.path}")
        return
    known = isinstance(error, PipelineError) or not isinstance(error, Exception)
    text = str(error) if known else f"{type(error).__name__}: {error}"
    record.end("failed" if isinstance(error, Exception) else "interrupted", text or "interrupted")
    kept = "the former result is unchanged" if current else "no result was published"
    folder.clear()  # first: a full disk may be what failed the run
    try:
        folder.write_last(record.document())
    except OSError as unwritten:  # the run's own error is the one to tell
        error.add_note(f"{folder.path}/run.json could not be written ({unwritten.strerror or unwritten}); {kept}.")
    else:
        error.add_note(f"{folder.path}/run.json has the record of this run; {kept}.")
    display.finished({"status": record.status, "run": record.run, "error": record.error, "warnings": record.warnings})


def summary(record: RunRecord, executed: Executed, view: RunView) -> dict[str, Any]:
    """What a display is told of a run that is published."""
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
