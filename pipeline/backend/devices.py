"""Which GPUs this process may use, and which backend a run takes."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, Literal

from pipeline.errors import PlaceError

# `translate` is the plan of a gpu run: empty frames on the CPU, after cuDF has been asked whether it would run the query.
Backend = Literal["cpu", "gpu", "translate"]
# Where a run on GPUs has its tables between queries.
Frames = Literal["host", "device"]


def gpu_count() -> int:
    """GPUs that this process may use, by NVML and without a CUDA context; 0 where there is no driver or no pynvml."""
    return len(_visible_gpus())


def _visible_gpus() -> list[str]:
    """Number or UUID of every GPU of the machine that CUDA_VISIBLE_DEVICES, where it is set, lets through."""
    if find_spec("pynvml") is None:
        return []
    import pynvml

    try:
        pynvml.nvmlInit()
        every = [str(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None or not every:
        return every
    return [name for name in map(str.strip, listed.split(",")) if name in every or (name and not name.lstrip("-").isdecimal())]


def choose_backend(wanted: Literal["auto", "cpu", "gpu"], *, workers_elsewhere: bool = False) -> Backend:
    """The backend of a run. `auto` takes the GPU where one is visible and RAPIDS is installed.

    Raises PlaceError for `gpu` on a machine with no GPU (unless the workers are on other machines) or without the RAPIDS packages.
    """
    visible = gpu_count() > 0
    installed = find_spec("cudf_polars") is not None
    if wanted == "gpu":
        if not installed:
            raise PlaceError("backend gpu: the RAPIDS packages are not installed here. Install them with: pip install '.[gpu]'")
        if not visible and not workers_elsewhere:
            raise PlaceError(
                "backend gpu: this machine shows no NVIDIA GPU. Use backend: cpu, or cluster: a scheduler whose workers have GPUs."
            )
        return "gpu"
    return "gpu" if wanted == "auto" and visible and installed and not workers_elsewhere else "cpu"


def gpu_handles() -> list[Any]:
    """NVML's handles of the visible GPUs; empty where there are none."""
    found = []
    for gpu in _visible_gpus():
        import pynvml

        found.append(pynvml.nvmlDeviceGetHandleByIndex(int(gpu)) if gpu.isdecimal() else pynvml.nvmlDeviceGetHandleByUUID(gpu))
    return found


def device_names() -> list[str]:
    """Names of the visible GPUs, by NVML; empty where there are none."""
    names = []
    for handle in gpu_handles():
        import pynvml

        names.append(str(pynvml.nvmlDeviceGetName(handle)))
    return names
