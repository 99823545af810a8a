"""The cluster of this machine's GPUs, one worker a GPU: with backend/ the only file that imports GPU libraries, dask_cuda alone."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pipeline.backend.devices import Backend, gpu_count
from pipeline.clusters.encryption import check_tls, encryption_required, refuse_ucx
from pipeline.clusters.kind import ClusterKind, Size
from pipeline.clusters.on_this_machine import HOST, OwnWorkers, client_of, interrupts_held, nanny_class, tasks_at_once
from pipeline.clusters.scaling import Scaling
from pipeline.errors import PlaceError

DeviceShare = Annotated[float, Field(gt=0, le=1)]


class CudaKeys(OwnWorkers):
    """The keys of a cluster of GPUs."""

    protocol: Literal["auto", "tcp", "ucx"] = Field("auto", description="auto: UCX between several GPUs where it is installed, else TCP.")
    rmm_pool_size: Size | DeviceShare | None = Field(
        None, description="GPU memory to take at once, as a size or a share; taken as it is needed where not given."
    )
    device_memory_limit: Size | DeviceShare | None = Field(None, description="GPU memory of a worker beyond which it spills to the host.")


class Cuda(CudaKeys, ClusterKind):
    """This machine's GPUs: one worker process a GPU."""

    rank: ClassVar[int] = 2

    kind: Literal["cuda"] = Field("cuda", description="This machine's GPUs.")

    def check(self) -> None:
        """Raise PlaceError where no GPU shows, dask-cuda is not installed, or more workers are asked for than there are GPUs."""
        if gpu_count() == 0:
            raise PlaceError("cluster cuda: this machine shows no NVIDIA GPU. Use cluster: local, or a scheduler whose workers have GPUs.")
        if find_spec("dask_cuda") is None:
            raise PlaceError("cluster cuda: dask-cuda is not installed here. Install it with: pip install '.[gpu]'")
        check_tls(self.kind, self.tls)
        cuda_options(self, gpu_count())

    def open(self, backend: Backend) -> AbstractContextManager[Any]:
        """A client of workers that are started here and closed at the end."""
        with interrupts_held():
            return client_of(cluster_class()(**cuda_options(self, gpu_count())), dashboard=self.dashboard)


def cluster_class() -> Any:
    """dask-cuda's LocalCUDACluster, whose workers do not import cudf: queries go without it, and it takes seconds of every process."""
    from dask_cuda import LocalCUDACluster
    from dask_cuda.plugins import CUDFSetup

    def new_worker_spec(cluster: Any) -> dict[Any, Any]:
        """The specification of one more worker."""
        spec: dict[Any, Any] = LocalCUDACluster.new_worker_spec(cluster)
        for worker in spec.values():
            worker["cls"], options = nanny_class(), worker["options"]
            options["plugins"] = {plugin for plugin in options["plugins"] if not isinstance(plugin, CUDFSetup)}
        return spec

    return type("OwnCudaCluster", (LocalCUDACluster,), {"new_worker_spec": new_worker_spec})


def cuda_options(spec: Cuda, gpus: int) -> dict[str, Any]:
    """What LocalCUDACluster is called with: one worker a GPU, UCX between several GPUs where it is installed.

    With no pool asked for, the workers' allocator is that of `backend.allocator`.
    """
    if isinstance(spec.workers, Scaling):
        raise PlaceError(
            "cluster cuda: workers are the GPUs, and as many as are given: workers: 2. A minimum and a maximum are for others."
        )
    workers = spec.workers or gpus
    if workers > gpus:
        raise PlaceError(f"cluster cuda: {workers} workers are asked for and this machine shows {gpus} GPUs. One worker a GPU is the most.")
    if spec.protocol == "ucx":
        refuse_ucx(spec.kind, encrypted=spec.tls is not None)
    encrypted, several = spec.tls is not None or encryption_required(), workers > 1 and find_spec("distributed_ucxx") is not None
    ucx = spec.protocol == "ucx" or (spec.protocol == "auto" and several and not encrypted)
    return {
        **spec.common_options(),
        **spec.encrypted_by(),
        **({"rmm_pool_size": spec.rmm_pool_size} if spec.rmm_pool_size else {}),
        "n_workers": workers,
        "threads_per_worker": tasks_at_once(spec.threads, workers, "gpu"),
        "protocol": "ucx" if ucx else "tls" if encrypted else "tcp",
        "device_memory_limit": spec.device_memory_limit or "default",
        "host": HOST,
    }
