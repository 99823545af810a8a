"""run.json: what ran, where, with which versions, and what every stage did. A failed run has one too."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.backend.devices import device_names
from pipeline.backend.threads import cores
from pipeline.job.spec import Output
from pipeline.plan.plan import Plan
from pipeline.plan.versions import versions
from pipeline.tables.measured import Measured


@dataclass
class Account:
    """What one table came to. `rows` is None where the table was never by itself: it was fused into the tasks of its reader."""

    name: str
    use: str
    rows: int | None = None
    bytes: int | None = None
    parts: int | None = None
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)

    def add(self, measured: Measured) -> None:
        """Add the rows, bytes and parts of one more piece."""
        first = self.bytes is None
        self.rows = measured.rows if first else (self.rows or 0) + measured.rows
        self.bytes = (self.bytes or 0) + measured.bytes
        self.parts = measured.parts if first else (self.parts or 0) + measured.parts


@dataclass
class RunRecord:
    """The record of one run while it is made; `document` is run.json."""

    run: str
    plan: Plan
    cluster: dict[str, Any]
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: str = "running"
    finished: datetime | None = None
    error: str | None = None
    accounts: dict[str, Account] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    energy: dict[str, Any] = field(default_factory=dict)
    idle: dict[str, float] = field(default_factory=dict)
    appended: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    actual: dict[str, Any] = field(default_factory=dict)
    reused: dict[str, str] = field(default_factory=dict)
    known_by: dict[str, Any] = field(default_factory=dict)

    def end(self, status: str, error: str | None = None) -> None:
        """Note how the run ended: done, failed or interrupted."""
        self.status, self.error, self.finished = status, error, datetime.now(UTC)

    @property
    def seconds(self) -> float:
        """Wall time of the run so far, or of the whole."""
        return ((self.finished or datetime.now(UTC)) - self.started).total_seconds()

    def document(self) -> dict[str, Any]:
        """The record as JSON takes it; secrets of the job are masked."""
        stages = {spec.spec.name: True for spec in self.plan.stages}
        accounts = {name: _account(account) for name, account in self.accounts.items()}
        for stage in self.plan.stages:
            if stage.spec.name in accounts:
                read = [accounts.get(table, {}).get("rows") for table in stage.spec.inputs.values()]
                accounts[stage.spec.name]["rows_in"] = read[0] if len(read) == 1 else read
        return {
            "run": self.run,
            "status": self.status,
            "error": self.error,
            "started": self.started.isoformat(timespec="milliseconds"),
            "finished": self.finished.isoformat(timespec="milliseconds") if self.finished else None,
            "seconds": round(self.seconds, 3),
            "backend": self.plan.backend,
            "cluster": self.cluster,
            "machine": machine(),
            "versions": versions(),
            "expected": self.expected,
            "actual": self.actual,
            "energy": self.energy,
            "idle": self.idle,
            "reused": self.reused,
            "inputs": {
                name: {**account, **self.plan.job.inputs[name].reader.about()}
                for name, account in accounts.items()
                if name in self.plan.inputs
            },
            "stages": {name: accounts[name] for name in stages if name in accounts},
            "tables": {name: account for name, account in sorted(accounts.items()) if name not in stages and name not in self.plan.inputs},
            "outputs": {name: described(self.plan, output) | self.appended.get(name, {}) for name, output in self.plan.job.outputs.items()},
            "fingerprints": dict(self.plan.fingerprints),
            "known_by": self.known_by,
            "warnings": self.warnings,
            "job": self.plan.job.raw,
        }


def described(plan: Plan, output: Output) -> dict[str, Any]:
    """What is needed to read an output's files again: the format, its keys, and the columns with their types."""
    columns = plan.tables[output.table].columns
    names = output.columns or columns.names()
    settings = output.writer.model_dump(mode="json")
    return {"format": output.format, "settings": settings, "columns": {name: str(columns[name]) for name in names}}


def machine() -> dict[str, Any]:
    """The machine that the run was started on; no host name and no path."""
    return {"system": platform.system(), "processor": platform.machine(), "cores": cores(), "gpus": device_names()}


def _account(account: Account) -> dict[str, Any]:
    document = asdict(account)
    document.pop("name")
    document |= document.pop("measures")
    document["seconds"] = round(account.seconds, 3)
    document["rows_out"] = document["rows"]
    return document
