"""The rest of a machine with a GPU: its NVML, its allocator, cuDF's engine, XGBoost's device and the launch of our own kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import polars as pl

from tests.standin import counts, frames, modules
from tests.standin.array import Array
from tests.standin.functions import device_of, host_of
from tests.standin.runtime import NAME


def memory_of(_handle: Any) -> SimpleNamespace:
    """NVML's view of the card's memory."""
    return SimpleNamespace(total=counts.held.capacity, free=counts.held.capacity - counts.held.alive, used=counts.held.alive)


NVML: dict[str, Any] = {
    "nvmlInit": lambda: None,
    "nvmlDeviceGetCount": lambda: 1,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
    "nvmlDeviceGetName": lambda _handle: NAME,
    "nvmlDeviceGetMemoryInfo": memory_of,
}
TAKEN_BY_XGBOOST = ("_proxy_transform", "dispatch_proxy_set_data", "dispatch_data_backend", "dispatch_meta_backend")


@contextmanager
def gpu() -> Iterator[Any]:
    """Be a machine with one GPU in the block, the stand-in's CuPy imported as `cupy`. Needs the RAPIDS packages."""
    import dask
    import distributed  # what it sets by default must be there before a setting is changed: to undo it would take all of it away
    import pynvml
    import rmm

    assert distributed.__version__

    with ExitStack() as stack:
        enter = stack.enter_context
        cupy = enter(modules.installed())
        enter(patch.multiple(pynvml, **NVML))
        enter(patch.object(rmm.mr, "get_current_device_resource", lambda: None))
        enter(patch.object(pl.LazyFrame, "collect", collected(pl.LazyFrame.collect)))
        enter(patch.dict("os.environ", {"CUDA_VISIBLE_DEVICES": "0"}))
        enter(dask.config.set({"distributed.diagnostics.nvml": False}))  # workers would ask NVML for more than there is
        enter(boosting_on_the_host())
        enter(frames.installed())
        yield cupy


def collected(collect: Callable[..., Any]) -> Callable[..., Any]:
    """Polars' `collect`, which on cuDF's engine shows the query to its translator first. Raises what the translator could not take."""

    def shown(query: pl.LazyFrame, *, engine: Any = "auto", **options: Any) -> Any:
        if isinstance(engine, pl.GPUEngine):
            frames.shown_to_cudf(query)
            found = collect(query, engine="streaming", **options)
            counts.counting.frames_fetched += int(found.estimated_size())
            return found
        return collect(query, engine=engine, **options)

    return shown


@contextmanager
def boosting_on_the_host() -> Iterator[None]:
    """XGBoost takes the stand-in's arrays, trains on the CPU and predicts where its data lie."""
    import xgboost

    def on_the_host(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            return function(*map(host_of, arguments), **{name: host_of(value) for name, value in keywords.items()})

        return call

    taken: dict[str, Any] = {name: on_the_host(getattr(xgboost.data, name)) for name in TAKEN_BY_XGBOOST}
    predict = xgboost.Booster.inplace_predict

    def inplace_predict(self: Any, data: Any, **keywords: Any) -> Any:
        found = predict(self, host_of(data), **keywords)
        return device_of(found) if isinstance(data, Array) else found

    set_real = xgboost.Booster.set_param

    def set_param(self: Any, params: Any, value: Any = None) -> None:
        pairs = [(params, value)] if isinstance(params, str) else params.items() if isinstance(params, Mapping) else params
        set_real(self, [(name, "cpu" if name == "device" else given) for name, given in pairs])

    with (
        patch.multiple(xgboost.data, **taken),
        patch.object(xgboost.Booster, "inplace_predict", inplace_predict),
        patch.object(xgboost.Booster, "set_param", set_param),
    ):
        yield
