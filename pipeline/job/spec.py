"""Job, Input, StageSpec, Output, ClusterSpec: what a job file says, typed and frozen.

Relative paths in a job, those of its inputs and of its results, are relative to the current directory, as they are in a shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, model_validator

from pipeline.format import InputFormat, OutputFormat
from pipeline.job.yaml_tree import Place
from pipeline.stage import Stage
from pipeline.tables.names import ColumnNames, Order

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$", title="name of letters, digits, _ and -")]
TableName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)?$", title="table name, NAME or NAME.part")]
Size = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)? ?([kKMGT]i?)?B$", title="size such as 8GB")]
DeviceShare = Annotated[float, Field(gt=0, le=1)]
KINDS = ("auto", "local", "cuda", "scheduler")
ADDRESS = re.compile(r"[a-z]+://\S+|[A-Za-z0-9_.-]+:[0-9]+|\[[0-9a-fA-F:]+\]:[0-9]+")


@dataclass(frozen=True)
class Input:
    """One input of a job: its name, its format, and the reader that has its keys."""

    name: str
    format: str
    reader: InputFormat = field(repr=False)
    place: Place


@dataclass(frozen=True)
class StageSpec:
    """One stage of a job: its name (`as`), which stage it is (`use`), table name by role, and the stage with its parameters."""

    name: str
    use: str
    inputs: Mapping[str, str]
    stage: Stage = field(repr=False)
    place: Place
    places: Mapping[str, Place] = field(default_factory=dict, repr=False)

    def where(self, key: str) -> Place:
        """The place of a key's value; that of the stage where the key is not given."""
        return self.places.get(key, self.place)


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


def cluster_keys(value: Any) -> Any:
    """A cluster written as a word (cuda) or an address (tcp://host:8786) as the mapping that it stands for; else unchanged."""
    if isinstance(value, str):
        if ADDRESS.fullmatch(value):
            return {"kind": "scheduler", "address": value if "://" in value else f"tcp://{value}"}
        if value not in KINDS:
            raise ValueError(f"{value!r} is no kind of cluster ({', '.join(KINDS)}) and no address such as tcp://HOST:8786")
        return {"kind": value}
    if isinstance(value, dict) and value.get("kind", "auto") == "auto" and (value.get("address") or value.get("scheduler_file")):
        return {**value, "kind": "scheduler"}
    return value


class ClusterSpec(BaseModel):
    """Where the job runs: threads or processes of this machine, its GPUs, or a Dask cluster that runs already."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["auto", "local", "cuda", "scheduler"] = Field(
        "auto", description="auto: cuda where the backend is gpu, else local. local: this machine's cores. scheduler: a running cluster."
    )
    workers: int | None = Field(None, ge=1, le=10_000, description="Processes; local: threads of one where not given; cuda: one a GPU.")
    threads: int | None = Field(None, ge=1, le=10_000, description="Threads of each worker; the machine's cores, shared out.")
    memory_limit: Size | None = Field(None, description="Memory of each worker, such as 8GB; beyond it parts spill to disk.")
    address: str | None = Field(None, pattern=r"^[a-z]+://\S+$|^\S+:[0-9]+$", description="Of a running scheduler: tcp://HOST:8786.")
    scheduler_file: str | None = Field(None, min_length=1, description="The file that a running scheduler wrote.")
    protocol: Literal["auto", "tcp", "ucx"] = Field("auto", description="auto: UCX between several GPUs where it is installed, else TCP.")
    dashboard: bool = Field(True, description="Whether Dask's dashboard is served (on 127.0.0.1).")
    rmm_pool_size: Size | DeviceShare | None = Field(
        None, description="GPU memory to take at once, as a size or a share; taken as it is needed where not given."
    )
    device_memory_limit: Size | DeviceShare | None = Field(None, description="GPU memory of a worker beyond which it spills to the host.")
    enable_cudf_spill: bool = Field(True, description="Whether cuDF moves what it does not use from the GPU to the host's memory.")

    @model_validator(mode="before")
    @classmethod
    def _written_out(cls, value: Any) -> Any:
        return cluster_keys(value)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        running = given & {"address", "scheduler_file"}
        if self.kind == "scheduler":
            if len(running) != 1:
                raise ValueError("kind: scheduler needs one of address: tcp://HOST:PORT and scheduler_file: PATH")
            own = given & {"workers", "threads", "memory_limit", "rmm_pool_size", "device_memory_limit", "enable_cudf_spill"}
            if own:
                raise ValueError(f"{', '.join(sorted(own))}: a running cluster has its own; leave them out")
        elif running:
            raise ValueError(f"{', '.join(sorted(running))} is for kind: scheduler, and this is kind: {self.kind}")
        if self.kind == "local" and (gpu := given & {"rmm_pool_size", "device_memory_limit"}):
            raise ValueError(f"{', '.join(sorted(gpu))} is for kind: cuda, and this is kind: local")
        return self


class JobSettings(BaseModel):
    """What a job says beside its inputs, stages and outputs."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    name: Name = Field(alias="job", description="The job's name.")
    title: str | None = Field(None, description="A headline for the report.")
    description: str | None = Field(None, description="What the job is for.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of everything random: splits, samples, training.")
    backend: Literal["auto", "cpu", "gpu"] = Field("auto", description="auto takes the GPU where one is visible.")
    cluster: ClusterSpec = Field(
        default_factory=ClusterSpec, description="Where the job runs: a kind, the address of a running scheduler, or a mapping."
    )
    results: str = Field(
        default_factory=lambda data: f"results/{data.get('name', '')}",
        min_length=1,
        description="A folder or URL for what comes out; results/JOB where it is not given.",
    )
    report: bool = Field(True, description="Whether a report page is written.")
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
