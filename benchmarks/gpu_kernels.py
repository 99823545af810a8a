"""The kernels that benchmarks/gpu.py times and whose launches have budgets, each as a function of arrays where they are to be computed.

Needs NumPy and SciPy, and CuPy for arrays on a GPU: no frames, no tasks, and no compiled code but that which the CPU's side runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array, alt_frequency, call_counts, packed_width, sample_counts, take_samples
from pipeline.kernels.hardy_weinberg import hwe_exact
from pipeline.kernels.kinship import near, sample_bits
from pipeline.kernels.linear_regression import Missing, associate
from pipeline.kernels.linkage import Samples, haplotype_r_squared
from pipeline.kernels.linkage_pruning import PruneRule, prune
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_scan import associate_binary
from pipeline.kernels.p_values import t_test_p_values
from pipeline.kernels.randomized_pca import relationship_product
from pipeline.kernels.relationship import grm, grm_sums, principal_components, shared_variants
from pipeline.kernels.scores import call_scores
from pipeline.kernels.standardized import decoded, standard_values

ALL_PAIRS = 500  # people
SEED = 20261121
COVARIATES = 10
VECTORS = 16
"""Of a pass of randomized principal components."""
DISTINCT = 4096
"""Variants that are drawn."""
RULE = PruneRule(200, 50, 0.2, by_position=False)


def many(variants: int, samples: int, xp: Any) -> Array:
    """Simulated calls of many variants, drawn anew for some thousands and repeated where they lie."""
    drawn = xp.asarray(simulated(min(variants, DISTINCT), samples))
    return drawn if variants <= DISTINCT else xp.tile(drawn, (-(-variants // DISTINCT), 1))[:variants]


def simulated(variants: int, samples: int) -> np.ndarray[Any, Any]:
    """Packed calls of unrelated people, `uint8[variants, width]`, drawn as bytes: 6 % heterozygous, 6 % homozygous ALT, 0.4 % missing."""
    width, rng = packed_width(samples), np.random.default_rng(SEED)
    drawn = (np.frombuffer(rng.bytes(variants * width), np.uint8).reshape(variants, width) for _ in range(4))
    calls: np.ndarray[Any, Any] = np.bitwise_and.reduce(list(drawn))
    if samples % 4:
        calls[:, -1] &= (1 << 2 * (samples % 4)) - 1
    return calls


@dataclass(frozen=True)
class Work:
    """A kernel with its arguments in place."""

    run: Callable[[], Any]
    moved: int = 0
    """Bytes of memory that it cannot do without: calls read once, results written once."""
    flops: int = 0
    """Of the products that it cannot do without."""
    scales: bool = True
    """Whether its time grows with variants, which may be divided among cores."""


class Cohort:
    """Calls and what is known of their people, all where the calls lie; what a kernel does not need is not made."""

    def __init__(self, calls: Array, samples: int, designs: dict[int, Design] | None = None) -> None:
        self.calls, self.samples = calls, samples
        self.designs = {} if designs is None else designs
        """By the number of traits; several cohorts of the same people may share them."""
        self.xp = array_module(calls)
        self.rng = np.random.default_rng(SEED)
        self.variants, self.read = len(calls), int(calls.nbytes)

    @cached_property
    def counts(self) -> Array:
        """`int64[v, 4]`."""
        return call_counts(self.calls, self.samples)

    @cached_property
    def frequency(self) -> Array:
        """Of ALT, `float64[v]`; all vary."""
        return self.xp.clip(alt_frequency(self.counts), 1e-6, 1 - 1e-6)

    @cached_property
    def relationships(self) -> Array:
        """`float64[n, n]`."""
        sums = grm_sums(self.calls, self.samples, self.frequency)
        return grm(sums, shared_variants(sums))

    @cached_property
    def binary(self) -> LogisticDesign:
        """Of one trait of cases and controls."""
        drawn = self.rng.random((self.samples, COVARIATES + 1)) - 0.5
        ill = (drawn[:, 1:3].sum(axis=1) + drawn[:, 0] > 0).astype(np.float64)
        return LogisticDesign.build(drawn[:, 1:], ill[:, None]).beside(self.calls)

    def design(self, traits: int) -> Design:
        """Of so many traits, residuals of one set of covariates."""
        if traits not in self.designs:
            drawn = np.random.default_rng(traits).random((self.samples, COVARIATES + traits)) - 0.5
            self.designs[traits] = Design.build(drawn[:, :COVARIATES], drawn[:, COVARIATES:])
        return self.designs[traits].beside(self.calls)

    def numbers(self, *shape: int) -> Array:
        """Numbers from -0.5 to 0.5."""
        return self.xp.asarray(self.rng.random(shape) - 0.5)


def per_variant(cohort: Cohort) -> Work:
    """Counts of every variant's calls."""
    return Work(lambda: call_counts(cohort.calls, cohort.samples), cohort.read + 32 * cohort.variants)


def per_sample(cohort: Cohort) -> Work:
    """Counts of every person's calls."""
    return Work(lambda: sample_counts(cohort.calls, cohort.samples), cohort.read + 32 * cohort.samples)


