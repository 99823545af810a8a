"""The seam between CPU and GPU: the only file that imports cudf, cudf_polars, cupy or rmm.

It chooses once a run: which engine collects a query, what holds arrays, which device XGBoost trains on. Inside a task the data decides
(`array_module`); no stage asks which backend it runs on. On a GPU nothing falls back to the CPU in silence: a query that cuDF cannot run
raises, and `refusals` says so before anything starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, cast

from pipeline.errors import PlaceError

# `translate` is the plan of a gpu run: empty frames on the CPU, after cuDF has been asked whether it would run the query.
Backend = Literal["cpu", "gpu", "translate"]


def cores() -> int:
    """Cores this process may use: the scheduler's mask and a container's quota counted in."""
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)


def limit_threads(threads: int | None = None) -> dict[str, str]:
    """Settings for one Polars pool and one BLAS thread a task in this process, made before those libraries load; what a user set stays.

    Returns them, so that worker processes can be given the same.
    """
    # XGBoost's threads wait for one another many times a second. Spinning, they stand still whenever something else takes a core: training
    # beside a second busy process took 43 s instead of 6, and waiting asleep costs a twentieth where all cores are free.
    blas = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    wanted = {"POLARS_MAX_THREADS": str(threads or cores()), "OMP_WAIT_POLICY": "PASSIVE", **blas}
    return {name: os.environ.setdefault(name, value) for name, value in wanted.items()}


_NUMPY_CAME_FIRST = "numpy" in sys.modules
limit_threads()


@contextmanager
def blas_limited() -> Iterator[None]:
    """Hold BLAS to the threads of `limit_threads` where NumPy was loaded before it could be told (in a notebook, say).

    Two tasks whose products each took all cores were half as fast as two of one thread.
    """
    if not _NUMPY_CAME_FIRST:
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), user_api="blas"):
        yield


if TYPE_CHECKING:
    import polars as pl


class UntranslatableError(ValueError):
    """A query that cuDF cannot run; the planner adds the line of the job file."""


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


def engine(backend: Backend) -> Any:
    """What `LazyFrame.collect(engine=...)` takes in a task: Polars' streaming engine, or cuDF on this task's GPU."""
    if backend != "gpu":
        return "streaming"
    import polars
    import rmm

    # With no resource named, cudf-polars takes four fifths of the GPU's memory for a managed pool of its own, beside CuPy and XGBoost.
    return polars.GPUEngine(executor="in-memory", raise_on_fail=True, memory_resource=rmm.mr.get_current_device_resource())


def collect(query: pl.LazyFrame, backend: Backend) -> pl.DataFrame:
    """Run a lazy query in this task. Raises UntranslatableError under `translate` where cuDF would refuse it."""
    if backend == "translate" and (refused := refusals(query)):
        raise UntranslatableError(f"cuDF cannot run this stage's query: {'; '.join(refused)}. Use backend: cpu, or write it another way.")
    return query.collect(engine=engine(backend))


def refusals(query: pl.LazyFrame) -> list[str]:
    """What cuDF cannot run of a query, found without a GPU; empty where it runs all of it."""
    import polars
    from cudf_polars import Translator

    node = cast("Any", query)._ldf.visit()
    translator = Translator(node, polars.GPUEngine(executor="in-memory", raise_on_fail=True))
    translator.translate_ir()
    return [str(error) for error in translator.errors]


def spread_engine(client: Any) -> Any:
    """cuDF's engine over all GPUs of a Dask cluster, on our own client; dask-cuda has bound the workers to their GPUs already."""
    from cudf_polars.engine.dask import DaskEngine
    from cudf_polars.engine.hardware_binding import HardwareBindingPolicy

    return DaskEngine(dask_client=client, engine_options={"hardware_binding": HardwareBindingPolicy(enabled=False), "raise_on_fail": True})


def collect_spread(query: pl.LazyFrame, engine: Any) -> pl.DataFrame:
    """Run a lazy query on all GPUs of `spread_engine`; the result comes to this process."""
    return query.collect(engine=engine)


def array_module(*arrays: Any) -> Any:
    """NumPy, or CuPy where any of the arrays lives on a GPU."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and any(isinstance(array, cupy.ndarray) for array in arrays):
        return cupy
    import numpy

    return numpy


def special_module(*arrays: Any) -> Any:
    """scipy.special, or CuPy's where any of the arrays lives on a GPU."""
    if array_module(*arrays).__name__ == "cupy":
        import cupyx.scipy.special as special
    else:
        import scipy.special as special
    return special


def to_device(array: Any, backend: Backend) -> Any:
    """The array where the backend wants it: NumPy on a CPU, CuPy on a GPU."""
    if backend != "gpu":
        return to_host(array)
    import cupy

    return cupy.asarray(array)


def to_host(array: Any) -> Any:
    """The array as NumPy."""
    return array if array_module(array).__name__ == "numpy" else array.get()


def xgboost_device(backend: Backend) -> str:
    """XGBoost's `device`: its own silent fall-back from cuda to the CPU is refused by `choose_backend`, which has seen a GPU."""
    return "cuda" if backend == "gpu" else "cpu"


def device_names() -> list[str]:
    """Names of the visible GPUs, by NVML; empty where there are none."""
    names = []
    for gpu in _visible_gpus():
        import pynvml

        handle = pynvml.nvmlDeviceGetHandleByIndex(int(gpu)) if gpu.isdecimal() else pynvml.nvmlDeviceGetHandleByUUID(gpu)
        names.append(str(pynvml.nvmlDeviceGetName(handle)))
    return names


def need_xgboost(*, several_workers: bool = False) -> None:
    """Raise PlaceError, with what to install, where xgboost (or the pandas that xgboost.dask imports) is not installed."""
    if find_spec("xgboost") is None:
        raise PlaceError("xgboost is not installed. Install it with: pip install '.[cpu]' (no GPU) or pip install '.[gpu]' (CUDA 13)")
    if several_workers and find_spec("pandas") is None:
        raise PlaceError(
            "workers: all needs pandas, which is not installed. Install it with: pip install pandas; or train with workers: one"
        )


def import_xgboost() -> Any:
    """The xgboost module. Raises PlaceError as `need_xgboost` does."""
    need_xgboost()
    with _hidden("sklearn") if lean_imports else nullcontext():
        import xgboost

    return xgboost


# Set by the command line: its process trains by XGBoost's native interface alone, and scikit-learn is four fifths of XGBoost's import.
lean_imports = False


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Have optional imports of a module fail, unless it is there already."""
    if module in sys.modules:
        yield
        return
    cast("dict[str, Any]", sys.modules)[module] = None
    try:
        yield
    finally:
        del sys.modules[module]
