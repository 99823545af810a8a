"""Calls and dosages of a .pgen, as pgenlib's reader gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.genotypes import packed_width

BLOCK_BYTES = 1 << 18  # of calls of a byte each: stays in a core's cache


def _is_range(index: NDArray[np.uint32], allele: NDArray[np.uint32]) -> bool:
    """Whether rows are the first ALT alleles of variants that follow one another."""
    return bool((allele == 1).all()) and int(index[-1]) - int(index[0]) + 1 == len(index)


def read_calls(reader: Any, index: NDArray[np.uint32], allele: NDArray[np.uint32], n_samples: int) -> NDArray[np.uint8]:
    """Packed calls, block by block: pgenlib's bytes are 0, 1, 2 or -9 (missing), whose two low bits are our code."""
    width = packed_width(n_samples)
    packed, step = np.empty((len(index), width), np.uint8), max(1, BLOCK_BYTES // (4 * width))
    bytes_ = np.zeros((step, 4 * width), np.int8)  # pgenlib leaves the padding as it is
    for at in range(0, len(index), step):
        some, which = index[at : at + step], allele[at : at + step]
        if _is_range(some, which):
            reader.read_range(int(some[0]), int(some[-1]) + 1, bytes_)
        else:
            for row, (variant, alt) in enumerate(zip(some.tolist(), which.tolist(), strict=True)):
                reader.read(variant, bytes_[row], alt)
        words = bytes_[: len(some)].view("<u4") & np.uint32(0x03030303)
        words |= words >> np.uint32(6)
        words |= words >> np.uint32(12)
        packed[at : at + step] = words
    return packed


def read_dosages(reader: Any, index: NDArray[np.uint32], allele: NDArray[np.uint32], n_samples: int) -> NDArray[np.float32]:
    """ALT dosages, hard calls where a variant has none; pgenlib's -9 is NaN."""
    dosages = np.empty((len(index), n_samples), np.float32)
    if len(index) and _is_range(index, allele):
        reader.read_dosages_range(int(index[0]), int(index[-1]) + 1, dosages)
    else:
        for row, (variant, alt) in enumerate(zip(index.tolist(), allele.tolist(), strict=True)):
            reader.read_dosages(variant, dosages[row], alt)
    dosages[dosages < 0] = np.nan
    return dosages
