"""The memory of a GPU: one asynchronous allocator a process, which cuDF and CuPy share and which gives back what nobody uses."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

# The share of a GPU's memory that the allocator keeps at hand once it is free. Beyond it memory goes back, to XGBoost for one, which has
# an allocator of its own; RMM itself would keep all.
KEPT_SHARE = 0.5
ALIGNMENT = 256


def share_memory() -> None:
    """Have one asynchronous allocator of RMM serve the queries (cuDF) and the arrays (CuPy) of this process.

    An allocator that somebody has set before (a pool of dask-cuda's, say) stays. Called again, it changes nothing.
    """
    import cupy
    import rmm
    from rmm.allocators.cupy import rmm_cupy_allocator

    if (
        type(rmm.mr.get_current_device_resource()) is rmm.mr.CudaMemoryResource
    ):  # what RMM begins with: each allocation a call of the driver
        _, total = rmm.mr.available_device_memory()
        kept = int(KEPT_SHARE * total) // ALIGNMENT * ALIGNMENT
        rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource(release_threshold=kept))
    cupy.cuda.set_allocator(rmm_cupy_allocator)  # CuPy has a pool of its own, of which cuDF could have nothing back


def count_on_device(kind: type, lies_there: Callable[[Any], bool]) -> None:
    """Have dask-cuda count values of a type against its device limit, and spill them from the GPU beyond it, where they lie on one.

    It would take what it does not know for the host's. Without dask-cuda there is no such limit, and nothing is done.
    """
    if find_spec("dask_cuda") is not None:
        from dask_cuda.is_device_object import is_device_object

        is_device_object.register(kind, lies_there)
