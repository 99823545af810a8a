"""Genotypes whose missing ones are the mean of the people who are used: what they count, as numbers, and their products with columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.kernels.dosages import dosage_sums
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import MISSING, Array, call_counts
from pipeline.kernels.standardized import decoded
from pipeline.kernels.whole_columns import Columns, products_of_calls


@dataclass(frozen=True)
class MeanGenotypes:
    """Genotypes of v variants and n people, and what they count among those who are used."""

    block: GenotypeBlock
    means: Array
    """`float64[v]`."""
    called: Array
    """`int64[v]`: who has a genotype."""
    squares: Array
    """`float64[v]`: sum of squares."""
    spread: Array
    """`float64[v]`: the same about the mean."""
    carriers: Array
    """`int64[v]`: who has a count above 0."""

    @property
    def varies(self) -> Array:
        """Which variants vary, `bool[v]`: of dosages, which are printed to a few digits, by more than rounding."""
        return self.spread > 1e-12 * self.squares

    @classmethod
    def of(cls, block: GenotypeBlock, mask: Array, used: Array) -> MeanGenotypes:
        """Of a block, and the people who are used, as a packed mask and as `bool[n]`."""
        xp, n, one, two = block.xp, int(used.sum()), *block.codes
        if block.dosages is None:
            counts = call_counts(block.calls & mask, block.n_samples)
            called = counts[:, :3].sum(axis=1) - (block.n_samples - n)
            total = one * counts[:, 1] + two * counts[:, 2]
            mean, missing = total / xp.maximum(called, 1), counts[:, MISSING]
            squares = one**2 * counts[:, 1] + two**2 * counts[:, 2]
            carriers = (one > 0) * counts[:, 1] + (two > 0) * counts[:, 2] + (mean > 0) * missing
            return cls(block, mean, called, squares + missing * mean**2, squares - total * mean, carriers)
        if xp is np and block.is_linear:
            sums = dosage_sums(block.dosages, used)
            total, mean, missing = one * sums.copies, one * sums.copies / np.maximum(sums.called, 1), n - sums.called
            squares = one**2 * sums.squares
            carriers = ((block.dosages > 0) & used).sum(axis=1) + (mean > 0) * missing
            return cls(block, mean, sums.called, squares + missing * mean**2, squares - total * mean, carriers)
        values = block.coded(slice(None))
        there = used & ~xp.isnan(values)
        called = there.sum(axis=1)
        mean = xp.where(there, values, 0).sum(axis=1) / xp.maximum(called, 1)
        of_used = xp.where(used, xp.where(there, values, mean[:, None]), 0)
        spread = (xp.where(used, of_used - mean[:, None], 0) ** 2).sum(axis=1)
        return cls(block, mean, called, (of_used**2).sum(axis=1), spread, (of_used > 0).sum(axis=1))

    def dense(self, block: GenotypeBlock | None = None, rows: Array | slice = slice(None)) -> Array:
        """The genotypes of some variants as numbers, `float64[rows, n]`; those of a `block` of other people where it is given."""
        block, means = block or self.block, self.means[rows]
        xp, (one, two) = block.xp, block.codes
        if block.dosages is None:
            values = xp.stack([xp.zeros(len(means)), xp.full(len(means), one), xp.full(len(means), two), means], axis=1)
            return decoded(block.calls[rows], block.n_samples, values)
        values = block.coded(rows)
        return xp.where(xp.isnan(values), means[:, None], values)

    def products(self, *asked: Columns) -> list[Array]:
        """Sums over people of their genotypes, to a power, times columns: `float64[v, c]` for each that is asked.

        Packed calls in a CPU's memory are looked up, and not decoded.
        """
        if self.block.compiled:
            return products_of_calls(self.block.calls, self.block.codes, self.means, asked)
        dense = self.dense()
        return [(dense if columns.power == 1 else dense**columns.power) @ columns.values for columns in asked]
