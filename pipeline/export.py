"""The command line that tells others of a run: python -m pipeline.export RUN --ro-crate DIR.

RUN is a results folder (its current run) or the folder of a run, one that failed too.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from pipeline.errors import PipelineError


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    options = argparse.ArgumentParser(prog="python -m pipeline.export", description="Tell others of a run, in formats that they know.")
    options.add_argument("run", metavar="RUN", help="a results folder, such as results/loans, or the folder of a run")
    options.add_argument("--ro-crate", metavar="PLACE", help="write an RO-Crate (Workflow Run profile): a new folder, or a .zip")
    options.add_argument("--copy", action="store_true", help="with the tables and models in the crate; else it says where they are")
    options.add_argument("--license", metavar="TEXT", default="", help="what the crate says of its license: a URL, or words")
    options.add_argument("--openlineage", metavar="TO", help="OpenLineage events: to a file, one a line, or to the URL of a service")
    options.add_argument("--namespace", default="pipeline", help="OpenLineage's namespace of the jobs (default: %(default)s)")
    options.add_argument("--mlflow", metavar="URI", help="put metrics and parameters into MLflow: sqlite:///mlflow.db, or http://...")
    options.add_argument("--json", action="store_true", help="answer as JSON")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 or 2 with the error's text on stderr."""
    asked = parser()
    options = asked.parse_args(arguments)
    if not (options.ro_crate or options.openlineage or options.mlflow):
        asked.error("say what to export: --ro-crate, --openlineage or --mlflow")
    try:
        done = _exported(options)
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(done) if options.json else "\n".join(f"{key}: {value}" for key, value in done.items()))
    return 0


def _exported(options: argparse.Namespace) -> dict[str, Any]:
    """What was done, by what was asked for."""
    from pipeline.provenance.told import read_told

    told, done = read_told(options.run), dict[str, Any]()
    if options.ro_crate:
        from pipeline.provenance.crate import Crate

        Crate(told, copied=options.copy, license_text=options.license).write(options.ro_crate)
        done["ro_crate"] = options.ro_crate
    if options.openlineage:
        from pipeline.provenance.events import Events, send
        from pipeline.urls import hidden

        columns = told.columns()
        if columns.unknown:
            print(f"warning: no column lineage: {columns.unknown}", file=sys.stderr)
        events = Events(told, columns, options.namespace).all()
        send(events, options.openlineage)
        done |= {"openlineage": hidden(options.openlineage), "events": len(events)}
    if options.mlflow:
        from pipeline.provenance.tracking import track

        done["mlflow"] = track(told, options.mlflow)
    return done


if __name__ == "__main__":
    sys.exit(main())
