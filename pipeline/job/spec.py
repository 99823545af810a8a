"""Job, Input, StageSpec, Output: what a job file says, typed and frozen.

Relative paths in a job, those of its inputs and of its results, are relative to the current directory, as they are in a shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SkipValidation

from pipeline.backend.devices import Frames
from pipeline.clusters.auto import Auto
from pipeline.clusters.kinds import AnyCluster
from pipeline.format import InputFormat, OutputFormat
from pipeline.job.yaml_tree import Place
from pipeline.stage import Stage
from pipeline.tables.names import ColumnNames, Order
from pipeline.urls import hidden, openly

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$", title="name of letters, digits, _ and -")]
Shown = Annotated[str, AfterValidator(hidden)]
TableName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)?$", title="table name, NAME or NAME.part")]


@dataclass(frozen=True)
class Input:
    """One input of a job: its name, its format, and the reader that has its keys."""

    name: str
    format: str
    reader: InputFormat = field(repr=False)
    place: Place


@dataclass(frozen=True)
class StageSpec:
    """One stage of a job: its name (`as`), which stage it is (`use`), table name by role, and the stage with its parameters.

    `checkpoint`: its tables are kept always, or never; where it pays, if the job does not say.
    """

    name: str
    use: str
    inputs: Mapping[str, str]
    stage: Stage = field(repr=False)
    place: Place
    places: Mapping[str, Place] = field(default_factory=dict, repr=False)
    checkpoint: bool | None = None

    def where(self, key: str) -> Place:
        """The place of a key's value (`model.target`: or of what it is below); that of the stage where the key is not given."""
        while key and key not in self.places:
            key = key.rpartition(".")[0]
        return self.places.get(key, self.place)


def stage_parameters(kind: type[Stage]) -> dict[str, type[Stage]]:
    """The parameters of a stage that are stages themselves, and of which kind: a job gives them as a mapping with `use`."""
    types = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    return {name: found for name, found in types.items() if isinstance(found, type) and issubclass(found, Stage)}


@dataclass(frozen=True)
class Output:
    """One output of a job: its name, the table it writes, the order and the columns of its rows, and the writer."""

    name: str
    table: str
    sort_by: Order
    columns: tuple[str, ...] | None
    format: str
    writer: OutputFormat = field(repr=False)
    place: Place
    places: Mapping[str, Place] = field(default_factory=dict, repr=False)
    append: bool = False

    def where(self, key: str) -> Place:
        """The place of a key's value; that of the output where the key is not given."""
        return self.places.get(key, self.place)


class OutputKeys(BaseModel):
    """What every output says, whatever its format."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: TableName = Field(alias="from", description="The table to write.")
    sort_by: Order | tuple[()] = Field((), description="A column or a list of columns; -column sorts from the greatest down.")
    columns: ColumnNames | None = Field(None, description="The columns to write, in this order; all where it is not given.")
    format: str = Field("parquet", description="The format of the files.")
    append: bool = Field(False, description="Publish the files of the current run's output of this name, too; they stay as they are.")


class PowerBudget(BaseModel):
    """What a run may use before it is warned of; where nothing is measured, the warning says so."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    joules: float | None = Field(None, gt=0, description="Energy of the whole run.")
    watts: float | None = Field(None, gt=0, description="Power of all that is measured together, at any moment (half a second).")


class Checkpoints(BaseModel):
    """What of finished stages is kept in the results place, so that a run that was interrupted goes on, and one that follows does less."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    auto: bool = Field(True, description="Keep what takes far longer to make than to write; else only where a stage says checkpoint: true.")
    keep: int = Field(50, ge=0, description="Most tables that stay; those that were not used for longest go first.")
    gigabytes: float = Field(20, ge=0, description="Most gigabytes of all of them together.")


class JobSettings(BaseModel):
    """What a job says beside its inputs, stages and outputs."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    name: Name = Field(alias="job", description="The job's name.")
    title: Shown | None = Field(None, description="A headline for the report.")
    description: Shown | None = Field(None, description="What the job is for.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of everything random: splits, samples, training.")
    backend: Literal["auto", "cpu", "gpu"] = Field("auto", description="auto takes the GPU where one is visible.")
    frames: Frames = Field("host", description="Where a run on GPUs has its tables between queries. No GPU has run device yet.")
    cluster: AnyCluster = Field(
        default_factory=Auto, description="Where the job runs: a kind, the address of a running scheduler, or a mapping."
    )
    results: Annotated[str, AfterValidator(openly)] = Field(
        default_factory=lambda data: f"results/{data.get('name', '')}",
        min_length=1,
        description="A folder or URL for what comes out; results/JOB where it is not given.",
    )
    power: PowerBudget | None = Field(None, description="A budget of energy and power; a run that goes beyond it has a warning.")
    price: float | None = Field(
        None, gt=0, description="What a worker costs for an hour, in any currency: --explain and run.json say money."
    )
    report: bool = Field(True, description="Whether a report page is written.")
    checkpoints: Checkpoints = Field(default_factory=Checkpoints, description="What is kept of finished stages, and how much of it.")
    counts: Literal["boundaries", "all"] = Field("boundaries", description="all: count the rows of every stage, which costs fusion.")


class Job(JobSettings):
    """A job as it will run: every name resolved to a stage or format, every parameter checked. `raw` is for the record, secrets masked."""

    inputs: Annotated[dict[str, Input], SkipValidation]
    stages: Annotated[tuple[StageSpec, ...], SkipValidation]
    outputs: Annotated[dict[str, Output], SkipValidation]
    path: str
    raw: dict[str, Any] = Field(repr=False)

    @property
    def folder(self) -> Path:
        """The folder of the job file."""
        return Path(self.path).parent
