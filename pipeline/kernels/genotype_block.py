"""Genotypes of a block of variants as a scan counts them: packed calls or dosages, and what one and two copies of ALT are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.dosages import dosage_sums
from pipeline.kernels.genotypes import MISSING, Array, call_counts, unpack

Coding = Literal["additive", "dominant", "recessive"]

CODES: dict[Coding, tuple[float, float]] = {"additive": (1.0, 2.0), "dominant": (1.0, 1.0), "recessive": (0.0, 1.0)}
"""What one and two copies of ALT count (PLINK's definitions, for ALT)."""

HAPLOID = (0.5, 1.0)
"""What they count with one copy (Y, MT, a haploid genome): two that are written are one, a heterozygous call is half (PLINK 2)."""


@dataclass(frozen=True)
class GenotypeBlock:
    """Genotypes of v variants: packed `calls: uint8[v, ceil(n / 4)]`, or `dosages: float32[v, n]` of ALT from 0 to 2, NaN missing.

    No copy of ALT counts 0, one and two count `codes`; a dosage between them lies on the line between.
    """

    calls: Array
    """None where there are dosages."""
    dosages: Array
    """None where there are calls alone."""
    n_samples: int
    codes: tuple[float, float] = CODES["additive"]

    @property
    def array(self) -> Array:
        """The dosages where there are some, else the calls."""
        return self.calls if self.dosages is None else self.dosages

    @property
    def xp(self) -> Any:
        """The module of its arrays, numpy or cupy."""
        return array_module(self.array)

    @property
    def compiled(self) -> bool:
        """Whether compiled kernels take it: packed calls in a CPU's memory."""
        return self.dosages is None and self.xp is np

    @property
    def is_linear(self) -> bool:
        """Whether two copies count twice what one counts."""
        return self.codes[1] == 2 * self.codes[0]

    def __len__(self) -> int:
        return len(self.array)

    def part(self, rows: slice) -> GenotypeBlock:
        """Some of the variants."""
        calls, dosages = (None if array is None else array[rows] for array in (self.calls, self.dosages))
        return replace(self, calls=calls, dosages=dosages)

    def coded(self, rows: slice | Array) -> Array:
        """What the genotypes of some of the variants count, `float64[rows, n]`, NaN where missing."""
        xp = self.xp
        if self.dosages is None:
            return unpack(self.calls[rows], self.n_samples, xp.float64, float("nan"), self.codes)
        one, two = self.codes
        dosages = self.dosages[rows].astype(xp.float64)
        if self.is_linear:
            return dosages if one == 1 else one * dosages
        return one * xp.minimum(dosages, 1) + (two - one) * xp.maximum(dosages - 1, 0)

    def alleles(self, mask: Array) -> tuple[Array, Array]:
        """Copies of ALT among the people of a packed mask, and how many of them are called: `float64[v]` each."""
        xp = self.xp
        mask = xp.asarray(mask)
        people = unpack(mask[None, :], self.n_samples)[0] == MISSING
        if self.dosages is None:
            counts = call_counts(self.calls & mask, self.n_samples)
            uncounted = self.n_samples - int(people.sum())
            return counts[:, 1] + 2.0 * counts[:, 2], counts[:, :3].sum(axis=1) - float(uncounted)
        if xp is np:
            sums = dosage_sums(self.dosages, people)
            return sums.copies, sums.called.astype(float)
        dosages = self.dosages[:, people]
        called = ~xp.isnan(dosages)
        return xp.where(called, dosages, 0).sum(axis=1, dtype=xp.float64), called.sum(axis=1, dtype=xp.float64)
