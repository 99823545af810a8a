"""Philox's uniform numbers on the device, a thread each pair: what `pipeline.kernels.philox` computes word by word over all paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel, blocks_for
from pipeline.kernels.philox import uniforms_plain

if TYPE_CHECKING:
    from numba import cuda


def write_uniforms(paths: Any, draw: int, stream: int, first: int, second: int, found: Any) -> None:
    """A thread takes a draw of a path."""
    place = cuda.grid(1)
    if place >= found.shape[1] * paths.shape[0]:
        return
    row, at = place // paths.shape[0], place % paths.shape[0]
    low, shift, cut = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(12)
    one, other = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    a, b = np.uint64(first), np.uint64(second)
    c0, c1, c2, c3 = paths[at] & low, paths[at] >> shift, np.uint64(draw + row), np.uint64(stream)
    for _ in range(10):
        left, right = c0 * one, c2 * other
        c0, c1, c2, c3 = (right >> shift) ^ c1 ^ a, right & low, (left >> shift) ^ c3 ^ b, left & low
        a, b = (a + np.uint64(0x9E3779B9)) & low, (b + np.uint64(0xBB67AE85)) & low
    found[0, row, at] = (float(((c0 << shift) | c1) >> cut) + 0.5) * 2.0**-52
    found[1, row, at] = (float(((c2 << shift) | c3) >> cut) + 0.5) * 2.0**-52


def _write_uniforms(paths: Any, draw: int, stream: int, first: int, second: int, found: Any) -> None:
    found[:] = uniforms_plain(paths, range(draw, draw + found.shape[1]), stream, (first, second))


uniforms_written = DeviceKernel(write_uniforms, "uint64[::1] int64 int64 int64 int64 float64[:,:,::1]", _write_uniforms)
"""Write the uniform numbers `float64[2, d, n]` of d draws from one on, of a stream and a key's two words, of paths `uint64[n]`."""


def device_uniforms(paths: Any, draws: range, stream: int, key: tuple[int, int]) -> Any:
    """What `uniforms_of` gives."""
    xp = array_module(paths)
    found = xp.empty((2, len(draws), len(paths)))
    blocks = blocks_for(len(draws) * len(paths), uniforms_written.threads)
    uniforms_written(blocks, paths, draws.start, stream, *key, found)
    return found
