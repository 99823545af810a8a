"""The workers that a GPU cluster would start, with NVML mocked: nothing is started, and no GPU is needed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.backend.devices import device_names, gpu_count
from pipeline.backend.threads import cores
from pipeline.clusters.auto import Auto
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.cuda import Cuda, cluster_class, cuda_options
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler
from pipeline.errors import PlaceError

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
GPU_BYTES = 24 << 30


def mock_nvml(monkeypatch: pytest.MonkeyPatch, gpus: int, visible: str | None = None) -> None:
    """NVML as it answers on a machine with so many GPUs of 24 GiB."""
    import dask_cuda.utils
    import pynvml

    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: gpus,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetName": lambda handle: f"GPU {handle}",
        "nvmlDeviceGetMemoryInfo": lambda _handle: SimpleNamespace(total=GPU_BYTES, free=GPU_BYTES, used=0),
        "nvmlDeviceGetCpuAffinity": lambda _handle, words: [3] + [0] * (words - 1),
        "nvmlDeviceGetMigMode": lambda _handle: [0, 0],
    }
    for name, answer in answers.items():
        assert callable(getattr(pynvml, name))
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(dask_cuda.utils, "get_gpu_count", lambda: gpus)  # it remembers the first answer
    monkeypatch.setattr(dask_cuda.utils, "get_cpu_affinity", lambda _index=None: [0, 1])
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)


def unstarted(options: dict[str, Any]) -> Any:
    """A LocalCUDACluster as it stands before it starts anything: its scheduler_spec and worker_spec."""

    def nothing(_self: Any, *_: Any, **__: Any) -> None:
        """In the place of starting workers."""

    async def build() -> Any:
        return type("Unstarted", (cluster_class(),), {"sync": nothing, "_correct_state": nothing})(**options, asynchronous=True)

    return asyncio.run(build())


def plugins(worker: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {type(plugin).__name__: vars(plugin) for plugin in worker["options"]["plugins"]}


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(("gpus", "protocol"), [(1, "tcp"), (4, "ucx")])
def test_one_worker_a_gpu__as_was_meant(gpus: int, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mock_nvml(monkeypatch, gpus)
    assert gpu_count() == gpus
    cluster = unstarted(cuda_options(Cuda(), gpu_count()))
    scheduler, workers = cluster.scheduler_spec["options"], cluster.worker_spec
    assert scheduler["protocol"].removesuffix("://") == protocol
    assert (scheduler["host"], scheduler["dashboard_address"]) == ("127.0.0.1", "127.0.0.1:0")
    assert len(workers) == gpus
    visible = [worker["options"]["env"]["CUDA_VISIBLE_DEVICES"] for worker in workers.values()]
    assert visible == [",".join(str((first + i) % gpus) for i in range(gpus)) for first in range(gpus)]
    for worker in workers.values():
        options, added = worker["options"], plugins(worker)
        assert options["nthreads"] == max(1, cores() // gpus) + 1, "its share of the cores reads and writes beside the GPU's task"
        assert (options["host"], options["dashboard_address"]) == ("127.0.0.1", "127.0.0.1:0")
        assert options["protocol"].removesuffix("://") == protocol
        assert options["memory_limit"] > 0
        assert options["data"][1]["device_memory_limit"] == int(0.8 * GPU_BYTES)
        assert options["preload"] == ["dask_cuda.initialize"]
        assert added["RMMSetup"]["async_alloc"] is False, "the allocator is that of backend.allocator, as on every other kind"
        assert added["RMMSetup"]["initial_pool_size"] is None
        assert added["RMMSetup"]["external_lib_list"] is None
        assert "CUDFSetup" not in added, "it imports cudf, which takes seconds and serves no query"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_memory_of_a_worker__is_what_the_job_says(monkeypatch: pytest.MonkeyPatch) -> None:
    mock_nvml(monkeypatch, 1)
    given = {"rmm_pool_size": "8GB", "threads": 6, "memory_limit": "2GB", "device_memory_limit": 0.5, "dashboard": False}
    cluster = unstarted(cuda_options(Cuda.model_validate(given), 1))
    (worker,) = cluster.worker_spec.values()
    added = plugins(worker)
    assert cluster.scheduler_spec["options"]["dashboard"] is False
    assert worker["options"]["memory_limit"] == 2_000_000_000
    assert worker["options"]["nthreads"] == 6 + 1
    assert worker["options"]["data"][1]["device_memory_limit"] == GPU_BYTES // 2
    assert (added["RMMSetup"]["async_alloc"], added["RMMSetup"]["initial_pool_size"]) == (False, "8GB")


@pytest.mark.parametrize(
    ("visible", "names"), [("2", ["GPU 2"]), ("3,1", ["GPU 3", "GPU 1"]), ("", []), ("-1", []), ("GPU-ab", ["GPU GPU-ab"])]
)
def test_gpus__are_those_that_cuda_visible_devices_lets_through(visible: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mock_nvml(monkeypatch, 4, visible)
    assert gpu_count() == len(names)
    assert device_names() == names


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_workers__are_as_many_as_gpus_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    mock_nvml(monkeypatch, 4, "3,1")
    cluster = unstarted(cuda_options(Cuda(), gpu_count()))
    visible = {worker["options"]["env"]["CUDA_VISIBLE_DEVICES"] for worker in cluster.worker_spec.values()}
    assert visible == {"3,1", "1,3"}


def test_more_workers_than_gpus__are_refused() -> None:
    with pytest.raises(PlaceError, match=r"2 workers are asked for and this machine shows 1 GPUs\. One worker a GPU is the most"):
        cuda_options(Cuda(workers=2), 1)


def test_protocol__is_the_jobs_where_it_says_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda_options(Cuda(protocol="ucx"), 1)["protocol"] == "ucx"
    assert cuda_options(Cuda(protocol="tcp"), 4)["protocol"] == "tcp"
    monkeypatch.setattr("pipeline.clusters.cuda.find_spec", lambda _name: None)
    assert cuda_options(Cuda(), 4)["protocol"] == "tcp"


def test_auto__is_gpu_workers_where_the_backend_is_gpu() -> None:
    assert Auto().for_backend("gpu") == Cuda()
    assert Auto().for_backend("cpu") == Local()


def test_a_cluster_of_gpus__is_refused_where_none_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    mock_nvml(monkeypatch, 0)
    with pytest.raises(PlaceError, match="cluster cuda: this machine shows no NVIDIA GPU"), open_cluster(Cuda(), "gpu"):
        pass


def test_a_scheduler_whose_worker_has_no_gpu__is_refused_for_backend_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("pipeline.backend.devices._visible_gpus", list)
    options = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "protocol": "tcp"}
    with LocalCluster(processes=False, n_workers=1, threads_per_worker=1, **options) as running:
        spec = Scheduler(address=running.scheduler_address)
        with open_cluster(spec, "cpu") as cluster:
            assert cluster.workers == 1
        with pytest.raises(PlaceError, match=r"the worker at tcp://127\.0\.0\.1:\d+ shows no NVIDIA GPU"), open_cluster(spec, "gpu"):
            pass


def test_a_cluster_of_gpus__is_opened_with_its_options_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    given: dict[str, Any] = {}
    shared: list[str] = []

    def started(**options: Any) -> Any:
        given.update(options)
        return LocalCluster(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0")

    mock_nvml(monkeypatch, 1)
    monkeypatch.setattr("pipeline.clusters.cuda.cluster_class", lambda: started)
    monkeypatch.setattr("pipeline.clusters.workers.share_memory", lambda: shared.append("shared"))
    with open_cluster(Cuda(dashboard=False), "gpu") as cluster:
        assert (cluster.kind, cluster.workers, cluster.dashboard) == ("cuda", 1, None)
        client = cluster.client
    assert given == cuda_options(Cuda(dashboard=False), 1)
    assert shared == ["shared"]
    assert client.status == "closed"


UNCUDF = """
import sys

import pipeline.api, pipeline.clusters.cuda, pipeline.tables.wire
from pipeline.backend.engines import refusals
import polars, rmm, cupy, dask_cuda, dask_cuda.plugins, dask_cuda.initialize, dask_cuda.device_host_file, xgboost
from dask_cuda.is_device_object import is_device_object
from dask_cuda.is_spillable_object import is_spillable_object
from pipeline.tables.part import Part

pipeline.tables.wire.register_with_dask()
pipeline.clusters.cuda.cluster_class()
frame = polars.DataFrame({"x": [1]})
assert refusals(frame.lazy().select(polars.col("x") + 1)) == []
assert not is_device_object(Part(frame)) and not is_spillable_object(Part(frame))
print(sorted(name for name in ("cudf", "dask_cudf") if name in sys.modules))
"""


def test_no_process_of_a_gpu_run__imports_cudf() -> None:
    run = subprocess.run([sys.executable, "-W", "error", "-c", UNCUDF], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "[]\n"), run.stderr[-2000:]
