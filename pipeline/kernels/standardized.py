"""Genotypes as numbers that a table a variant gives: standardized ones, indicators, and sums of them over variants.

Genotypes are packed calls, or dosages: what these stand for lies on the line through what no and one copy of ALT do, so a table must have
two copies on that line.
"""

from __future__ import annotations

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.kernels.device import counts as on_device
from pipeline.kernels.device.decode import decode
from pipeline.kernels.dosages import are_dosages
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, unpack, variant_blocks

_SMALL = 2_000
"""Samples up to which float64 is quick enough."""


def standard_values(frequency: Array) -> Array:
    """What the codes 0, 1, 2 and missing stand for, `float64[v, 4]`: (calls - 2f) / sqrt(2f(1 - f)), and 0 where missing.

    `frequency` of ALT is `float64[v]`, within 0 and 1 and neither of them.
    """
    xp = array_module(frequency)
    values = xp.arange(4) - 2 * frequency[:, None]
    values /= xp.sqrt(2 * frequency * (1 - frequency))[:, None]
    values[:, 3] = 0
    return values


def decoded(packed: Array, n_samples: int, values: Array) -> Array:
    """What each genotype stands for, of `values[v, 4]` (float32 or float64), of that type: `[v, n_samples]`.

    The answer may be a view whose rows are padded to a multiple of four samples. It is as large as it looks: give blocks of variants.
    """
    xp = array_module(packed)
    if are_dosages(packed):
        slope = values[:, 1:2] - values[:, :1]
        return xp.where(xp.isnan(packed), values[:, 3:], values[:, :1] + slope * packed.astype(values.dtype))
    if xp is not np:
        return decode(packed, n_samples, values)
    from pipeline.kernels.compiled.standardize import fill_values

    pairs = np.empty((len(packed), 2 * packed.shape[1]), np.complex64 if values.dtype == np.float32 else np.complex128)
    fill_values(np.ascontiguousarray(packed), np.ascontiguousarray(values), pairs)
    return pairs.view(values.dtype)[:, :n_samples]


def decoded_plainly(packed: Array, n_samples: int, values: Array) -> Array:
    """As `decoded`, by array functions alone."""
    xp = array_module(packed)
    codes = unpack(packed, n_samples)
    return xp.take_along_axis(values, codes.astype(xp.int64), axis=1)


def value_sums(packed: Array, n_samples: int, values: Array) -> Array:
    """Sums over the variants of what each sample's genotypes stand for, of `values: float64[v, 4]`: `float64[n_samples]`."""
    if are_dosages(packed):
        xp = array_module(packed)
        return sample_products(packed, n_samples, values, xp.ones((len(packed), 1)))[:, 0]
    if array_module(packed) is not np:
        return on_device.summed_values(packed, values)[:n_samples]
    from pipeline.kernels.compiled.standardize import add_values

    sums = np.zeros(4 * packed.shape[1])
    add_values(np.ascontiguousarray(packed), np.ascontiguousarray(values), sums)
    return sums[:n_samples]


def sample_products(packed: Array, n_samples: int, values: Array, vectors: Array) -> Array:
    """Z'V, `float64[n_samples, k]`, of the numbers Z that `values: float64[v, 4]` make of the genotypes and of `vectors: float64[v, k]`."""
    products = array_module(packed).zeros((n_samples, vectors.shape[1]))
    for rows in variant_blocks(len(packed), 8 * n_samples, block_bytes(packed, BLOCK_BYTES)):
        products += decoded(packed[rows], n_samples, values[rows]).T @ vectors[rows]
    return products


def variant_products(packed: Array, n_samples: int, values: Array, vectors: Array) -> Array:
    """ZV, `float64[v, k]`, of the numbers Z that `values: float64[v, 4]` make of the genotypes and of `vectors: float64[n_samples, k]`."""
    products = array_module(packed).empty((len(packed), vectors.shape[1]))
    for rows in variant_blocks(len(packed), 8 * n_samples, block_bytes(packed, BLOCK_BYTES)):
        products[rows] = decoded(packed[rows], n_samples, values[rows]) @ vectors
    return products


def single_rows(packed: Array, n_samples: int, block: int) -> int:
    """Variants, from the first on, that a processor multiplies in float32: whole blocks of `block`, of more than 2,000 samples.

    Over a whole block the rounding of float32 averages out. The rest, smaller cohorts, and everything on a GPU, where it costs no more, is
    multiplied in float64.
    """
    single = array_module(packed) is np and n_samples > _SMALL
    return len(packed) - len(packed) % block if single else 0
