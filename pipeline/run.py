"""The command line: python -m pipeline.run JOB.

Exit codes: 0 done; 1 the run failed; 2 the job or its inputs were refused and nothing ran; 130, 143 and 129 interrupted by Ctrl-C, SIGTERM
and SIGHUP.
Heavy libraries are imported only when a job is about to be planned, so that --help and refusals come at once.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import traceback
from types import TracebackType
from typing import TYPE_CHECKING

from pipeline.answers import cleaned, held, published, tell, verified
from pipeline.errors import OutOfMemoryError, PipelineError, RefusedError
from pipeline.running.signals import SIGNAL_EXITS, Asked, Ending, Interrupted

LEAST_TABLE_BYTES = 2 * 10**6  # to reckon with for tables: with less they would be cut into pieces of nothing

if TYPE_CHECKING:
    from pipeline.api import LoadedJob
    from pipeline.plan.plan import Plan


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
    options.add_argument("--fresh", action="store_true", help="run all of it, whatever is there of earlier runs")
    options.add_argument("--clean", action="store_true", help="say which checkpoints of the job's results can go; with --yes remove them")
    options.add_argument("--yes", action="store_true", help="do what --clean says")
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
    options.add_argument(
        "--replay", metavar="RESULTS", help="do a published run, or a run by its folder, again from its record, and compare"
    )
    options.add_argument(
        "--holds",
        nargs=2,
        metavar=("PEOPLE", "RESULTS"),
        help="say which artefacts of a results folder hold these people, by name or computed with them",
    )
    options.add_argument("--publish", metavar="RUN", help="make a whole run, RESULTS/runs/ID, the current one: one that was overtaken, say")
    options.add_argument("--schema", action="store_true", help="print the JSON schema of job files")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    ending = Ending()
    if not options.debug:
        sys.excepthook = _fault
    try:
        code = _do(options, ending)
        sys.stdout.flush()
    except OutOfMemoryError as error:
        code = _failed(options, error, str(error), error.exit_code)
        if arguments is None:
            _begin_again(error)
        return code
    except PipelineError as error:
        return _failed(options, error, str(error), error.exit_code)
    except KeyboardInterrupt as error:
        return _failed(options, error, "interrupted", SIGNAL_EXITS + signal.SIGINT)
    except Interrupted as error:
        return _failed(options, error, str(error), SIGNAL_EXITS + error.number)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _do(options: argparse.Namespace, ending: Ending) -> int:
    if options.list or options.describe or options.schema:
        return tell(options)
    if options.verify:
        return verified(options)
    if options.publish:
        return published(options)
    if options.holds:
        return held(options)
    if options.replay:
        return _replayed(options, ending)
    if not options.job:
        parser().error("give a job file, such as jobs/genomics.yaml (or --list, --describe STAGE, --schema, --verify RESULTS)")
    overrides = _overrides(options)
    if options.out is not None:
        overrides.append(f"results={options.out}")
    from pipeline.api import LoadedJob
    from pipeline.job.load import load

    job = LoadedJob(load(options.job, overrides), options.allow_code)
    if options.clean:
        return cleaned(options, job.job.results)
    if options.check or options.explain:
        plan = job.plan(here=False)
        return _planned(options, plan, job)
    from pipeline.running.display import make_display

    if not gc.isenabled():
        gc.freeze()  # what was imported stays, and need not be looked through
        gc.enable()
    job.run(Asked(make_display("json" if options.json else "quiet" if options.quiet else None), ending), lean=True, fresh=options.fresh)
    return 0


def _overrides(options: argparse.Namespace) -> list[str]:
    """What the options change in a job, but for its results; --set may say more of a cluster than --cluster."""
    overrides = [*([] if options.cluster is None else [f"cluster={options.cluster}"]), *options.set]
    return overrides if options.backend is None else [*overrides, f"backend={options.backend}"]


def _planned(options: argparse.Namespace, plan: Plan, job: LoadedJob) -> int:
    """What --check and --explain say of a job that fits together; --explain also what a run will take."""
    lacks = job.lacks(plan)
    if options.json:
        import json

        tables = {name: {column: str(dtype) for column, dtype in schema.columns.items()} for name, schema in plan.tables.items()}
        expected = {"expected": job.foreseen(plan)} if options.explain else {}
        said = {"said": job.resumed(plan, fresh=options.fresh).said()} if options.explain else {}
        planned = {"event": "planned", "job": plan.job.name, "backend": plan.backend, "tables": tables, "lacks": lacks or None}
        print(json.dumps(planned | said | expected))
    elif options.explain:
        resumed = job.resumed(plan, fresh=options.fresh)
        print("\n".join([plan.explain(resumed.said()), *resumed.warnings(), job.expected(plan)]))
    elif not options.quiet:
        from pipeline.plan.explain import so_many

        print(f"{options.job}: fits together ({so_many(len(plan.inputs), 'input')}, {so_many(len(plan.stages), 'stage')})")
    if lacks and not options.json and not options.quiet:
        print(f"note: {lacks}")
    return 0


def _replayed(options: argparse.Namespace, ending: Ending) -> int:
    """Do a run again; the exit code is 1 where a value differs."""
    from pipeline.api import replay
    from pipeline.running.display import make_display

    display = Asked(make_display("quiet"), ending)
    found = replay(options.replay, out=options.out, overrides=_overrides(options), display=display, allow_code=options.allow_code)
    if options.json:
        import json

        print(json.dumps({"event": "replayed", **found.document()}))
    elif not options.quiet or not found.same:
        print(
            "\n".join([*(f"{name}: {text}" for name, text in found.outputs.items()), *(f"otherwise now: {text}" for text in found.causes)])
        )
        print(f"run {found.run} " + ("can be had again: every value is the same" if found.same else "was not had again"))
    return 0 if found.same else PipelineError.exit_code


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


def _begin_again(error: OutOfMemoryError) -> None:
    """Become a process that does the run again with less memory to reckon with for tables, so that smaller ones lie on disk.

    A process of its own, since the task that took the memory cannot be ended in this one. Returns where less would change nothing.
    """
    if error.table_memory < LEAST_TABLE_BYTES:
        return
    size = f"{error.table_memory // 10**6}MB"
    print(f"The run is begun again with more of its tables on disk (cluster.table_memory={size}).", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    words = ["-m", "pipeline.run", *sys.argv[1:], "--set", f"cluster.table_memory={size}"]
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - this program itself, with the words that it was given


def _fault(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    print(f"error: {kind.__name__}: {error}. This is a fault of the program: run again with --debug and report it.", file=sys.stderr)


if __name__ == "__main__":
    gc.disable()  # while libraries are imported, which leave nothing to collect: a sixteenth of a small run's time
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # All is closed and written by now; taking the interpreter down module by module would cost a third of a second more.
    os._exit(code)
