"""`cupy.cuda` and CuPy's memory pool, as far as they are asked for what the card is and how full it is."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from tests.standin import counts

NAME, CAPABILITY = "stand-in for an H200", (9, 0)


class Stream:
    """A stream, whose work is done when it is asked for."""

    ptr = 0

    def synchronize(self) -> None:
        """Wait for what was asked."""
        counts.waited()


class Event:
    """A mark in a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Mark now."""
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Wait for the mark."""
        counts.waited()


class Device:
    """A card."""

    def __init__(self, device: int | None = None) -> None:
        self.id = device or 0

    compute_capability = "{}{}".format(*CAPABILITY)

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return memory_info()

    def synchronize(self) -> None:
        """Wait for all streams."""
        counts.waited()

    def use(self) -> None:
        """Be the current device, as the only one is."""


def memory_info() -> tuple[int, int]:
    """Free and total bytes of the card."""
    return counts.held.capacity - counts.held.alive, counts.held.capacity


def memory_pool() -> SimpleNamespace:
    """CuPy's default pool."""
    return SimpleNamespace(
        free_all_blocks=lambda: None,
        used_bytes=lambda: counts.held.alive,
        total_bytes=lambda: counts.held.alive,
        free_bytes=lambda: 0,
        get_limit=lambda: 0,
        set_limit=lambda **_limit: None,
    )


def properties(_device: int) -> dict[str, Any]:
    """What the driver says of a card."""
    major, minor = CAPABILITY
    return {"name": NAME.encode(), "major": major, "minor": minor, "multiProcessorCount": 132, "totalGlobalMem": counts.held.capacity}


def cuda() -> SimpleNamespace:
    """`cupy.cuda`."""
    stream = Stream()
    runtime = SimpleNamespace(
        memGetInfo=memory_info,
        getDeviceCount=lambda: 1,
        getDeviceProperties=properties,
        runtimeGetVersion=lambda: 13000,
        driverGetVersion=lambda: 13000,
        deviceSynchronize=counts.waited,
    )
    return SimpleNamespace(
        Stream=SimpleNamespace(null=stream),
        Event=Event,
        Device=Device,
        runtime=runtime,
        get_current_stream=lambda: stream,
        set_allocator=lambda _allocator=None: None,
        get_elapsed_time=lambda start, end: 1000 * (end.at - start.at),
    )
