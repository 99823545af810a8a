"""Sensors that were never there: a module in the place of pynvml and a folder in the place of /sys/class/powercap."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pipeline.backend import devices, sensors

RANGE = 262_143_328_850


class NVMLError(Exception):
    """As pynvml has it."""


def fake_gpus(monkeypatch: pytest.MonkeyPatch, milliwatts: Iterable[Any], gpus: int = 1) -> None:
    """So many GPUs, whose powers are said one after the other, the last for ever; an NVMLError among them is raised."""
    said, last = iter(milliwatts), list[Any]([0])

    def power(_handle: Any) -> Any:
        last[0] = next(said, last[0])
        if isinstance(last[0], NVMLError):
            raise last[0]
        return last[0]

    module = ModuleType("pynvml")
    vars(module).update(
        NVMLError=NVMLError,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: f"GPU {handle}",
        nvmlDeviceGetPowerUsage=power,
        nvmlDeviceGetMemoryInfo=lambda _handle: SimpleNamespace(used=3 << 30),
        nvmlDeviceGetUtilizationRates=lambda _handle: SimpleNamespace(gpu=50),
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(devices, "_visible_gpus", lambda: [str(index) for index in range(gpus)])


def fake_powercap(monkeypatch: pytest.MonkeyPatch, folder: Path, packages: int = 2) -> list[Path]:
    """Packages with a part each, which is no package of its own; the counters of the packages, all at 1,000 J."""
    counters = []
    for package in range(packages):
        for place in (folder / f"intel-rapl:{package}", folder / f"intel-rapl:{package}:0"):
            place.mkdir(parents=True)
            (place / "energy_uj").write_text("1000000000\n", encoding="ascii")
            (place / "max_energy_range_uj").write_text(f"{RANGE}\n", encoding="ascii")
        counters.append(folder / f"intel-rapl:{package}" / "energy_uj")
    monkeypatch.setattr(sensors, "POWERCAP", folder)
    return counters


def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that shows none."""
    monkeypatch.setattr(devices, "_visible_gpus", list)


def growing(counter: Path, monkeypatch: pytest.MonkeyPatch, watts: float) -> None:
    """A counter that grows with the clock."""
    first, read = time.time(), Path.read_text

    def text(path: Path, *given: Any, **options: Any) -> str:
        return f"{int((time.time() - first) * watts * 1e6)}\n" if path == counter else read(path, *given, **options)

    monkeypatch.setattr(Path, "read_text", text)


def cycled(*milliwatts: int) -> Iterable[int]:
    """The same powers over and over."""
    return itertools.cycle(milliwatts)
