"""The sums over samples that linear regression of a block of variants needs, by array operations: the shared product, and missing calls.

Notation is that of linear_regression.py, which says why the sums can be corrected for missing calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.backend.arrays import array_module
from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, MISSING, Array, alt_frequency, call_counts, missing_calls, unpack


@dataclass
class Products:
    """Sums over the samples of v variants, with k columns of covariates and intercept, and t traits."""

    called: Array
    """Used samples with a call, `[v]`."""
    frequency: Array
    """Of ALT among their alleles, `float64[v]`."""
    squares: Array
    """g'g, genotypes less their mean, `float64[v]`."""
    least_squares: Array | float
    """At most this much of g'g is rounding: the variant does not vary."""
    genotype_basis: Array
    """L^-1 Q'g with A = L L', `float64[v, k]`."""
    genotype_trait: Array
    """g~'r~, `float64[v, t]`."""
    trait_squares: Array
    """r~'r~, `float64[v, t]`."""
    solvable: Array
    """Whether A is regular, `bool[v]`."""


@dataclass
class _Genotypes:
    """Genotypes as the products take them: 0 where missing, and `means` to take off where they are not centred yet."""

    dense: Array
    means: Array
    variant: Array
    """Of the missing genotypes of used samples: variant and sample."""
    sample: Array


def block_products(block: GenotypeBlock, design: Design, *, complete_case: bool, regular_above: float) -> Products:
    """The products of a block, corrected where genotypes are missing; A is regular where its pivots stay above `regular_above`."""
    xp = block.xp
    split = design.columns - 1
    genotypes, products = _of_calls(block, design) if block.dosages is None else _of_dosages(block, design)
    product = genotypes.dense @ xp.concatenate([design.basis, design.residuals], axis=1)
    products.genotype_basis[:, 1:] = product[:, :split]
    products.genotype_trait[:] = product[:, split:]
    values = design.values()
    numbers = xp.bincount(genotypes.variant, minlength=len(block))
    lists = _lists(genotypes, numbers, design.n_samples)
    for rows in _similar(numbers, 8 * values.shape[1], design.columns):
        missing = lists[rows, : int(numbers[rows].max())]
        _correct(products, rows, values[missing], genotypes.means[rows], regular_above if complete_case else None)
    return products


def _of_calls(block: GenotypeBlock, design: Design) -> tuple[_Genotypes, Products]:
    """Packed calls: every sum of genotypes alone is one of whole numbers (or halves)."""
    xp = block.xp
    one, two = block.codes
    calls = block.calls & design.mask
    counts = call_counts(calls, design.n_samples)
    counts[:, 0] -= design.n_samples - design.used
    called = counts[:, :3].sum(axis=1)
    total = one * counts[:, 1] + two * counts[:, 2]
    spread = called * (one**2 * counts[:, 1] + two**2 * counts[:, 2]) - total**2
    dense = unpack(calls, design.n_samples, xp.float64, 0, block.codes)
    genotypes = _Genotypes(dense, total / xp.maximum(called, 1), *missing_calls(calls, design.n_samples))
    return genotypes, _products(design, called, alt_frequency(counts), spread / xp.maximum(called, 1), 0.0)


def _of_dosages(block: GenotypeBlock, design: Design) -> tuple[_Genotypes, Products]:
    """Dosages, centred before any product."""
    xp = block.xp
    used = unpack(design.mask[None, :], design.n_samples)[0] == MISSING
    alt, called = block.alleles(design.mask)
    dense = block.coded(slice(None))
    missing = xp.isnan(dense) & used
    dense = xp.where(missing | ~used, 0, dense)
    means = dense.sum(axis=1) / xp.maximum(called, 1)
    size = xp.abs(dense).max(axis=1)
    dense = xp.where(missing | ~used, 0, dense - means[:, None])
    frequency = xp.where(called > 0, alt / 2 / xp.maximum(called, 1), xp.nan)
    # Dosages are printed to a few digits at best: a spread of 1e-12 of their size is that of rounding.
    products = _products(design, called, frequency, (dense**2).sum(axis=1), called * (1e-12 * size) ** 2)
    return _Genotypes(dense, xp.zeros(len(block)), *xp.nonzero(missing)), products


