"""CUDA kernels of our own: their source in the simulator, what they take, and the PTX that is shipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.backend import launch as seam
from pipeline.backend.launch import DeviceKernel
from pipeline.kernels.device.counts import variant_counts
from pipeline.testing.device import device_kernels, digest

ROOT = Path(__file__).parents[2]
ALL = np.empty(0, np.uint8)


@pytest.mark.process
def test_the_sources__agree_with_their_plain_versions_in_the_simulator() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "tests/simulated"]
    run = subprocess.run(command, cwd=ROOT, env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
    assert re.search(r"^\d+ passed in", run.stdout, re.MULTILINE), f"some were skipped: {run.stdout[-1000:]}"


@pytest.mark.parametrize("kernel", device_kernels(), ids=lambda kernel: kernel.name)
def test_the_shipped_ptx__was_made_from_this_source(kernel: DeviceKernel) -> None:
    assert kernel.ptx.read_text().split("\n", 1)[0] == f"// {digest(kernel)}", "run make ptx"
    assert f".visible .entry {kernel.name}(" in kernel.ptx.read_text()


def test_every_kernel__is_run_in_the_simulator() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests" / "simulated").glob("test_*.py"))
    modules = {name: value for name, value in sys.modules.items() if name.startswith("pipeline.kernels.device.")}
    names = {name for module in modules.values() for name, value in vars(module).items() if isinstance(value, DeviceKernel)}
    assert names
    assert not [name for name in sorted(names) if not re.search(rf"simulated\(\s*{name},", tests)]


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (np.zeros((3, 2), np.int8), "takes uint8 of 2 axes in C order, not int8 of 2 axes"),
        (np.zeros(3, np.uint8), "not uint8 of 1 axes"),
        (np.zeros((3, 4), np.uint8)[:, ::2], "not uint8 of 2 axes in another order"),
    ],
)
def test_an_array_of_another_kind__is_refused_before_the_launch(packed: np.ndarray, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        variant_counts(3, packed, ALL, 8, np.zeros((3, 4), np.int64))


def test_a_launch__passes_arrays_in_order_and_none_for_no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []
    monkeypatch.setattr(seam, "launch", lambda kernel, grid, arguments: launched.append((kernel.name, grid, len(arguments))))
    variant_counts(0, np.zeros((0, 2), np.uint8), ALL, 8, np.zeros((0, 4), np.int64))
    variant_counts(3, np.zeros((3, 2), np.uint8), ALL, 8, np.zeros((3, 4), np.int64))
    assert launched == [("count_variants", (3,), 4)]


def test_types__that_no_kernel_takes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'float64\[::2\]' is no type that kernels take"):
        DeviceKernel(print, "float64[::2]", print)(1, np.zeros(1))
