"""The energy that a run will take, by the records of earlier ones, and what is said of one that went beyond its budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.job.spec import PowerBudget
from pipeline.plan.former import records
from pipeline.plan.plan import Plan
from pipeline.results.at_url import Store
from pipeline.running.energy import NOT_MEASURED

MOST_RUNS = 5  # the newest of them


def over_budget(budget: PowerBudget | None, energy: Mapping[str, Any]) -> list[str]:
    """What a run used beyond its budget, or that nothing was measured to say it by; nothing where there is no budget."""
    if budget is None or (budget.joules is None and budget.watts is None):
        return []
    if "joules" not in energy:
        return [f"power: the budget was not checked, for nothing is measured here ({'; '.join(_unmeasured(energy))})"]
    pairs = [("joules", energy["joules"], budget.joules, "J"), ("watts", energy["most_watts"], budget.watts, "W")]
    parts = f"; {', '.join(_unmeasured(energy))}" if _unmeasured(energy) else ""
    return [
        f"power: {used:,.0f} {unit} {'at most, ' if key == 'watts' else ''}where the budget is {most:,.0f} {unit} (power.{key}{parts})"
        for key, used, most, unit in pairs
        if most is not None and used > most
    ]


def expectation(store: Store, plan: Plan) -> str:
    """A line about the energy and the time of the next run, scaled by the rows of its inputs where they are known; '' without records."""
    rows = _sum(list(plan.rows.values()))
    found = [_scaled(record, rows) for record in measured_runs(store, plan)]
    if not found:
        return ""
    joules, seconds = ([run[i] for run in found] for i in (0, 1))
    mean = sum(joules) / len(joules)
    text = f"energy: about {mean:,.0f} J in {sum(seconds) / len(seconds):,.1f} s, by {_runs(joules)}"
    budget = plan.job.power.joules if plan.job.power else None
    return text + (f"; the budget is {budget:,.0f} J" if budget is not None and mean > budget else "")


def measured_runs(store: Store, plan: Plan) -> Iterator[dict[str, Any]]:
    """The records of the job's newest runs that ended well on the same backend, did all of it and were measured."""
    found = 0
    for record in records(store):
        energy = record.get("energy") or {}
        whole = record["status"] == "done" and not record.get("reused")  # one that was killed has no backend in its record
        if whole and record["backend"] == plan.backend and "joules" in energy:
            yield record
            if (found := found + 1) == MOST_RUNS:
                return


def _scaled(record: Mapping[str, Any], rows: int | None) -> tuple[float, float]:
    """Joules and seconds of a run, as if it had had so many rows."""
    before = _sum([account.get("rows") for account in record["inputs"].values()])
    share = rows / before if rows and before else 1.0
    return float(record["energy"]["joules"]) * share, float(record["seconds"]) * share


def _sum(rows: Sequence[int | None]) -> int | None:
    """The rows of all inputs; None where those of one are not known."""
    known = [count for count in rows if count is not None]
    return sum(known) if len(known) == len(rows) else None


def _runs(joules: Sequence[float]) -> str:
    if len(joules) == 1:
        return "one earlier run"
    return f"{len(joules)} earlier runs ({min(joules):,.0f} to {max(joules):,.0f} J)"


def _unmeasured(energy: Mapping[str, Any]) -> list[str]:
    return [f"{key.removesuffix('_power')} {value}" for key, value in energy.items() if str(value).startswith(NOT_MEASURED)]
