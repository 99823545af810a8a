"""What stages give beside their tables: models' files, metrics, counts, measures, warnings; as they come, and as they were taken over."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pipeline.errors import RunError
from pipeline.results.store import open_store
from pipeline.running.accounting import Accounting
from pipeline.running.pending import Waiting
from pipeline.running.record import Account
from pipeline.running.resuming import FormerRun, KeptTable, Resumption
from pipeline.stage import Outcome

KINDS = ("file", "metrics", "measures", "warnings", "counts")


class Beside:
    """By stage and kind, what came; `keep` is told of a stage when all that it gives is there."""

    def __init__(self, accounting: Accounting, keep: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.accounting, self._keep = accounting, keep
        self.given: dict[str, dict[str, Any]] = {}

    def wait_for(self, stage: str, outcome: Outcome, waiting: Waiting) -> None:
        """Wait for what a stage gives, with the run's tasks."""
        files = list(outcome.files)
        wanted = {"file": [outcome.files[name] for name in files], **{kind: [getattr(outcome, kind)] for kind in KINDS[1:]}}
        asked = {kind: futures for kind, futures in wanted.items() if futures and futures[0] is not None}
        given, left = self.given.setdefault(stage, {}), [len(asked)]

        def done(kind: str, values: list[Any]) -> None:
            """Note one kind; when it was the last one, all are kept."""
            given[kind] = dict(zip(files, values, strict=True)) if kind == "file" else values[0]
            self._account(stage, given, kind)
            left[0] -= 1
            if not left[0]:
                self._keep(stage, given)

        for kind, futures in asked.items():
            waiting.add(f"{kind} {stage}", futures, partial(done, kind))
        if not asked:
            self._keep(stage, given)

    def take(self, resumed: Resumption, accounts: dict[str, Account]) -> None:
        """Have what was taken over beside what came; accounts of tables that did not run are those of then."""
        for stage, found in resumed.beside.items():
            self.given[stage] = _of_run(found, stage) if isinstance(found, FormerRun) else _of_folder(found)
            if isinstance(found, KeptTable):
                self._take_accounts({stage: found.document["account"]}, resumed, accounts)
        for kept in sorted(resumed.tables.values(), key=lambda kept: str(kept.document["made"])):
            self._take_accounts(kept.document["accounts"], resumed, accounts)
            for counted, count in kept.document["measured"]["counts"].items():
                stage, _, what = counted.partition(":")
                if stage in resumed.runs:
                    account = self.accounting.of(stage)
                    account.counts[what] = account.counts.get(what, 0) + count
        for run in {run.id: run for run in (*_runs(resumed), *(run for run, _ in resumed.outputs.values()))}.values():
            self._take_accounts(_accounts(run), resumed, accounts)

    def by_stage(self, kind: str) -> dict[str, Any]:
        """Of one kind, what each stage gave that gave any."""
        return {stage: given[kind] for stage, given in self.given.items() if kind in given}

    def document(self) -> dict[str, Any]:
        """What is needed to take it over from the run that is published: whose files are whose, and who warned of what."""
        return {
            stage: {"files": sorted(given.get("file", ())), "warnings": given.get("warnings") or []} for stage, given in self.given.items()
        }

    def _account(self, stage: str, given: Mapping[str, Any], kind: str) -> None:
        if kind in {"measures", "counts"}:
            getattr(self.accounting.of(stage), kind).update(given[kind])

    def _take_accounts(self, known: Mapping[str, Any], resumed: Resumption, accounts: dict[str, Account]) -> None:
        """Accounts of what neither runs nor was read in this run."""
        for name, account in known.items():
            base = name.partition(".")[0]
            if (
                base not in resumed.runs
                and base in resumed.meanings.of
                and (base not in accounts or base not in resumed.meanings.plan.inputs)
            ):
                accounts[name] = Account(**{**account, "seconds": 0.0})


def _runs(resumed: Resumption) -> list[FormerRun]:
    return [found for found in resumed.beside.values() if isinstance(found, FormerRun)]


def _accounts(run: FormerRun) -> dict[str, Any]:
    """The accounts of a run.json."""
    fields = tuple(Account.__dataclass_fields__)
    found = {}
    for kind in ("inputs", "stages", "tables"):
        for name, account in run.record[kind].items():
            own = {field: account[field] for field in fields if field in account}
            more = {key: value for key, value in account.items() if key not in {*fields, "rows_in", "rows_out"}}
            found[name] = {"name": name, **own, "measures": more if kind == "stages" else {}}
    return found


def _of_run(run: FormerRun, stage: str) -> dict[str, Any]:
    """What a stage of a former run gave; its counts and measures are in its account."""
    beside, store = run.known["beside"][stage], open_store(run.place)
    given: dict[str, Any] = {"warnings": beside["warnings"]} if beside["warnings"] else {}
    if stage in run.metrics:
        given["metrics"] = run.metrics[stage]
    wanted = {f"models/{name}": name for name in beside["files"]}
    given["file"] = {}
    for entry in run.files:
        if entry.path in wanted:
            content = store.read(f"runs/{run.id}/{entry.path}")
            if hashlib.sha256(content).hexdigest() != entry.sha256:
                raise RunError(f"{store.path(f'runs/{run.id}/{entry.path}')}: not what its manifest says. Run again with --fresh.")
            given["file"][wanted[entry.path]] = content
    return given if given["file"] else {kind: value for kind, value in given.items() if kind != "file"}


def _of_folder(kept: KeptTable) -> dict[str, Any]:
    files = {name: kept.folder.read(file) for name, file in kept.document["files"].items()}
    return {**kept.document["given"], **({"file": files} if files else {})}
