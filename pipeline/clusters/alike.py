"""What all processes of a cluster must have alike, so that no result depends on who computed which part: asked before the first task.

Dask itself tells versions, also of a worker without this project. A worker that joins later looks by itself, before it runs a task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from uuid import uuid4

from pipeline.backend.devices import Backend, gpu_count
from pipeline.clusters.encryption import is_encrypted, is_here
from pipeline.errors import PlaceError

CODE, PYTHON = "this project's code", "python"
OF_DASK = (PYTHON, "dask", "distributed")  # a scheduler needs no more
LIBRARIES = ("gpu-table-pipeline", "polars", "numpy", "scipy", "numba", "pyarrow", "xgboost", "xgboost-cpu")
# Who has not these fails by name with the stage that wants them.
OPTIONAL = ("jax", "flax", "optax", "scikit-learn", "statsmodels", "cudf-polars-cu13", "cupy-cuda13x", "rmm-cu13")
GROUPS = ("pipeline.stages", "pipeline.formats", "pipeline.findings", "pipeline.clusters")
STRANGE = "too old, or missing,"
PATIENCE_S = 2.0
SUFFIXES = (".py", ".ptx")
REMEDY = "Install the same there (this project, and all that it pins) and start it again."

Versions = Mapping[str, str | None]


@cache
def code_fingerprint() -> str:
    """A digest of this project's files.

    Once a process: a worker that was started before its files changed has the old ones loaded, and says so.
    """
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(file for file in root.rglob("*") if file.suffix in SUFFIXES):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def packages() -> list[str]:
    """The distributions to ask for: libraries that results come from, and those whose stages and formats are found here."""
    added = {entry.dist.name for group in GROUPS for entry in entry_points(group=group) if entry.dist is not None}
    return list(dict.fromkeys([*LIBRARIES, *OPTIONAL, *sorted(added)]))


def versions_of(told: Mapping[str, Any], asked: list[str], code: str | None = None) -> dict[str, str | None]:
    """What a process has of what was asked for, of what Dask tells; Python by its minor version, XGBoost by either of its names."""
    python, had = ".".join(told["host"]["python"].split(".")[:2]), told["packages"]
    found = {PYTHON: python, CODE: code} | {name: had.get(name) for name in (*OF_DASK[1:], *asked)}
    found["xgboost"] = found.pop("xgboost-cpu", None) or found.get("xgboost")
    return found


def differences(here: Versions, there: Versions, backend: Backend) -> str:
    """What another process has otherwise, in words; '' where nothing is, or where only one of them has what not all need."""
    spared = {name for name in OPTIONAL if backend != "gpu" or not name.endswith(("cu13", "cuda13x"))}
    pairs = [(name, there[name], mine) for name, mine in here.items() if name in there]
    wrong = [pair for pair in pairs if pair[1] != pair[2] and not (pair[0] in spared and None in pair)]
    return ", ".join(f"{name} {found or 'missing'} (here {mine or 'none'})" for name, found, mine in wrong)


class Alike:
    """A worker plugin: a worker that joins looks whether it is like the others, and leaves where it is not."""

    def __init__(self, here: Versions, asked: list[str], backend: Backend, client: str, encrypted: bool) -> None:
        self.here, self.asked, self.backend, self.client, self.encrypted = dict(here), asked, backend, client, encrypted
        self.name = f"pipeline-alike-{uuid4().hex}"

    async def setup(self, worker: Any) -> None:
        """Called by Dask on each worker as it joins, before it takes tasks. What a killed run left behind refuses nobody."""
        from distributed.versions import get_versions

        there = versions_of(get_versions(self.asked), self.asked, code_fingerprint())
        why = differences(self.here, there, self.backend) or no_gpu(self.backend)
        why = why or (in_plain_text(worker.address, worker.scheduler.address) if self.encrypted else "")
        if why and await _is_there(worker, self.client):
            worker.log_event(self.name, f"the worker at {worker.address}, which joined later, was refused: {why}")
            await worker.close(reason="it is not like the other workers of a run", executor_wait=False)


def no_gpu(backend: Backend) -> str:
    """Why a worker cannot take part in a run on GPUs; '' where it can. XGBoost would train there on the CPU in silence."""
    return "it shows no NVIDIA GPU" if backend == "gpu" and gpu_count() == 0 else ""


def in_plain_text(worker: str, scheduler: str) -> str:
    """Asked on a worker: why it cannot take part where all is to be encrypted beyond one machine; '' where it can."""
    if is_encrypted(worker) or is_here(scheduler):
        return ""
    return "it talks in plain text from another machine. Start scheduler and workers with TLS; or, in a trusted network, say insecure: true"


@contextmanager
def all_alike(client: Any, backend: Backend, tell: Callable[[str], None], *, encrypted: bool = True) -> Iterator[None]:
    """Raise PlaceError, in one line, where a worker or the scheduler differs from this process, or has no GPU for a run on GPUs.

    A worker that joins while the block lasts leaves if it does, and where it is on another machine and not `encrypted` as it should be.
    `tell` hears of those.
    """
    from distributed import WorkerPlugin

    asked = packages()
    told = client.get_versions(packages=asked)
    here = versions_of(told["client"], asked)
    scheduler = versions_of(told["scheduler"], asked)
    _refuse("scheduler", here, {client.scheduler.address: {name: scheduler[name] for name in OF_DASK}}, backend)
    _refuse("worker", here, {address: versions_of(found, asked) for address, found in told["workers"].items()}, backend)
    here[CODE] = code_fingerprint()
    codes = client.run(code_fingerprint, on_error="return")
    _refuse("worker", here, {address: {CODE: code if isinstance(code, str) else STRANGE} for address, code in codes.items()}, backend)
    _need_gpus(client, backend)
    watch = type(Alike.__name__, (Alike, WorkerPlugin), {})(here, asked, backend, client.id, encrypted)
    client.subscribe_topic(watch.name, lambda event: tell(event[1]))
    client.register_plugin(watch)
    try:
        yield
    finally:
        with suppress(OSError):  # a cluster that is lost, or a worker that is stuck: what is left behind refuses nobody without this client
            if client.status == "running":
                client.sync(client._unregister_worker_plugin, watch.name, callback_timeout=PATIENCE_S)


def _refuse(who: str, here: Versions, theirs: Mapping[str, Versions], backend: Backend) -> None:
    """Raise PlaceError of the first that differs, and say how many do."""
    found = {address: why for address, there in sorted(theirs.items()) if (why := differences(here, there, backend))}
    for address, why in found.items():
        others = f"; so do {len(found) - 1} more" if len(found) > 1 else ""
        raise PlaceError(f"cluster: the {who} at {address} differs from this machine: {why}{others}. {REMEDY}")


def _need_gpus(client: Any, backend: Backend) -> None:
    """Raise PlaceError where a worker of a run on GPUs shows none."""
    without = sorted(address for address, why in client.run(no_gpu, backend).items() if why)
    if without:
        raise PlaceError(
            f"backend gpu: the worker at {without[0]} shows no NVIDIA GPU ({len(without)} such workers). Start workers on machines "
            "with GPUs (dask cuda worker), or use backend: cpu."
        )


async def _is_there(worker: Any, client: str) -> bool:
    """Whether a client is still connected, asked of the scheduler, which may be without this project: a lambda goes there as it is."""
    from distributed.protocol.pickle import dumps

    ask = dumps(lambda name, dask_scheduler: name in dask_scheduler.clients)
    told = await worker.scheduler.run_function(function=ask, args=dumps((client,)), kwargs=dumps({}))
    return bool(told["result"])
