"""The random audit of a genome scan: some variants and the top hits of every part, tested again in another way. Not a stage.

How many are found off, and how far, is counted; `tables/audits` has the words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.kernels.audit import Again, Genotype
from pipeline.kernels.genotype_block import CODES, GenotypeBlock
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._sheet import Sheet
from pipeline.tables.audits import OFF, TOLERANCE, tally

MOST = 500
"""Results of a scan that are computed again: half of them drawn, half the strongest of their part."""
_ONE_IN, _SHARED = 25_000, 5
"""Traits of a variant, and so many beside them, of which one is computed again: it takes some hundred times what a scan takes for a variant
of one trait, and each further trait a fifth of that."""
_FEWEST = 22  # of a scan that has fewer results than it takes for so many

Test = Callable[[Genotype, Sheet, int, str], Again]
"""A variant, the sheet and the place of its trait, and the test that the row carries -> what it should say."""


@dataclass(frozen=True)
class Audit:
    """How a scan of so many parts is audited: by which seed."""

    seed: int
    parts: float

    def of_share(self, share: float) -> Audit:
        """That of a share of a part, such as a chromosome's variants."""
        return replace(self, parts=self.parts / share if share else self.parts)

    def chosen(self, rows: ScanRows, variants: int, traits: int) -> NDArray[np.int64]:
        """Places of the rows of a block to compute again, ascending: half are drawn, half have the smallest p-values."""
        strength, results = np.nan_to_num(rows.numbers["neg_log_10_p_value"], nan=-1.0), len(rows.variant)
        random = np.random.default_rng([self.seed, variants, crc32(strength)])  # parts of one size draw each for itself
        share = min(max(variants * (traits + _SHARED) / _ONE_IN, _FEWEST / self.parts), max(1.0, MOST / self.parts), results)
        number = int(share + random.random())  # of a part that is too small for one now and then one
        strongest = int(number / 2 + random.random())
        top = np.argpartition(-strength, max(0, strongest - 1))[:strongest] if strongest else np.empty(0, np.int64)
        return np.unique(np.concatenate([random.choice(results, number - strongest, replace=False), top])).astype(np.int64)

    def counts(self, block: GenotypeBlock, sheet: Sheet, rows: ScanRows, tests: tuple[str, ...], again: Test) -> dict[str, int]:
        """How many results of a block were computed again, and how far off they were. `rows` are on the host."""
        found = dict[str, int]()
        chosen = self.chosen(rows, len(block), len(sheet.trait_names))
        chosen = chosen[rows.reason[chosen] == 0]
        variants, places = np.unique(rows.variant[chosen], return_inverse=True)
        genotypes = _on_host(block, variants) if len(variants) else block
        for place, row in zip(places.tolist(), chosen, strict=True):
            once = again(_genotype(genotypes.part(slice(place, place + 1))), sheet, int(rows.trait[row]), tests[rows.test[row]])
            apart = _apart(once, rows, row)
            if not np.isnan(once.beta) and not (apart > TOLERANCE and _several(once)):  # of several maxima there may be one more
                tally(found, apart)
        return found


def _genotype(one: GenotypeBlock) -> Genotype:
    """That of a block of one variant; decoded once where what counts are copies of ALT."""
    counted, additive = one.coded(slice(1))[0], CODES["additive"]
    return Genotype(counted, counted if one.codes == additive else replace(one, codes=additive).coded(slice(1))[0])


def _on_host(block: GenotypeBlock, variants: NDArray[np.int64]) -> GenotypeBlock:
    """Some of the variants in the host's memory: of a GPU's by one launch and one copy."""
    places = block.xp.asarray(variants)
    calls, dosages = (None if array is None else to_host(array[places]) for array in (block.calls, block.dosages))
    return replace(block, calls=calls, dosages=dosages)


def _several(once: Again) -> bool:
    """Whether the likelihood has maxima apart from one another."""
    return any(abs(one.beta - once.beta) > TOLERANCE * once.standard_error for one in once.others)


def _apart(once: Again, rows: ScanRows, row: int) -> float:
    """By how much a row is off, in standard errors, from the maximum that is nearest; other people are wholly off."""
    if once.n != rows.n[row]:
        return OFF
    own = np.array([rows.numbers[name][row] for name in ("beta", "standard_error")])
    maxima = np.array([(one.beta, one.standard_error) for one in (once, *once.others)])
    return float(np.nan_to_num((abs(own - maxima) / maxima[:, 1:]).max(axis=1), nan=OFF).min())
