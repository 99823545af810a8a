"""CUDA kernels of our own compile for the cards of three generations, within the registers and the shared memory of a block."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pipeline.backend.launch import DeviceKernel
from pipeline.testing.device import compiled_ptx, device_kernels, shipped_ptx

pytestmark = pytest.mark.contract

REGISTERS = 65_536
"""Of a multiprocessor: a block of n threads must leave room for a second one."""
SHARED_BYTES = 48 << 10
"""What a block may have without asking."""


def assembled(ptx: str, capability: tuple[int, int], folder: Path) -> dict[str, int]:
    """Registers a thread, bytes of shared memory and of spilled registers of a kernel, as NVIDIA's assembler says."""
    import nvidia

    assembler = next(path for root in nvidia.__path__ for path in Path(root).glob("cu13/bin/ptxas"))
    (folder / "kernel.ptx").write_text(ptx)
    command = [str(assembler), "-v", f"-arch=sm_{capability[0]}{capability[1]}", "kernel.ptx", "-o", "kernel.cubin"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stderr
    patterns = {"registers": r"Used (\d+) registers", "shared": r"(\d+) bytes smem", "spilled": r"(\d+) bytes spill stores"}
    found = {name: re.search(pattern, said) for name, pattern in patterns.items()}
    return {name: int(match[1]) if match else 0 for name, match in found.items()}


older, newer = (pytest.param(capability, marks=pytest.mark.soak) for capability in [(8, 0), (10, 0)])


@pytest.mark.parametrize("capability", [older, (9, 0), newer], ids=lambda capability: f"sm_{capability[0]}{capability[1]}")
@pytest.mark.parametrize("kernel", device_kernels(), ids=lambda kernel: kernel.name)
def test_a_kernel__compiles_within_the_limits_of_a_block(kernel: DeviceKernel, capability: tuple[int, int], tmp_path: Path) -> None:
    for ptx in (compiled_ptx(kernel, capability), kernel.ptx.read_text()):
        used = assembled(ptx, capability, tmp_path)
        assert 0 < used["registers"] * kernel.threads <= REGISTERS // 2
        assert used["shared"] <= SHARED_BYTES
        assert used["spilled"] == 0


@pytest.mark.parametrize("kernel", device_kernels(), ids=lambda kernel: kernel.name)
def test_the_shipped_ptx__is_what_the_compiler_writes(kernel: DeviceKernel) -> None:
    assert kernel.ptx.read_text() == shipped_ptx(kernel), "run make ptx"