def taken(cohort: Cohort) -> Work:
    """The calls of every other person."""
    half = cohort.xp.arange(0, cohort.samples, 2)
    return Work(lambda: take_samples(cohort.calls, cohort.samples, half), cohort.read + cohort.read // 2)


def hardy_weinberg(cohort: Cohort) -> Work:
    """The exact test of every variant's counts."""
    counts = cohort.counts
    return Work(lambda: hwe_exact(*counts.T[:3]), 32 * cohort.variants)


def linear(traits: int, missing: Missing = "complete_case") -> Callable[[Cohort], Work]:
    """Regressions of so many traits on every variant."""

    def made(cohort: Cohort) -> Work:
        block, v = GenotypeBlock(cohort.calls, None, cohort.samples), cohort.variants
        run = partial(associate, block, cohort.design(traits), missing)
        return Work(run, cohort.read + 25 * v * traits, 2 * v * cohort.samples * (COVARIATES + traits))

    return made


def logistic(cohort: Cohort) -> Work:
    """Score tests of every variant, and Firth's regression of those below 0.05."""
    block, design = GenotypeBlock(cohort.calls, None, cohort.samples), cohort.binary
    return Work(lambda: associate_binary(block, design, 0, "firth_fallback", 0.05), cohort.read)


def tails(cohort: Cohort) -> Work:
    """P-values of Student's t."""
    statistics, df = cohort.numbers(cohort.variants, 1) * 20, np.float64(cohort.samples - COVARIATES - 2)
    return Work(lambda: t_test_p_values(statistics, df), 24 * cohort.variants)


def standardized(cohort: Cohort) -> Work:
    """Calls as numbers of mean 0 and variance 1."""
    values = standard_values(cohort.frequency)
    return Work(lambda: decoded(cohort.calls, cohort.samples, values), cohort.read + 8 * cohort.samples * cohort.variants)


def components(cohort: Cohort) -> Work:
    """A pass of randomized principal components over the variants."""
    frequency, vectors = cohort.frequency, cohort.numbers(cohort.samples, VECTORS)
    run = partial(relationship_product, cohort.calls, cohort.samples, frequency, vectors)
    return Work(run, cohort.read, 4 * cohort.variants * cohort.samples * VECTORS)


def pruning(cohort: Cohort) -> Work:
    """Variants in linkage removed, by windows of 200."""
    positions, people = np.arange(cohort.variants) * 1000, Samples(cohort.samples)
    flops = 2 * cohort.variants * cohort.samples * RULE.size
    return Work(lambda: prune(cohort.calls, positions, people, RULE).removed, cohort.read, flops)


def clumping(cohort: Cohort) -> Work:
    """r^2 of a lead variant with the hundred beside it."""
    some = cohort.calls[:100]
    return Work(lambda: haplotype_r_squared(some, cohort.samples, 0), int(some.nbytes), scales=False)


def scoring(cohort: Cohort) -> Work:
    """A polygenic score."""
    weights, swapped = cohort.numbers(cohort.variants), cohort.xp.arange(cohort.variants) % 3 == 0
    run = partial(call_scores, cohort.calls, cohort.samples, weights, swapped, True)
    return Work(run, cohort.read, 2 * cohort.variants * cohort.samples)


def relationship(cohort: Cohort) -> Work:
    """Sums over variants for every pair of people."""
    n, frequency = cohort.samples, cohort.frequency
    return Work(lambda: grm_sums(cohort.calls, n, frequency), cohort.read + 12 * n * n, 2 * cohort.variants * n * n)


def kin(cohort: Cohort) -> Work:
    """Kinship of every pair of people; of few people, who have no relatives here, all pairs are listed."""
    n = cohort.samples
    least = 0.0442 if n > ALL_PAIRS else -9.0
    return Work(lambda: near(sample_bits(cohort.calls, n), None, least), cohort.read + 14 * n * n, 8 * cohort.variants * n * n)


def exact_components(cohort: Cohort) -> Work:
    """Ten principal components of the relationship matrix."""
    related = cohort.relationships
    return Work(lambda: principal_components(related, 10), 8 * cohort.samples**2, scales=False)


OF_VARIANTS: dict[str, Callable[[Cohort], Work]] = {
    "calls per variant": per_variant,
    "calls per sample": per_sample,
    "half of the people taken": taken,
    "Hardy-Weinberg, exact": hardy_weinberg,
    "linear GWAS, 1 trait": linear(1),
    "linear GWAS, 100 traits": linear(100),
    "linear GWAS, 2,048 traits": linear(2048),
    "linear GWAS, means for missing": linear(1, "mean"),
    "logistic GWAS, Firth below 0.05": logistic,
    "p-values of t": tails,
    "calls standardized": standardized,
    "a pass of principal components": components,
    "pruning": pruning,
    "clumping around one lead": clumping,
    "polygenic score": scoring,
}
"""The kernels whose memory grows with variants times people, by name: each made for a cohort."""

OF_PAIRS: dict[str, Callable[[Cohort], Work]] = {
    "relationship sums": relationship,
    "kinship": kin,
    "10 principal components, exact": exact_components,
}
"""The kernels whose memory grows with the square of the people."""


def arrays_of(answer: Any) -> Iterator[Any]:
    """The arrays and numbers of an answer, whatever it is made of."""
    if is_dataclass(answer) and not isinstance(answer, type):
        answer = [getattr(answer, field.name) for field in fields(answer)]
    if isinstance(answer, tuple | list):
        for piece in answer:
            yield from arrays_of(piece)
    else:
        yield answer
