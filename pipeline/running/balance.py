"""Rows are conserved: what stages counted, what tables held and what was written must come to the same, else the run stops."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.errors import RunError
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.running.record import Account

_OF_JOINS = {
    "inner": ("matched", "multiplied"),
    "cross": ("matched", "multiplied"),
    "left": ("matched", "multiplied", "lost"),
    "right": ("matched", "multiplied", "lost"),
    "full": ("matched", "multiplied", "lost", "added"),
    "semi": ("matched",),
    "anti": ("lost",),
}
"""The counts of a join that its rows are the sum of."""


def need_balance(plan: Plan, accounts: Mapping[str, Account]) -> None:
    """Raise RunError where a stage has other rows than those of its inputs, and what it counted, make: of what is known of both."""
    for stage in plan.stages:
        account = accounts.get(stage.spec.name)
        if account is not None and account.rows is not None:
            for what, found, wanted in _sums(stage, account, accounts):
                if found is not None and wanted is not None and found != wanted:
                    error = lost(stage.spec.name, what, found, wanted)
                    error.where = plan.where(stage.spec.name)
                    raise error


def lost(stage: str, what: str, found: int, wanted: int) -> RunError:
    """The error for rows that are not as many as they must be."""
    return RunError(f"{what}: {found:,} rows where there must be {wanted:,}. Nothing was published. Please report this.", stage=stage)


def _sums(stage: PlannedStage, account: Account, accounts: Mapping[str, Account]) -> list[tuple[str, int | None, int | None]]:
    """What must be equal: rows that were found, and rows that there must be; None where they are not known."""
    roles = stage.spec.inputs
    read = {role: found.rows if (found := accounts.get(table)) else None for role, table in roles.items()}
    counts, use = account.counts, stage.spec.use
    if use == "union":
        known = [rows for rows in read.values() if rows is not None]
        return [("union of its tables", account.rows, sum(known) if len(known) == len(read) else None)]
    if use == "join" and "matched" in counts:
        how = str(stage.spec.stage.model_dump()["how"])
        made = sum(counts.get(name, 0) for name in _OF_JOINS[how])
        first = read["right" if how == "right" else "left"]
        return [("rows joined", account.rows, made), ("rows to join", counts["matched"] + counts.get("lost", 0), first)]
    if "rows_out" in counts:
        first = next(iter(read.values()), None)
        return [("rows that stay", account.rows, counts["rows_out"]), ("rows looked at", counts.get("rows_in"), first)]
    return []
