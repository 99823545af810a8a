"""The random audit of a genome scan: some variants and the top hits of every part, tested again in another way. Not a stage.

How many are found off, and how far, is counted; `tables/audits` has the words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.kernels.audit import Again
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._sheet import Sheet
from pipeline.tables.audits import OFF, tally

VARIANTS = 500
"""Random variants of a scan."""
TOP = 2
"""Top hits of a part."""
_ONE_IN = 1000
_FEWEST = 4
_CHEAP = 20_000_000  # genotypes, that are decoded for the fewest

Test = Callable[[Any, Any, Any, str], Again]
"""genotype, covariates and trait `[n]`, NaN where missing, and the test that the row carries -> what it should say."""


@dataclass(frozen=True)
class Audit:
    """How a scan is audited: by which seed, and how many random variants of each part at most."""

    seed: int
    variants: int

    @staticmethod
    def of(seed: int, parts: int) -> Audit:
        """That of a scan of so many parts."""
        return Audit(seed, -(-VARIANTS // max(1, parts)))

    def chosen(self, rows: ScanRows, variants: int, people: int) -> NDArray[np.int64]:
        """Places of the variants to test again, of a block of so many: random ones, and those of the smallest p-values."""
        few = min(self.variants, max(variants // _ONE_IN, min(_FEWEST, _CHEAP // max(1, people * _FEWEST))), variants)
        random = np.random.default_rng([self.seed, variants, people]).choice(variants, few, replace=False)
        strength = np.nan_to_num(rows.numbers["neg_log_10_p_value"], nan=-1.0)
        top = rows.variant[np.argsort(-strength, kind="stable")[:TOP]]
        return np.unique(np.concatenate([random, top])).astype(np.int64)

    def counts(self, block: GenotypeBlock, sheet: Sheet, rows: ScanRows, tests: tuple[str, ...], again: Test) -> dict[str, int]:
        """How many results of a block were computed again, and how far off they were. `rows` are on the host."""
        traits, found = len(sheet.trait_names), dict[str, int]()
        places = rows.variant * traits + rows.trait
        chosen = self.chosen(rows, len(block), block.n_samples)
        genotypes = _on_host(block, chosen)
        for place, variant in enumerate(chosen):
            at = np.searchsorted(places, np.arange(traits) + variant * traits)
            known = [(trait, row) for trait, row in enumerate(at) if row < len(places) and places[row] == variant * traits + trait]
            if not known:
                continue
            genotype = genotypes.coded(slice(place, place + 1))[0]
            for trait, row in known:
                if rows.reason[row] != 0:
                    continue
                once = again(genotype, sheet.covariates, sheet.traits[:, trait], tests[rows.test[row]])
                if not np.isnan(once.beta):
                    tally(found, _apart(once, rows, row))
        return found


def _on_host(block: GenotypeBlock, variants: NDArray[np.int64]) -> GenotypeBlock:
    """Some of the variants in the host's memory: of a GPU's by one launch and one copy."""
    places = block.xp.asarray(variants)
    calls, dosages = (None if array is None else to_host(array[places]) for array in (block.calls, block.dosages))
    return replace(block, calls=calls, dosages=dosages)


def _apart(once: Again, rows: ScanRows, row: int) -> float:
    """By how much a row is off, in standard errors; other people are wholly off."""
    if once.n != rows.n[row]:
        return OFF
    values = [abs(rows.numbers[name][row] - getattr(once, name)) / once.standard_error for name in ("beta", "standard_error")]
    return float(np.nan_to_num(max(values), nan=OFF))
