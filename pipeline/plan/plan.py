"""Job -> Plan: what will run, in which order, and what every table will look like, before anything is read or started.

Every stage is run on empty frames of its inputs' schemas, by the code that will run on the data. A missing column or a wrong type is a
problem with the line of the job file; all problems of a job come in one go. A plan for a GPU asks cuDF about every query on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipeline.backend.devices import Backend
from pipeline.backend.engines import UntranslatableError, refusals
from pipeline.errors import InputError, JobError, PipelineError, PlaceError, Problem, near
from pipeline.job.spec import Input, Job, Output, StageSpec
from pipeline.job.yaml_tree import Place
from pipeline.plan.explain import explained
from pipeline.plan.fingerprints import Fingerprints
from pipeline.plan.lineage import Lineage
from pipeline.plan.unchanged import Stamps, stamps_of, stamps_of_stage
from pipeline.registry import stage_class
from pipeline.stage import Context
from pipeline.tables.bad_rows import SCHEMA, Sifts
from pipeline.tables.bad_rows import TABLE as QUARANTINED
from pipeline.tables.columns import AXES
from pipeline.tables.part import Schema
from pipeline.tables.session import Session


@dataclass(frozen=True)
class PlannedStage:
    """A stage with the schemas it reads, by role, and gives, by table name."""

    spec: StageSpec
    reads: Mapping[str, Schema]
    gives: Mapping[str, Schema]


@dataclass(frozen=True)
class Plan:
    """A job that fits together; its inputs are the files that were there, each as `stamps` has it.

    `uses` counts who reads a table; `rows` are those that footers tell.
    """

    job: Job
    backend: Backend
    inputs: Mapping[str, Schema]
    rows: Mapping[str, int | None]
    stages: tuple[PlannedStage, ...]
    tables: Mapping[str, Schema]
    uses: Mapping[str, int]
    fingerprints: Mapping[str, str]
    stamps: Mapping[str, Stamps]

    def where(self, name: str, key: str = "") -> str:
        """Where the job file has a table's stage (or its parameter) or input, and its key: jobs/x.yaml:14:5: stages.gwas; '' for none."""
        base = name.split(".")[0]
        places = {f"stages.{stage.spec.name}": stage.spec.where(key) for stage in self.stages if stage.spec.name == base}
        places |= {f"inputs.{entry.name}": entry.place for entry in self.job.inputs.values() if entry.name == base}
        return next((f"{place.within(self.job.path)}: {section}" for section, place in places.items()), "")

    def explain(self, said: Mapping[str, str] | None = None) -> str:
        """The plan as text: inputs and outputs whole, and what every stage makes new, changes and drops.

        `said` is what is there of a stage (by its name) or an output (output NAME), or why it runs.
        """
        return explained(self, said or {})


