"""What the command line answers without a job: stages and the schema of jobs, and what is published.

Heavy libraries are imported by whoever asks, so that the answers come at once.
"""

from __future__ import annotations

import argparse
import json
import sys

from pipeline.errors import PipelineError


def tell(options: argparse.Namespace) -> int:
    """Print the list of stages, what one of them does, or the schema of job files; returns the exit code."""
    from pipeline.job.describe import describe_stage, job_schema, list_stages

    if options.list:
        print(list_stages())
    elif options.describe:
        print(describe_stage(options.describe))
    else:
        print(json.dumps(job_schema(), indent=1))
    return 0


def verified(options: argparse.Namespace) -> int:
    """Check a published result; what is wrong with it is said file by file, and the exit code is then 1."""
    from pipeline.results.manifest import run_path, verify

    path = run_path(options.verify)
    problems = verify(path)
    if options.json:
        print(json.dumps({"event": "verified", "path": path, "problems": problems}))
    else:
        for problem in problems:
            print(f"error: {path}: {problem}", file=sys.stderr)
        if not problems and not options.quiet:
            print(f"{path}: every file is there and as it was written")
    return PipelineError.exit_code if problems else 0


def held(options: argparse.Namespace) -> int:
    """Say which artefacts of a results folder hold some people; the exit code is 1 where one does."""
    from dataclasses import asdict

    from pipeline.provenance.held import held as held_in

    people, place = options.holds
    found = held_in(place, people)
    holding = [one for one in found if one.holds]
    if options.json:
        print(json.dumps({"event": "held", "place": place, "looked_at": len(found), "artefacts": [asdict(one) for one in holding]}))
    else:
        for one in holding:
            print(one)
        if not options.quiet:
            print(f"{place}: {len(holding)} of {len(found)} artefacts hold some of them")
    return PipelineError.exit_code if holding else 0


def published(options: argparse.Namespace) -> int:
    """Make a whole run the current one."""
    from pipeline.results.overtaken import publish_again

    view = publish_again(options.publish)
    if options.json:
        print(json.dumps({"event": "published", "run": view.id, "path": view.path}))
    elif not options.quiet:
        print(f"{view.path} is published")
    return 0


def cleaned(options: argparse.Namespace, place: str) -> int:
    """Say which checkpoints of a results place can go, or remove them."""
    from pipeline.results.cleaning import checkpoints, clean

    found = clean(place) if options.yes else checkpoints(place)
    total = sum(one.bytes for one in found)
    if options.json:
        listed = [{"table": one.table, "key": one.key, "bytes": one.bytes, "made": one.made, "used": one.used} for one in found]
        print(json.dumps({"event": "cleaned" if options.yes else "to clean", "place": place, "bytes": total, "checkpoints": listed}))
    elif not options.quiet:
        what = "removed" if options.yes else "--yes would remove"
        print("\n".join([f"{place}: {what} {len(found)} checkpoints, {total / 1e6:,.1f} MB", *(f"  {one}" for one in found)]))
    return 0
