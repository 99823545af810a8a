"""What earlier runs of the same stages came to, by their run.json, and how large their data were beside those of a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.plan.plan import Plan
from pipeline.results.at_url import Store

MOST_RUNS = 8  # the newest of them, whole or not


@dataclass(frozen=True)
class Former:
    """A run that ended well: `size` is its data's, where those of the plan are 1; seconds and bytes are by stage or input."""

    size: float
    seconds: float
    memory: int
    base: int
    workers: int
    at_once: int
    processes: int
    opening: float
    stages: Mapping[str, float]
    tables: Mapping[str, int]


def records(store: Store) -> Iterator[dict[str, Any]]:
    """Every run.json of a results place that can be read, the newest first."""
    for run in sorted(store.folders("runs"), reverse=True):
        try:
            yield json.loads(store.read(f"runs/{run}/run.json"))
        except (OSError, ValueError):  # a run under way has none yet, and one that cannot be read says nothing
            continue


def former_runs(store: Store, plan: Plan) -> list[Former]:
    """The newest runs that ended well, of stages with the same parameters, inputs of the same formats, and the same backend."""
    wanted, found = _alike(plan.job.raw), list[Former]()
    for number, record in enumerate(records(store)):
        if number == MOST_RUNS:
            break
        if record["status"] != "done" or record.get("reused") or "actual" not in record or record["backend"] != plan.backend:
            continue
        if _alike(record["job"]) == wanted and (size := _size(record, plan)):
            found.append(_former(record, size))
    return found


def input_bytes(plan: Plan) -> dict[str, int | None]:
    """Bytes of the files of every input, None where nobody told them."""
    sizes = {name: [stamp.size for stamp in plan.stamps.get(name, {}).values()] for name in plan.inputs}
    return {name: sum(files) if files and all(files) else None for name, files in sizes.items()}


def roots(plan: Plan) -> dict[str, frozenset[str]]:
    """The inputs that each input and stage is made of."""
    found = {name: frozenset([name]) for name in plan.inputs}
    for stage in plan.stages:
        found[stage.spec.name] = frozenset().union(*(found[table.partition(".")[0]] for table in stage.spec.inputs.values()))
    return found


def _alike(raw: Mapping[str, Any]) -> str:
    """What must be the same of two jobs for the one to say something of the other."""
    formats = {name: entry.get("format") if isinstance(entry, Mapping) else entry for name, entry in raw["inputs"].items()}
    return json.dumps([formats, raw.get("stages"), raw.get("counts")], sort_keys=True, default=str)


def _size(record: Mapping[str, Any], plan: Plan) -> float | None:
    """How large a run's data were: its stages' seconds times how much less there was to work on, over those seconds; None where unknown."""
    now, then = input_bytes(plan), record["actual"]["input_bytes"]
    if any(now[name] is None or not then.get(name) for name in plan.inputs):
        return None
    made_of = roots(plan)
    shares = {name: sum(now[root] or 0 for root in of) / sum(then[root] for root in of) for name, of in made_of.items() if of}
    weights = {name: seconds for name, seconds in _seconds(record).items() if name in shares}
    if not any(weights.values()):
        return float(sum(then.values()) / sum(size or 0 for size in now.values())) if then else 1.0
    return float(sum(weights.values()) / sum(seconds * shares[name] for name, seconds in weights.items()))


def _seconds(record: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(account["seconds"]) for kind in ("inputs", "stages") for name, account in record[kind].items()}


def _former(record: Mapping[str, Any], size: float) -> Former:
    actual = record["actual"]
    accounts = {name: account for kind in ("inputs", "stages", "tables") for name, account in record[kind].items()}
    return Former(
        size,
        actual["seconds"],
        actual["memory_bytes"],
        actual["base_bytes"],
        actual["workers"],
        actual["at_once"],
        actual["processes"],
        actual["opening_seconds"],
        _seconds(record),
        {name: int(account["bytes"]) for name, account in accounts.items() if account["bytes"]},
    )
