"""What a run need not do, because it was done before: tables in checkpoints, outputs and models of former runs; and why the rest must run.

PLACE/checkpoints/KEY/          a table of a stage, or what it gave beside its tables (results/stage_folder.py)
PLACE/runs/RUN/run.json         `known_by`: what all inputs, stages and outputs of a run are known by (plan/meaning.py)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import PlaceError
from pipeline.format import OutputFormat
from pipeline.plan.meaning import Meanings, first_difference
from pipeline.plan.needed import needed
from pipeline.plan.once import read_once
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.plan.sizes import beyond_memory
from pipeline.results.at_url import Store
from pipeline.results.manifest import MANIFEST, RECORD, Entry, current_id, whole_run
from pipeline.results.stage_folder import Piece, StageFolder
from pipeline.results.store import open_store
from pipeline.stage import FittedRows, Keyed, Rows

MOST_RUNS = 6  # the newest of them
PLAIN = {Rows.run, FittedRows.run, Keyed.run}  # of these come tables and nothing else


@dataclass(frozen=True)
class FormerRun:
    """A whole run: its files, its record, its metrics, and what all in it is known by."""

    place: str
    id: str
    files: tuple[Entry, ...]
    record: Mapping[str, Any]
    metrics: Mapping[str, Any]
    known: Mapping[str, Any]

    def has(self, stage: str, key: str) -> bool:
        """Whether it has what a stage of that key gives beside its tables."""
        return self.known["of"].get(stage, {}).get("key") == key and stage in self.known["beside"]

    def outputs(self, name: str, key: str) -> list[Entry]:
        """The files of an output of that key."""
        same = self.known["outputs"].get(name, {}).get("key") == key
        return [entry for entry in self.files if same and entry.path.startswith(f"{name}/")]


@dataclass(frozen=True)
class KeptTable:
    """A whole checkpoint of a table."""

    folder: StageFolder
    document: Mapping[str, Any]


@dataclass
class Resumption:
    """What is taken over, by name, and what runs, with the reason; `damaged` are folders whose files are not what was written."""

    meanings: Meanings
    tables: dict[str, KeptTable] = field(default_factory=dict)
    beside: dict[str, KeptTable | FormerRun] = field(default_factory=dict)
    outputs: dict[str, tuple[FormerRun, list[Entry]]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)  # tables of stages and inputs that somebody reads
    damaged: dict[str, str] = field(default_factory=dict)
    fresh: bool = False
    former: FormerRun | None = None  # the current run

    def taken(self, stage: str) -> str:
        """Where a stage that does not run has its results from; '' where it runs."""
        if stage in self.runs:
            return ""
        tables = [name for name in self.tables if name.partition(".")[0] == stage]
        if tables:
            parts = sum(len(self.tables[name].document["parts"]) for name in tables)
            return f"reused, {parts} part{'s' if parts != 1 else ''} of a checkpoint"
        found = self.beside.get(stage)
        return f"reused, of run {found.id}" if isinstance(found, FormerRun) else "reused, nothing that runs reads it"

    def needs(self, table: str) -> bool:
        """Whether somebody who runs reads a table, or one that labels an axis of its arrays."""
        return any(name == table or name.startswith(f"{table}.") for name in self.needed)

    def uses(self) -> dict[str, int]:
        """How many of those who run, and of the outputs that are written, read each table."""
        plan = self.meanings.plan
        read = [table for stage in plan.stages if stage.spec.name in self.runs for table in stage.spec.inputs.values()]
        return dict(Counter([*read, *(output.table for name, output in plan.job.outputs.items() if name not in self.outputs)]))

    def is_done(self) -> bool:
        """Whether the current run has all of it."""
        sources = [found.id if isinstance(found, FormerRun) else "" for found in self.beside.values()]
        sources += [run.id for run, _ in self.outputs.values()]
        if self.former is None or self.former.known["job"] != self.meanings.document()["job"]:
            return False
        return not self.runs and {*sources} == {self.former.id} and len(self.outputs) == len(self.meanings.plan.job.outputs)

    def said(self) -> dict[str, str]:
        """Of every stage where its results come from, or why it runs and whether on disk; of outputs (output NAME) which run has them, and
        of inputs (input NAME) that are held."""
        plan = self.meanings.plan
        beyond = beyond_memory(plan, plan.job.cluster.for_backend(plan.backend).memory(plan.backend))
        found = {stage.spec.name: self.taken(stage.spec.name) for stage in plan.stages if stage.spec.name not in self.runs}
        found |= {name: "; ".join([f"to run: {why}", *([beyond[name]] if name in beyond else [])]) for name, why in self.runs.items()}
        held = read_once(plan, needed(plan, self.runs, [name for name in plan.job.outputs if name not in self.outputs], []))
        found |= {f"input {name}": f"decoded once and held in memory for {readers} readers" for name, readers in held.items()}
        return found | {f"output {name}": f"reused, of run {run.id}" for name, (run, _) in self.outputs.items()}

    def warnings(self) -> list[str]:
        """What is said of checkpoints that are not as they were written."""
        return [f"checkpoint {key}: {why}; what it held is computed again" for key, why in self.damaged.items()]

    def document(self) -> dict[str, Any]:
        """What run.json has of it."""
        return {
            name: taken for name in self.meanings.plan.fingerprints if name not in self.meanings.plan.inputs and (taken := self.taken(name))
        }


def look(plan: Plan, *, fresh: bool = False) -> Resumption:
    """What of a plan is there already. Reads every byte of the checkpoints that would be used, and changes nothing."""
    meanings, store = Meanings(plan), open_store(plan.job.results)
    found = Resumption(meanings, fresh=fresh)
    former = [] if fresh else list(former_runs(store))
    if not fresh:
        found.former = former[0] if former and former[0].id == current_id(store) else None
        _find_outputs(found, former)
    read = {output.table for name, output in plan.job.outputs.items() if name not in found.outputs}
    found.needed |= read
    for stage in reversed(plan.stages):
        if why := _needs_run(found, stage, former, store if store.keeps and not fresh else None):
            found.runs[stage.spec.name] = why
            found.needed |= {*stage.spec.inputs.values()}
    found.runs = {stage.spec.name: found.runs[stage.spec.name] for stage in plan.stages if stage.spec.name in found.runs}
    _say_why(found, former)
    return found


def former_runs(store: Store) -> Iterator[FormerRun]:
    """The newest runs that are whole and say what they are known by, the current one first."""
    try:
        runs, current = sorted(store.folders("runs"), reverse=True), current_id(store)
    except OSError:
        return
    names = [*([current] if current in runs else []), *(name for name in runs if name != current)]
    for name in names[:MOST_RUNS]:
        try:
            if not store.has(f"runs/{name}/{MANIFEST}"):
                continue
            record, metrics = (json.loads(store.read(f"runs/{name}/{file}")) for file in (RECORD, "metrics.json"))
            if record.get("known_by"):
                yield FormerRun(store.place, name, whole_run(store.place, name).files, record, metrics, record["known_by"])
        except (OSError, ValueError, PlaceError):  # one that is damaged is of no use here; whoever reads it is told by others
            continue


def _find_outputs(found: Resumption, former: list[FormerRun]) -> None:
    for name, output in found.meanings.plan.job.outputs.items():
        if output.append or type(output.writer).deliver is not OutputFormat.deliver:  # elsewhere nobody knows what became of it
            continue
        for run in former:
            if entries := run.outputs(name, found.meanings.outputs[name].key):
                found.outputs[name] = (run, entries)
                break


def _needs_run(found: Resumption, stage: PlannedStage, former: list[FormerRun], store: Store | None) -> str:
    """Why a stage runs; '' where it need not: what is read of it is there, and so is what it gives beside its tables."""
    name, meanings = stage.spec.name, found.meanings
    wanted = [table for table in stage.gives if found.needs(table) and (table != name or _is_read_itself(found, name, stage))]
    for table in wanted:
        if store is not None and (kept := _whole(found, StageFolder(store, meanings.table_key(table)))):
            found.tables[table] = kept
    if lacking := [table for table in wanted if table not in found.tables]:
        return "in no checkpoint" if lacking[0] == name else f"{lacking[0]} is in no checkpoint"
    if type(stage.spec.stage).run in PLAIN:
        return ""
    for run in former:
        if run.has(name, meanings.of[name].key):
            found.beside[name] = run
            return ""
    if store is not None and (kept := _whole(found, StageFolder(store, meanings.beside_key(name)))):
        found.beside[name] = kept
        return ""
    return "what it gives beside its tables was not kept"


def _is_read_itself(found: Resumption, name: str, stage: PlannedStage) -> bool:
    """Whether the table of a stage's own name is read, or labels of its axes; not only one that is called NAME.x."""
    others = {table for table in stage.gives if table != name}
    return any(read == name or (read.startswith(f"{name}.") and read not in others) for read in found.needed)


def _whole(found: Resumption, folder: StageFolder) -> KeptTable | None:
    """A checkpoint that is whole, by its checksums; why one is not is noted."""
    try:
        document = folder.manifest()
        if document is None:
            return None
        try:
            pieces = [Piece.of(piece) for piece in document["pieces"]]
        except (KeyError, TypeError) as error:
            raise ValueError("its manifest is torn") from error
        folder.check(pieces)
    except ValueError as error:
        found.damaged[folder.key] = str(error)
        return None
    return KeptTable(folder, document)


def _say_why(found: Resumption, former: list[FormerRun]) -> None:
    """Say of each stage that runs what is other than it was in the newest run."""
    if found.fresh:
        found.runs = dict.fromkeys(found.runs, "--fresh")
    elif former:
        now = found.meanings.document()["of"]
        for name, why in found.runs.items():
            found.runs[name] = first_difference(name, now, former[0].known["of"]) or why
