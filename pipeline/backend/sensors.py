"""The power sensors of this machine: NVML for the GPUs that this process may use, RAPL for its processors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.backend.devices import gpu_handles

POWERCAP = Path("/sys/class/powercap")
MICRO = 1e-6


class SensorError(Exception):
    """Why a sensor says nothing, in words that follow `not measured: `."""


@dataclass(frozen=True)
class GpuLook:
    """What a GPU said: its power in watts, the bytes of its memory in use, and the share of the last moments that it was busy."""

    watts: float
    bytes: int
    busy: float


class Gpus:
    """The sensors of this machine's visible GPUs."""

    def __init__(self) -> None:
        """Raise SensorError where no GPU shows, or one does not tell its power."""
        self.handles: Sequence[Any] = gpu_handles()
        if not self.handles:
            raise SensorError("this machine shows no NVIDIA GPU")
        self.read()

    def read(self) -> tuple[GpuLook, ...]:
        """One look at every GPU. Raises SensorError where NVML fails."""
        import pynvml

        try:
            return tuple(_look(pynvml, handle) for handle in self.handles)
        except pynvml.NVMLError as error:
            raise SensorError(f"NVML does not tell the power of a GPU ({error})") from error


def _look(nvml: Any, handle: Any) -> GpuLook:
    busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    return GpuLook(nvml.nvmlDeviceGetPowerUsage(handle) / 1000, int(nvml.nvmlDeviceGetMemoryInfo(handle).used), busy)


class Rapl:
    """The energy counters of the processors' packages, as Linux shows them."""

    def __init__(self) -> None:
        """Raise SensorError where there are none, or where they may not be read (by default only root may)."""
        folder = POWERCAP
        self.counters = [place / "energy_uj" for place in sorted(folder.glob("*-rapl:*")) if place.name.count(":") == 1]
        if not self.counters:
            raise SensorError(f"{folder} has no energy counter of a processor")
        self.last = [_number(counter) for counter in self.counters]
        self.ranges = [_number(counter.with_name("max_energy_range_uj")) for counter in self.counters]
        self.joules = 0.0

    def read(self) -> float:
        """Joules of all packages since this reader was made; a counter that began again at 0 is counted on."""
        now = [_number(counter) for counter in self.counters]
        steps = zip(now, self.last, self.ranges, strict=True)
        self.joules += MICRO * sum(new - old if new >= old else new - old + span for new, old, span in steps)
        self.last = now
        return self.joules


def _number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except PermissionError as error:
        raise SensorError(f"{file} may be read by root alone") from error
    except (OSError, ValueError) as error:
        raise SensorError(f"{file} cannot be read ({error})") from error
