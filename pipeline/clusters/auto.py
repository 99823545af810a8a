"""The cluster of a job that names none: GPUs where the backend is gpu, else this machine's cores."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.clusters.cuda import Cuda, CudaKeys
from pipeline.clusters.kind import ClusterKind
from pipeline.clusters.local import Local


class Auto(CudaKeys):
    """cuda where the backend is gpu, else local; keys that only the other one has are left aside."""

    rank: ClassVar[int] = 0

    kind: Literal["auto"] = Field("auto", description="cuda where the backend is gpu, else local.")

    def for_backend(self, backend: Backend) -> ClusterKind:
        """The cluster of GPUs or of cores, with its keys among those given."""
        meant = Cuda if backend == "gpu" else Local
        return meant.model_validate({name: value for name, value in self if name in meant.model_fields and name != "kind"})
