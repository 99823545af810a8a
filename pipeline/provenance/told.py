"""A run as it is told to others: what it has on disk, and where its columns come from, by its job planned again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import polars as pl

from pipeline.errors import PipelineError, PlaceError
from pipeline.plan.plan import Plan, make_plan
from pipeline.provenance.origins import Origins, of_plan
from pipeline.results.manifest import MANIFEST, RECORD, Entry, run_path, run_view
from pipeline.results.store import open_store
from pipeline.running.certificate import CERTIFICATE
from pipeline.running.replayed import Former

SOFTWARE = "gpu-table-pipeline"


@dataclass(frozen=True)
class Columns:
    """The columns of a job's tables, and where they come from. `unknown` says why neither is known, '' where both are."""

    schemas: Mapping[str, pl.Schema] = field(default_factory=dict)
    origins: Mapping[str, Origins] = field(default_factory=dict)
    unknown: str = ""


@dataclass(frozen=True)
class Told:
    """A run: its folder, record, certificate, metrics and files. One that failed has a record alone."""

    path: str
    record: Mapping[str, Any]
    certificate: Mapping[str, Any]
    metrics: Mapping[str, Any]
    files: tuple[Entry, ...]

    @property
    def job(self) -> Mapping[str, Any]:
        """The job as it was run, its secrets masked."""
        job: Mapping[str, Any] = self.record["job"]
        return job

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.job["job"])

    @property
    def reads(self) -> dict[str, dict[str, str]]:
        """The tables that each stage reads, by role."""
        return {stage["as"]: tables_of(stage["from"]) for stage in self.job["stages"]}

    def written(self, output: str) -> list[Entry]:
        """The files of an output."""
        return [entry for entry in self.files if entry.path.startswith(f"{output}/")]

    def columns(self) -> Columns:
        """What the job's plan says of columns, made again from its inputs' headers; nothing where it has changed since."""
        try:
            plan = make_plan(Former(self.path, self.record, self.certificate).job([]), "cpu")
        except (PipelineError, OSError) as error:
            return Columns(unknown=f"the job cannot be planned again ({error})")
        if changed := self._changed(plan):
            return Columns(unknown=changed)
        return Columns({name: schema.columns for name, schema in plan.tables.items()}, of_plan(plan))

    def _changed(self, plan: Plan) -> str:
        stages = {stage.spec.name: f"{stage.spec.use} {stage.spec.stage.version}" for stage in plan.stages}
        if other := [name for name, version in self.certificate.get("stages", {}).items() if stages.get(name) != version]:
            return f"stage {other[0]} is of another version now"
        for name, output in self.record["outputs"].items():
            columns = plan.tables[plan.job.outputs[name].table].columns
            if any(str(columns.get(column)) != dtype for column, dtype in output["columns"].items()):
                return f"output {name} would have other columns now"
        return ""


def tables_of(given: Any) -> dict[str, str]:
    """The tables that a stage reads, by role; of one alone the role is its name."""
    if isinstance(given, Mapping):
        return {str(role): str(table) for role, table in given.items()}
    return {str(table): str(table) for table in (given if isinstance(given, list) else [given])}


def read_told(place: str) -> Told:
    """The current run of a results folder, or a run by its own folder, whole or failed. Raises PlaceError."""
    try:
        path = store.path("") if (store := open_store(place)).has(RECORD) else run_path(place)
        store = open_store(path)
        record = json.loads(store.read(RECORD))
        if not store.has(MANIFEST):
            return Told(path, record, {}, {}, ())
        certificate = json.loads(store.read(CERTIFICATE)) if store.has(CERTIFICATE) else {}
        return Told(path, record, certificate, json.loads(store.read("metrics.json")), run_view(path).files)
    except (OSError, ValueError) as error:
        raise PlaceError(f"{place}: {error}. Give a results folder, or the folder of a run.") from error


def library(module: str, extra: str) -> Any:
    """A module of a library that only this needs. Raises PlaceError where it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise PlaceError(f"{error.name} is not installed. Install it with: pip install '.[{extra}]'") from error