def _products(design: Design, called: Array, frequency: Array, squares: Array, least_squares: Array | float) -> Products:
    xp = design.xp
    totals = (design.residuals**2).sum(axis=0)
    return Products(
        called=called,
        frequency=frequency,
        squares=squares,
        least_squares=least_squares,
        genotype_basis=xp.zeros((len(called), design.columns)),
        genotype_trait=xp.empty((len(called), len(totals))),
        trait_squares=xp.broadcast_to(totals, (len(called), len(totals))).copy(),
        solvable=xp.ones(len(called), bool),
    )


def _similar(missing: Array, bytes_per_row: int, at_least: int) -> Iterator[Array]:
    """Variants with missing calls in groups whose numbers of them lie within a factor of two and whose temporaries are bounded."""
    xp = array_module(missing)
    order = xp.argsort(missing, kind="stable")
    numbers = missing[order]
    start = int(xp.searchsorted(numbers, 1))
    while start < len(order):
        most = 2 * int(numbers[start])
        stop = min(
            int(xp.searchsorted(numbers, most, side="right")), start + max(1, (BLOCK_BYTES // 8) // (bytes_per_row * max(most, at_least)))
        )
        yield order[start:stop]
        start = stop


def _lists(genotypes: _Genotypes, numbers: Array, n_samples: int) -> Array:
    """Samples whose genotypes are missing, `int64[v, most]`; lists that are shorter end with n_samples."""
    xp = array_module(numbers)
    first = xp.cumsum(numbers) - numbers
    lists = xp.full((len(numbers), int(numbers.max())), n_samples)
    lists[genotypes.variant, xp.arange(len(genotypes.variant)) - first[genotypes.variant]] = genotypes.sample
    return lists


def _correct(products: Products, rows: Array, values: Array, means: Array, regular_above: float | None) -> None:
    """Takes the missing samples out of the products of the variants `rows`; `values` are those samples' intercept, basis and residuals.

    `values` is `float64[v, m, k + t]`, `means` the mean genotype of the called samples, `float64[v]`. With no `regular_above` the missing
    samples stay, with the mean.
    """
    xp = array_module(values)
    columns = products.genotype_basis.shape[1]
    # Genotypes less their mean are 0 where they are missing; the intercept's and the residuals' sums over all samples are known to be 0.
    sums = means[:, None] * values.sum(axis=1)
    basis = products.genotype_basis[rows] + sums[:, :columns]
    basis[:, 0] = 0
    trait = products.genotype_trait[rows] + sums[:, columns:]
    if regular_above is None:
        products.genotype_basis[rows], products.genotype_trait[rows] = basis, trait
        return
    gram = values[:, :, :columns].transpose(0, 2, 1) @ values
    system = xp.empty((columns, columns + 1 + trait.shape[1], len(rows)))
    system[:, :columns] = xp.eye(columns)[:, :, None] - gram[:, :, :columns].transpose(1, 2, 0)
    system[:, columns] = basis.T
    system[:, columns + 1 :] = -gram[:, :, columns:].transpose(1, 2, 0)
    products.solvable[rows] = _whiten(system, regular_above)
    genotype, traits = system[:, columns], system[:, columns + 1 :]
    products.genotype_basis[rows] = genotype.T
    products.genotype_trait[rows] = trait - (genotype[:, None] * traits).sum(axis=0).T
    products.trait_squares[rows] -= (values[:, :, columns:] ** 2).sum(axis=1) + (traits**2).sum(axis=0).T


def _whiten(system: Array, regular_above: float) -> Array:
    """Turns the right-hand sides B of `system` [A | B] into L^-1 B, where A = L L' (Cholesky), in place, for all variants side by side.

    `system` is `float64[k, k + s, v]`. Returns where A is regular, `bool[v]`; its diagonal is 1 where no call is missing.
    """
    xp = array_module(system)
    regular = xp.ones(system.shape[2], bool)
    for row in range(len(system)):
        pivot = system[row, row].copy()
        regular &= pivot > regular_above
        system[row, row:] /= xp.sqrt(xp.where(regular, pivot, 1.0))
        for below in range(row + 1, len(system)):
            system[below, below:] -= system[row, below] * system[row, below:]
    return regular
