"""What a run came to, before it is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.job.spec import Output
from pipeline.results.manifest import Entry
from pipeline.running.beside import Beside
from pipeline.running.resuming import Resumption


@dataclass
class Executed:
    """What a run gave: the files written, model files, metrics per stage, and what was noticed and did not stop it.

    `beside` says whose the model files are, `checkpoints` are the keys of those that were made or read.
    """

    entries: list[Entry] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    idle: dict[str, float] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    checkpoints: set[str] = field(default_factory=set)

    def fill(self, beside: Beside, notes: Sequence[str], resumed: Resumption, files_of: Callable[[Output], list[Entry]]) -> Executed:
        """This, with what came out in the order of the job."""
        plan = resumed.meanings.plan
        files, metrics, warnings = (beside.by_stage(kind) for kind in ("file", "metrics", "warnings"))
        names = [stage.spec.name for stage in plan.stages]
        self.files = dict(sorted((name, content) for of in files.values() for name, content in of.items()))
        self.metrics = {name: metrics[name] for name in names if name in metrics}
        self.warnings = [f"{name}: {text}" for name in names for text in warnings.get(name, ())] + [*notes]
        for name, stage in ((stage.spec.name, stage.spec.stage) for stage in plan.stages):
            if account := beside.accounting.accounts.get(name):
                self.warnings += [f"{name}: {text}" for text in stage.noticed(account.counts)]
        self.beside = beside.document()
        for output in plan.job.outputs.values():
            self.entries += files_of(output)
        return self
