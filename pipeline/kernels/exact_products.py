"""Exact sums of products over people, for every variant: of intercept, covariates, trait and genotype, as numbers of many digits.

What a linear regression with covariates needs of them, and all that it needs. Values are whole numbers of units, so that sums may be
added over people, parts and places in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.kernels.fixed_digits import VALUE_DIGITS, digits_of, times
from pipeline.kernels.genotypes import MISSING, call_counts, missing_calls, pack

Array = np.ndarray[Any, Any]

MOST_PEOPLE = 1 << 21
"""So many products of two digits add up to less than 2^53, below which float64 is exact."""
_ADDITIVE = (1.0, 2.0)


@dataclass(frozen=True)
class People:
    """What is known of n people: `units` int64 [n, m], intercept, covariates and trait, each one of 2^-bits; 0 for who is not `used`."""

    units: Array
    used: Array
    bits: int

    @staticmethod
    def of(columns: Array, bits: int) -> People:
        """Of covariates and trait `float64[n, m - 1]`, rounded to units; who lacks one is not used."""
        used = np.logical_and.reduce(np.isfinite(columns), axis=1, initial=True)
        known = np.column_stack([np.ones(len(columns)), columns]) * used[:, None]
        return People(np.rint(np.ldexp(np.where(used[:, None], known, 0.0), bits)).astype(np.int64), used, bits)

    @cached_property
    def digits(self) -> Array:
        """`float64[n, 4 m]`."""
        return digits_of(self.units).reshape(len(self.units), -1).astype(np.float64)

    @cached_property
    def mask(self) -> Array:
        """`uint8[ceil(n / 4)]`: both bits of the used people's calls are set."""
        mask: Array = pack((self.used * MISSING).astype(np.uint8)[None, :])[0]
        return mask

    @cached_property
    def products(self) -> Array:
        """Of all used people, as `_products` gives them."""
        return _products(self.digits)


def product_sums(calls: Array, people: People, *, complete_case: bool) -> Array:
    """Sums over the used people, of the upper triangle of the products of [intercept, covariates, trait, genotype], row by row.

    `int64[v, (m + 1) (m + 2) / 2, 10]`: digits that are not carried, in units of 2^(-2 bits), of packed calls `uint8[v, ceil(n / 4)]`. A
    genotype counts copies of ALT. Where there is no call the person is left out of the variant's sums, or (not `complete_case`) has the
    mean of the others here, rounded to a unit. At most MOST_PEOPLE.
    """
    from pipeline.kernels.compiled.products import calls_product

    n, m = people.units.shape
    calls = np.ascontiguousarray(calls & people.mask)
    counts, unit = call_counts(calls, n), digits_of(np.array(1 << people.bits))
    called = counts[:, :3].sum(axis=1) - (n - int(people.used.sum()))
    alt, squares = counts[:, 1] + 2 * counts[:, 2], counts[:, 1] + 4 * counts[:, 2]
    mean = np.zeros(len(calls), np.int64)
    if not complete_case:
        mean = np.rint(np.ldexp(alt / np.maximum(called, 1), people.bits)).astype(np.int64)
    found = np.zeros((len(calls), m + 1, m + 1, 3 * VALUE_DIGITS - 2), np.int64)
    found[:, :m, :m, : 2 * VALUE_DIGITS - 1] = people.products
    with_calls = calls_product(calls, people.digits, _ADDITIVE)[:, : VALUE_DIGITS * m].reshape(-1, m, VALUE_DIGITS).astype(np.int64)
    found[:, :m, m, : 2 * VALUE_DIGITS - 1] = times(with_calls, unit)
    found[:, m, m] = times(times(digits_of(squares), unit), unit)
    variants, samples = missing_calls(calls, n)
    edges = np.searchsorted(variants, np.arange(len(calls) + 1))
    for variant in np.flatnonzero(counts[:, MISSING]):
        lacking = people.digits[samples[edges[variant] : edges[variant + 1]]]
        if complete_case:
            found[variant, :m, :m, : 2 * VALUE_DIGITS - 1] -= _products(lacking)
        else:
            sums, filled = lacking.sum(axis=0).astype(np.int64).reshape(m, VALUE_DIGITS), digits_of(mean[variant])
            found[variant, :m, m, : 2 * VALUE_DIGITS - 1] += times(sums, filled)
            found[variant, m, m, : 2 * VALUE_DIGITS - 1] += len(lacking) * times(filled, filled)
    return found[:, *np.triu_indices(m + 1)]


def _products(digits: Array) -> Array:
    """Digits, not carried, of the sums of products of columns, `int64[m, m, 7]`, of digits `float64[people, 4 m]`."""
    m = digits.shape[1] // VALUE_DIGITS
    pairs = (digits.T @ digits).astype(np.int64).reshape(m, VALUE_DIGITS, m, VALUE_DIGITS)
    found = np.zeros((m, m, 2 * VALUE_DIGITS - 1), np.int64)
    for left in range(VALUE_DIGITS):
        for right in range(VALUE_DIGITS):
            found[:, :, left + right] += pairs[:, left, :, right]
    return found
