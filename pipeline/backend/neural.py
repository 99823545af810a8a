"""JAX: what it needs, the devices that it runs on, and one program of it at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from threading import Lock
from typing import Any

from pipeline.backend.devices import Backend
from pipeline.errors import InputError, PlaceError

LIBRARIES = ("jax", "flax", "optax", "safetensors")
HOST_DEVICES = 8
"""Devices that a CPU shows to JAX as, from its start on: they share the cores."""
JOINING_S = 3_600  # a process may wait for others whose workers have other tasks before
# Collectives of several devices wait in the threads that all programs of a process share: two at once can wait for one another for good.
_ONE_PROGRAM = Lock()
_START = Lock()


def need_neural() -> None:
    """Raise PlaceError, with what to install, where a library of networks is not installed."""
    if lacking := [name for name in LIBRARIES if find_spec(name) is None]:
        raise PlaceError(f"{lacking[0]} is not installed. Install it with: pip install '.[neural]'")


def arrays_of(content: bytes) -> dict[str, Any]:
    """The arrays of a safetensors file, by name. Raises InputError for other bytes."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found: dict[str, Any] = load(content)
    except SafetensorError as error:
        raise InputError(f"this is no safetensors file ({error}). Give the file of a run, as it was published.") from error
    return found


def file_of(arrays: dict[str, Any]) -> bytes:
    """Arrays as a safetensors file, the same bytes for the same arrays."""
    from safetensors.numpy import save

    content: bytes = save(arrays)
    return content


def neural_devices(backend: Backend, count: int = 1) -> list[Any]:
    """So many of JAX's devices: GPUs on a GPU, else devices that share this machine's cores.

    The first call in a process starts JAX. Raises PlaceError where JAX sees no GPU that it should, or fewer devices.
    """
    need_neural()
    import jax

    platform = "gpu" if backend == "gpu" else "cpu"
    with _START:
        _prepare(platform, count)
        try:
            found: list[Any] = jax.local_devices(backend=platform)
        except RuntimeError as error:
            raise PlaceError(f"JAX sees no GPU here ({error}). Install it with: pip install 'jax[cuda13]'; or use backend: cpu") from error
    if len(found) < count:
        more = (
            "Ask for fewer." if platform == "gpu" else f"Start Python anew with XLA_FLAGS=--xla_force_host_platform_device_count={count}."
        )
        raise PlaceError(f"{count} devices are asked for, and JAX, which has started in this process, sees {len(found)}. {more}")
    return found[:count]


def join_processes(backend: Backend, address: str, place: tuple[int, int], devices: int) -> list[Any]:
    """Become one of several processes that run the same programs together, before JAX has started here; gives the devices of all.

    `address` is where the first one listens, `place` the process's own number and how many there are, `devices` how many each has.
    """
    need_neural()
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    _prepare("gpu" if backend == "gpu" else "cpu", devices)
    number, count = place
    jax.distributed.initialize(
        address,
        count,
        number,
        cluster_detection_method="deactivate",
        coordinator_bind_address=address,
        initialization_timeout=JOINING_S,
    )
    own = [[device for device in jax.devices() if device.process_index == process][:devices] for process in range(count)]
    if fewest := next((found for found in own if len(found) < devices), None):
        raise PlaceError(f"{devices} devices are asked for of each worker, and JAX sees {len(fewest)}. Ask for fewer.")
    return [device for found in own for device in found]


def leave_processes() -> None:
    """Leave them, when all have come as far."""
    import jax

    jax.distributed.shutdown()


def _prepare(platform: str, count: int) -> None:
    """Say what JAX reads when it starts; what a user set stays."""
    import jax

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes three quarters of the GPU that others work on too
    if platform == "cpu" and "JAX_PLATFORMS" not in os.environ:
        jax.config.update("jax_platforms", "cpu")
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):  # JAX has started already, and sees what it sees
            jax.config.update("jax_num_cpu_devices", max(count, HOST_DEVICES))


def run_program(program: Callable[..., Any], *arguments: Any) -> Any:
    """What a compiled program of several devices gives, waited for; no other such program of this process runs meanwhile."""
    import jax

    with _ONE_PROGRAM:
        return jax.block_until_ready(program(*arguments))


def run_single(program: Callable[..., Any], *arguments: Any) -> Any:
    """What a compiled program of one device gives, waited for. Several may run at once: they wait for nothing but for the cores."""
    import jax

    return jax.block_until_ready(program(*arguments))
