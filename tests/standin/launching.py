"""A launch of one of our own kernels on the stand-in: counted as one, and computed by the kernel's plain version."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.backend.launch import DeviceKernel
from tests.standin import counts
from tests.standin.array import Array


def launch(kernel: DeviceKernel, _grid: tuple[int, ...], arguments: list[Any]) -> None:
    """Run a kernel's plain version on the memory of its arrays. Raises TypeError for a host array, which has no address there."""
    for value in arguments:
        if not isinstance(value, (Array, np.generic)):
            raise TypeError(f"The kernel {kernel.name} was launched with a {type(value)}, which does not lie on the device")
    given = [value.host if isinstance(value, Array) else value for value in arguments]
    with np.errstate(all="ignore"):
        kernel.plain(*given)
    counts.launched(*(value for value in given if isinstance(value, np.ndarray)))
