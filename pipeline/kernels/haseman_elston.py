"""Haseman-Elston regression: heritability by the products of pairs' traits on their relationships.

Haseman & Elston (1972), Behav Genet 2:3-19; cross products as in Golan, Lander & Rosset (2014), PNAS 111:E5272-E5281.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module

Array = Any


class Regression(NamedTuple):
    """The slope, and its standard error by leaving out each person in turn."""

    slope: float
    standard_error: float


class _Sums(NamedTuple):
    """Over pairs: how many, relationships, their squares, products of traits, and products of both."""

    pairs: Array
    related: Array
    squares: Array
    traits: Array
    both: Array

    def less(self, other: _Sums) -> _Sums:
        """Without others."""
        return _Sums(*(ours - theirs for ours, theirs in zip(self, other, strict=True)))

    @property
    def slope(self) -> Array:
        """Of the line by least squares, with intercept."""
        spread = self.squares - self.related**2 / self.pairs
        return (self.both - self.related * self.traits / self.pairs) / spread


def haseman_elston(relationships: Array, trait: Array) -> Regression:
    """Of `relationships: float64[n, n]` and a trait `float64[n]` of mean 0 and variance 1: the slope is its heritability.

    NaN where all pairs are related alike, or there are fewer than four people.
    """
    own = array_module(relationships).diagonal(relationships)
    squares = (relationships**2).sum(axis=1) - own**2
    return regressed(relationships.sum(axis=1) - own, squares, relationships @ trait - own * trait, trait)


def with_others(relationships: Array, vectors: Array, groups: int) -> Array:
    """Products of `relationships: float64[n, m]` with `vectors: float64[m, k]`, and of their squares with the first `groups` of them.

    `float64[n, k + groups]`: what `regressed` takes, where those vectors are 1 for the people of a group, and 0 for others.
    """
    return array_module(relationships).hstack([relationships @ vectors, relationships**2 @ vectors[:, :groups]])


def regressed(related: Array, squares: Array, products: Array, trait: Array) -> Regression:
    """As `haseman_elston`, of sums over each person's relationships with the others: they, their squares, and they times others' traits."""
    xp, n = array_module(trait), len(trait)
    of_each = _Sums(xp.full(n, n - 1.0), related, squares, trait * (trait.sum() - trait), trait * products)
    whole = _Sums(*(sums.sum() / 2 for sums in of_each))
    if n < 4 or not bool(whole.squares - whole.related**2 / whole.pairs > 1e-12 * whole.squares):
        return Regression(np.nan, np.nan)
    without = whole.less(of_each).slope
    error = xp.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    return Regression(float(whole.slope), float(error))
