"""Mendelian errors of trios: children whose calls cannot come of their parents' (PLINK 1.9's --mendel; Purcell et al. 2007).

A parent without a call may have given either allele. On X a son has his mother's allele and is not looked at where he is called
heterozygous; a daughter, or a child of unknown sex, has one of each, her father's called heterozygous being none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotypes import BLOCK_BYTES, MISSING, Array, variant_blocks

ANY, DAUGHTER, SON = range(3)
"""What a trio's calls are held against: on autosomes, and on X of a daughter and of a son."""
_GIVES = {0: {0}, 1: {0, 1}, 2: {1}, MISSING: {0, 1}}  # alleles that a parent with so many ALT may have given


class MendelSums(NamedTuple):
    """Errors, and calls of all three, `int64[t]` of trios and `int64[v]` of variants; those of trios of blocks add up."""

    errors_of_trios: Array
    called_of_trios: Array
    errors_of_variants: Array
    called_of_variants: Array


def _is_error(kind: int, father: int, mother: int, child: int) -> bool:
    if child == MISSING or (kind == SON and child == 1):
        return False
    if kind == SON:
        return child // 2 not in _GIVES[mother]
    given = _GIVES[MISSING if kind == DAUGHTER and father == 1 else father]
    return child not in {one + other for one in given for other in _GIVES[mother]}


ERRORS = np.array(
    [[_is_error(kind, place // 16, place // 4 % 4, place % 4) for place in range(64)] for kind in (ANY, DAUGHTER, SON)], np.uint8
)
"""Whether calls of father, mother and child, 16, 4 and 1 a code, cannot be: `uint8[3, 64]`."""


def mendel_sums(packed: Array, trios: Array, kinds: Array) -> MendelSums:
    """Errors of packed calls `uint8[v, w]` in `trios: int[t, 3]`, the places of father, mother and child, of `kinds: int[t]`."""
    xp, trios = array_module(packed), np.asarray(trios)
    table, own = xp.asarray(ERRORS.reshape(-1)), xp.asarray(64 * np.asarray(kinds, np.int64))
    of_trios, of_variants = xp.zeros((2, len(trios)), xp.int64), xp.zeros((2, len(packed)), xp.int64)
    bytes_of = [(xp.asarray(trios[:, who] // 4), xp.asarray((2 * (trios[:, who] % 4)).astype(np.uint8))) for who in range(3)]
    for rows in variant_blocks(len(packed), 32 * max(1, len(trios)), block_bytes(packed, BLOCK_BYTES)):
        father, mother, child = ((xp.take(packed[rows], at, axis=1) >> shift) & 3 for at, shift in bytes_of)
        wrong = table[own + (16 * father + 4 * mother + child)] > 0
        called = (father != MISSING) & (mother != MISSING) & (child != MISSING)
        of_trios += xp.stack([wrong.sum(axis=0), called.sum(axis=0)])
        of_variants[:, rows] = xp.stack([wrong.sum(axis=1), called.sum(axis=1)])
    return MendelSums(of_trios[0], of_trios[1], of_variants[0], of_variants[1])