class Planner:
    """Works through a job once and collects every problem it meets."""

    def __init__(self, job: Job, backend: Backend) -> None:
        self.job = job
        self.session = Session()
        self.session.backend = "translate" if backend == "gpu" else "cpu"
        self.backend = backend
        self.problems: list[Problem] = []
        self.refused: list[str] = []
        self.tables: dict[str, Schema] = {}
        self.rows: dict[str, int | None] = {}
        self.fingerprints = Fingerprints(backend, job.seed)
        self.lineage = Lineage()
        self.opened: dict[str, Input] = {}
        self.stamps: dict[str, Stamps] = {}

    def plan(self) -> Plan:
        """The plan. Raises InputError where an input file is at fault, JobError with every problem of the job."""
        for entry in self.job.inputs.values():
            self._open(entry)
        stages = [planned for spec in ordered(self.job.stages) if (planned := self._stage(spec)) is not None]
        for output in self.job.outputs.values():
            self._output(output)
        if self.refused and not self.problems:
            raise InputError("\n".join(self.refused))
        if self.problems:
            raise JobError([*(Problem("", "", text) for text in self.refused), *self.problems])
        read = [table for spec in self.job.stages for table in spec.inputs.values()]
        read += [output.table for output in self.job.outputs.values()]
        inputs = {name: self.tables[name] for name in self.job.inputs}
        uses = dict(Counter(read))
        job = self.job.model_copy(update={"inputs": self.opened})
        return Plan(job, self.backend, inputs, self.rows, tuple(stages), self.tables, uses, self.fingerprints.found, self.stamps)

    def _open(self, entry: Input) -> None:
        try:
            entry = self.opened[entry.name] = replace(entry, reader=entry.reader.pinned())
            self.stamps[entry.name] = stamps_of(entry.reader)  # before anything is read of them
            self._add(entry.name, entry.reader.table_schema())
            self.rows[entry.name] = entry.reader.rows()
            if isinstance(entry.reader, Sifts) and entry.reader.sifts:
                self.tables[f"{entry.name}.{QUARANTINED}"] = SCHEMA
            self.fingerprints.add_input(entry.name, entry.reader, self.stamps[entry.name])
            self.lineage.add_input(entry.name, entry.reader.marks())
            if self.backend == "gpu" and not self.tables[entry.name].arrays:
                _need_scan(entry)
        except InputError as error:
            self.refused.append(f"{self._where(entry.place)}: inputs.{entry.name}: {error}")

    def _stage(self, spec: StageSpec) -> PlannedStage | None:
        missing = [table for table in spec.inputs.values() if table not in self.tables]
        if missing:
            if not any(self._failed(table) for table in missing):
                self._problem(spec, "from", f"there is no table {missing[0]!r}.{near(missing[0], self.tables)}")
            return None
        reads = {role: self.tables[table] for role, table in spec.inputs.items()}
        if conflict := self.lineage.add_stage(spec.name, spec.inputs, spec.stage.unmarks):
            self._problem(spec, "from", conflict)
        try:
            spec = replace(spec, stage=spec.stage.opened(stage_class))
            if spec.stage.files():
                self.stamps[spec.name] = stamps_of_stage(spec.stage)
            given = self._given(spec, reads)
        except pl.exceptions.ColumnNotFoundError as error:
            column = _column_lacking(str(error))
            columns = {name for schema in reads.values() for name in schema.columns}
            self._problem(spec, _parameter_naming(spec, column), f"no column {column!r}.{near(column, columns)}")
            return None
        except PipelineError as error:
            for one in (error, *error.others):
                self._problem(spec, one.key, one.text)
            return None
        except (ValueError, pl.exceptions.PolarsError) as error:
            self._problem(spec, "", str(error).split("\n\nResolved plan")[0])
            return None
        gives = {f"{spec.name}.{name}" if name else spec.name: schema for name, schema in given.items()}
        for name, schema in gives.items():
            self._add(name, schema)
        self.fingerprints.add_stage(spec, self.stamps.get(spec.name, {}))
        return PlannedStage(spec, reads, gives)

    def _given(self, spec: StageSpec, reads: Mapping[str, Schema]) -> dict[str, Schema]:
        """The tables that a stage gives. What cuDF cannot run is a problem, and the stages behind it are planned as for a CPU's answer."""
        try:
            return spec.stage.plan(reads, Context(spec.name, self.job.seed, self.session))
        except UntranslatableError as error:
            self._problem(spec, "", str(error))
            return spec.stage.plan(reads, Context(spec.name, self.job.seed, Session()))

    def _output(self, output: Output) -> None:
        if output.table not in self.tables:
            if not self._failed(output.table):
                text = f"there is no table {output.table!r}.{near(output.table, self.tables)}"
                self.problems.append(Problem(self._where(output.place), f"outputs.{output.name}.from", text))
            return
        columns = self.tables[output.table].columns.names()
        for key, names in (("sort_by", output.sort_by.names), ("columns", output.columns or ())):
            for column in names:
                if column not in columns:
                    text = f"table {output.table!r} has no column {column!r}.{near(column, columns)}"
                    self.problems.append(Problem(self._where(output.where(key)), f"outputs.{output.name}.{key}", text))
        try:
            output.writer.check(self.tables[output.table], output.columns or columns)
        except (JobError, PlaceError) as error:  # the latter of a catalog that cannot be opened, a library that is missing
            self.problems.append(Problem(self._where(output.where("format")), f"outputs.{output.name}.format", str(error)))

    def _failed(self, table: str) -> bool:
        """Whether a table is missing only because what should give it was refused: one problem is said once."""
        base = table.split(".")[0]
        return (base in self.job.inputs or any(spec.name == base for spec in self.job.stages)) and base not in self.tables

    def _add(self, name: str, schema: Schema) -> None:
        self.tables[name] = schema
        for array, axis in schema.arrays.items():
            self.tables[f"{name}.{AXES[array]}"] = Schema(axis)

    def _problem(self, spec: StageSpec, key: str, text: str) -> None:
        where = f"stages.{spec.name}" + (f".{key}" if key else "")
        self.problems.append(Problem(self._where(spec.where(key)), where, text))

    def _where(self, place: Place) -> str:
        return str(place.within(self.job.path))


def make_plan(job: Job, backend: Backend) -> Plan:
    """The plan of a job. Raises JobError or InputError; nothing has been started, and only footers and headers were read."""
    return Planner(job, backend).plan()


def ordered(stages: Iterable[StageSpec]) -> list[StageSpec]:
    """Stages such that each comes after those it reads, otherwise in the order of the file. Cycles were refused by the loader."""
    waiting, done = list(stages), list[StageSpec]()
    names = {spec.name for spec in waiting}
    while waiting:
        finished = {spec.name for spec in done}
        ready = [
            spec for spec in waiting if all((t.split(".")[0] not in names) or (t.split(".")[0] in finished) for t in spec.inputs.values())
        ]
        if not ready:
            raise JobError(f"stages that wait for one another: {', '.join(spec.name for spec in waiting)}")
        done.append(ready[0])
        waiting.remove(ready[0])
    return done


def _need_scan(entry: Input) -> None:
    """Raise InputError for files that cuDF cannot scan; text and genotypes are read on the host."""
    source = entry.reader.model_copy(update={"parts": None}).sources(1)[0]
    if source.cheap and isinstance(scan := source.load(), pl.LazyFrame) and (refused := refusals(scan)):
        raise InputError(f"backend gpu: cuDF cannot read this ({'; '.join(refused)}). Use backend: cpu, or write the files another way.")


def _column_lacking(text: str) -> str:
    """The column that Polars' complaint is about: its error has no other form than text."""
    first = text.split("\n")[0]
    return first.split('"')[1] if '"' in first else first


def _parameter_naming(spec: StageSpec, column: str) -> str:
    """The only parameter of the job that names a column; '' where none does, or several do."""
    given = {key: value for key, value in spec.stage.model_dump(mode="json").items() if key in spec.places}
    holders = [key for key, value in given.items() if column in _words(value)]
    return holders[0] if len(holders) == 1 else ""


def _words(value: Any) -> set[str]:
    """Every text in a parameter's value, keys too."""
    if isinstance(value, Mapping | list | tuple):
        items = [*value, *value.values()] if isinstance(value, Mapping) else value
        return {word for item in items for word in _words(item)}
    return {value.removeprefix("-")} if isinstance(value, str) else set()
