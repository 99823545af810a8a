"""Outputs that are appended to: what the current run has of them, which the new run publishes beside its own files.

Every run has all its files in its own folder (links, where there are links), so retention may remove any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import PlaceError
from pipeline.format import JoinedOutput
from pipeline.plan.plan import Plan
from pipeline.results.manifest import Entry, read_current
from pipeline.results.store import open_store
from pipeline.running.record import described

LOOKS = ("compression",)  # settings of a format that do not change how its files are read


@dataclass(frozen=True)
class Earlier:
    """The files of the current run that are published again, by output."""

    run: str
    files: Mapping[str, tuple[Entry, ...]]

    def entries(self) -> list[Entry]:
        """All of them."""
        return [entry for files in self.files.values() for entry in files]

    def document(self) -> dict[str, Any]:
        """The same for the record."""
        return {
            name: {"appended_to": {"run": self.run, "files": len(files), "rows": sum(entry.rows or 0 for entry in files)}}
            for name, files in self.files.items()
        }


def earlier_files(plan: Plan) -> Earlier | None:
    """What the job's results have of the outputs that it appends to; None where it appends to none, or nothing is published.

    Raises PlaceError where an output was written otherwise: another format, other columns or types.
    """
    names = [output.name for output in plan.job.outputs.values() if output.append]
    for name in names:
        if isinstance(plan.job.outputs[name].writer, JoinedOutput):
            what = f"output {name} is one file of all rows ({plan.job.outputs[name].format}), to which nothing can be appended"
            raise PlaceError(f"{what}. Take append away, or write another format.")
    view = read_current(plan.job.results) if names else None
    if view is None:
        return None
    record = json.loads(open_store(view.path).read("run.json"))["outputs"]
    files = {name: tuple(entry for entry in view.files if entry.path.startswith(f"{name}/")) for name in names}
    for name in names:
        if files[name]:
            _need_same(name, record.get(name, {}), described(plan, plan.job.outputs[name]), plan.job.results)
    return Earlier(view.id, {name: found for name, found in files.items() if found})


def _need_same(name: str, before: Mapping[str, Any], now: Mapping[str, Any], place: str) -> None:
    """Raise PlaceError where files that are there and new ones would not be one table."""
    remedy = "Give the output another name, or say append: false once, to begin anew."
    for key in ("format", "columns", "settings"):
        old, new = before.get(key), now[key]
        if key == "settings":
            old, new = ({name: value for name, value in (given or {}).items() if name not in LOOKS} for given in (old, new))
        if old != new or (key == "columns" and list(old or ()) != list(new)):
            raise PlaceError(f"{place}: output {name} is there with other {key} ({old}) than it would be appended with ({new}). {remedy}")
