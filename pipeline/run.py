"""The command line: python -m pipeline.run JOB.

Exit codes: 0 done; 1 the run failed; 2 the job or its inputs were refused and nothing ran; 130 and 143 interrupted.
Heavy libraries are imported only when a job is about to be planned, so that --help and refusals come at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NoReturn

from pipeline.errors import PipelineError, RefusedError

if TYPE_CHECKING:
    from pipeline.api import LoadedJob
    from pipeline.plan.plan import Plan
    from pipeline.running.display import Display
    from pipeline.running.progress import Progress

SIGNAL_EXITS = 128


class Interrupted(BaseException):
    """SIGTERM reached the process; it ends as an interrupted run does."""

    def __init__(self) -> None:
        super().__init__("terminated by SIGTERM")


class _Ending:
    """A display that ends the run where a signal's error was lost: Python drops what is raised while it collects garbage, say."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.asked: type[KeyboardInterrupt | Interrupted] | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._take)
        self.started, self.finished = display.started, display.finished

    def progress(self, progress: Progress) -> None:
        """Show it, unless the run was told to end: whoever waits for it asks here now and then."""
        if self.asked is not None:
            raise self.asked
        self.display.progress(progress)

    def _take(self, number: int, _frame: FrameType | None) -> NoReturn:
        self.asked = KeyboardInterrupt if number == signal.SIGINT else Interrupted
        raise self.asked


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    options = argparse.ArgumentParser(
        prog="python -m pipeline.run", description="Run a job file: on this machine, on its GPUs or on a Dask cluster."
    )
    options.add_argument("job", nargs="?", metavar="JOB", help="a job file, such as jobs/genomics.yaml")
    options.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="change a value: stages.NAME.min_maf=0.05, inputs.NAME.path=..."
    )
    options.add_argument("--out", metavar="DIR", help="results folder or URL, instead of the job's")
    options.add_argument("--backend", choices=("auto", "cpu", "gpu"), help="where queries and arrays compute")
    options.add_argument(
        "--cluster", metavar="KIND|ADDRESS", help="a kind such as local or cuda, or the address of a running Dask scheduler"
    )
    options.add_argument(
        "--allow-code", action="store_true", help="let commands run that the job's cluster names (job_script_prologue, say)"
    )
    options.add_argument("--check", action="store_true", help="validate and plan only")
    options.add_argument("--explain", action="store_true", help="print the plan")
    options.add_argument("--quiet", action="store_true", help="say nothing unless something is wrong")
    options.add_argument("--json", action="store_true", help="one JSON event a line")
    options.add_argument("--debug", action="store_true", help="show a traceback when something fails")
    options.add_argument("--list", action="store_true", help="list the stages")
    options.add_argument("--describe", metavar="STAGE", help="what a stage does and its parameters")
    options.add_argument("--verify", metavar="RESULTS", help="check a published result, or a run's folder, by its manifest's checksums")
    options.add_argument("--publish", metavar="RUN", help="make a whole run, RESULTS/runs/ID, the current one: one that was overtaken, say")
    options.add_argument("--schema", action="store_true", help="print the JSON schema of job files")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    if not options.debug:
        sys.excepthook = _fault
    try:
        code = _do(options)
        sys.stdout.flush()
    except PipelineError as error:
        return _failed(options, error, str(error), error.exit_code)
    except KeyboardInterrupt as error:
        return _failed(options, error, "interrupted", SIGNAL_EXITS + signal.SIGINT)
    except Interrupted as error:
        return _failed(options, error, str(error), SIGNAL_EXITS + signal.SIGTERM)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _do(options: argparse.Namespace) -> int:
    if options.list or options.describe or options.schema:
        return _tell(options)
    if options.verify:
        return _verified(options)
    if options.publish:
        return _published(options)
    if not options.job:
        parser().error("give a job file, such as jobs/genomics.yaml (or --list, --describe STAGE, --schema, --verify RESULTS)")
    overrides = [*([] if options.cluster is None else [f"cluster={options.cluster}"]), *options.set]  # --set may say more of a cluster
    for key, value in (("results", options.out), ("backend", options.backend)):
        if value is not None:
            overrides.append(f"{key}={value}")
    from pipeline.api import LoadedJob
    from pipeline.job.load import load

    job = LoadedJob(load(options.job, overrides), options.allow_code)
    if options.check or options.explain:
        plan = job.plan()
        return _planned(options, plan, job)
    from pipeline.running.display import make_display

    job.run(_Ending(make_display("json" if options.json else "quiet" if options.quiet else None)), lean=True)
    return 0


def _planned(options: argparse.Namespace, plan: Plan, job: LoadedJob) -> int:
    """What --check and --explain say of a job that fits together; --explain also what a run will take."""
    if options.json:
        import json

        tables = {name: {column: str(dtype) for column, dtype in schema.columns.items()} for name, schema in plan.tables.items()}
        expected = {"expected": job.foreseen(plan)} if options.explain else {}
        print(json.dumps({"event": "planned", "job": plan.job.name, "backend": plan.backend, "tables": tables, **expected}))
    elif options.explain:
        print(f"{plan.explain()}\n{job.expected(plan)}")
    elif not options.quiet:
        from pipeline.plan.explain import so_many

        print(f"{options.job}: fits together ({so_many(len(plan.inputs), 'input')}, {so_many(len(plan.stages), 'stage')})")
    return 0


def _tell(options: argparse.Namespace) -> int:
    import json

    from pipeline.job.describe import describe_stage, job_schema, list_stages

    if options.list:
        print(list_stages())
    elif options.describe:
        print(describe_stage(options.describe))
    else:
        print(json.dumps(job_schema(), indent=1))
    return 0


def _verified(options: argparse.Namespace) -> int:
    """Check a published result; what is wrong with it is said file by file, and the exit code is then 1."""
    from pipeline.results.manifest import run_path, verify

    path = run_path(options.verify)
    problems = verify(path)
    if options.json:
        import json

        print(json.dumps({"event": "verified", "path": path, "problems": problems}))
    else:
        for problem in problems:
            print(f"error: {path}: {problem}", file=sys.stderr)
        if not problems and not options.quiet:
            print(f"{path}: every file is there and as it was written")
    return PipelineError.exit_code if problems else 0


def _published(options: argparse.Namespace) -> int:
    """Make a whole run the current one."""
    from pipeline.results.overtaken import publish_again

    view = publish_again(options.publish)
    if options.json:
        import json

        print(json.dumps({"event": "published", "run": view.id, "path": view.path}))
    elif not options.quiet:
        print(f"{view.path} is published")
    return 0


def _failed(options: argparse.Namespace, error: BaseException, message: str, code: int) -> int:
    """Say what went wrong; with --json a refusal is an event too, as the end of a run that failed is."""
    if options.debug:
        traceback.print_exc()
    for line in (f"error: {message}", *getattr(error, "__notes__", [])):
        print(line, file=sys.stderr)
    if options.json and code == RefusedError.exit_code:
        import json

        print(json.dumps({"event": "refused", "error": message}), flush=True)
    return code


def _fault(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    print(f"error: {kind.__name__}: {error}. This is a fault of the program: run again with --debug and report it.", file=sys.stderr)


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # All is closed and written by now; taking the interpreter down module by module would cost a third of a second more.
    os._exit(code)
