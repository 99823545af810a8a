"""Workers as jobs of Slurm, by dask-jobqueue: a job a worker, submitted from here, where the scheduler runs, and cancelled at the end."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.threads import worker_environment
from pipeline.clusters.encryption import in_files
from pipeline.clusters.frozen import OWN_LIMIT
from pipeline.clusters.kind import Size
from pipeline.clusters.on_other_machines import COMPRESSED, OtherMachines
from pipeline.clusters.on_this_machine import HOST, QUIET, tasks_at_once
from pipeline.clusters.scaling import at_first
from pipeline.errors import PlaceError

PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+~-]+")  # what a shell reads as one word
CHECKED = ("kind", "memory_limit")


class Slurm(OtherMachines):
    """Jobs of Slurm: a worker each, submitted and cancelled by this process."""

    rank: ClassVar[int] = 5
    extra: ClassVar[tuple[str, str]] = ("dask_jobqueue", "slurm")

    kind: Literal["slurm"] = Field("slurm", description="Jobs of Slurm.")
    threads: int = Field(ge=1, le=10_000, description="Threads of each worker, which are the cores of its job.")
    memory_limit: Size = Field(description="Memory of each worker and of its job, such as 8GB; beyond it parts spill to disk.")
    interface: str = Field(min_length=1, description="Network interface by which nodes and this machine reach one another, such as ib0.")
    queue: str | None = Field(None, min_length=1, description="Partition that jobs go to.")
    account: str | None = Field(None, min_length=1, description="Account that jobs count for.")
    walltime: str | None = Field(None, min_length=1, description="How long a job may last, such as 02:00:00; 30 minutes where not given.")
    job_extra_directives: list[str] = Field(default_factory=list, description="More of sbatch's options, such as --gres=gpu:1.")
    job_script_prologue: list[str] = Field(default_factory=list, description="Lines of shell before the worker, such as module load cuda.")
    python: str | None = Field(None, min_length=1, description="Python of the nodes, with this project; this one's path where not given.")
    local_directory: str | None = Field(None, min_length=1, description="Folder of a node for what spills.")
    shared_temp_directory: str | None = Field(
        None, min_length=1, description="Folder that nodes see, too, for certificates made for the run; the working folder where not given."
    )
    log_directory: str | None = Field(None, min_length=1, description="Folder for what jobs print.")

    def commands(self) -> list[str]:
        """Lines of shell, and what a shell would read as more than one word of the job's script."""
        texts = {
            key: [value] if isinstance(value, str) else value for key, value in self if isinstance(value, str | list) and key not in CHECKED
        }
        odd = [key for key, values in texts.items() if not all(PLAIN.fullmatch(value) for value in values)]
        return sorted({*odd, *(["job_script_prologue"] if self.job_script_prologue else [])})

    def check(self) -> None:
        """Raise PlaceError where dask-jobqueue or Slurm's commands are missing here, or certificates that are asked for."""
        super().check()
        if shutil.which("sbatch") is None:
            raise PlaceError("cluster slurm: sbatch is not found on this machine. Run where jobs are submitted from, a login node.")

    @contextmanager
    def open(self, backend: Backend) -> Iterator[Any]:
        """A client of workers whose jobs have begun; they are cancelled at the end."""
        workers, folder = at_first(self.workers), str(Path(self.shared_temp_directory or "").absolute())
        with (
            in_files(self.security(), folder) as security,
            self.joined(partial(self._started, workers, backend, security), workers) as client,
        ):
            yield client

    def _started(self, workers: int, backend: Backend, security: Any) -> Any:
        from dask_jobqueue import SLURMCluster

        cluster = SLURMCluster(**self.options(backend), job_cls=job_class(), security=security, silence_logs=QUIET)
        for _ in range(workers):
            cluster.worker_spec.update(cluster.new_worker_spec())
        try:
            cluster.sync(cluster._correct_state)
        except BaseException:
            cluster.close()
            raise
        return cluster

    def options(self, backend: Backend) -> dict[str, Any]:
        """What dask-jobqueue's SLURMCluster is called with; of what is None it takes Dask's settings."""
        named = ("queue", "account", "walltime", "interface", "python", "local_directory", "log_directory")
        exports = [f"export {name}={value}" for name, value in (COMPRESSED | worker_environment(self.threads)).items()]
        return {
            **{name: getattr(self, name) for name in named},
            "cores": tasks_at_once(self.threads, 1, backend),
            "job_cpu": self.threads,
            "processes": 1,
            "memory": self.memory_limit,
            "job_extra_directives": self.job_extra_directives,
            "job_script_prologue": [*exports, *self.job_script_prologue],
            "worker_extra_args": ["--dashboard-address", f"{HOST}:0"],
            "scheduler_options": {
                "dashboard": self.dashboard,
                "dashboard_address": f"{HOST}:0",
                "port": 0,
                "interface": self.interface,
                **OWN_LIMIT,
            },
        }

    def dashboard_of(self, client: Any, port: int) -> str:
        """It listens here, where the scheduler is."""
        return f"http://{HOST}:{port}/status"

    def why_none(self) -> str:
        """Where to look when workers do not come."""
        return "Do the jobs wait (squeue), or fail (log_directory)? Wait longer (wait_s), or ask for fewer workers."


def job_class() -> type:
    """dask-jobqueue's job, which says that it is closed once it is: closing a cluster whose jobs were refused would fail at them."""
    from dask_jobqueue.slurm import SLURMJob
    from distributed import Status

    async def close(job: Any) -> None:
        """Cancel the job."""
        await SLURMJob.close(job)
        job.status = Status.closed

    return type("OwnJob", (SLURMJob,), {"close": close})
