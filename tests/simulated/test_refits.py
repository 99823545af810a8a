"""Logistic regressions of single variants on the device, in the simulator, against the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.kernels.device.people import INFORMATION, entries_of
from pipeline.kernels.device.refits import METHODS, variant_refits
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.testing.device import simulated


def drawn(people: int, covariates: int, variants: int = 5) -> tuple[Any, ...]:
    """Genotypes, one of which separates cases and one of which does not vary, and a null model's arrays."""
    rng = np.random.default_rng(people)
    values = rng.normal(size=(people, covariates))
    trait = (rng.normal(size=people) + values.sum(axis=1) / 2 > 0).astype(float)
    genotypes = rng.binomial(2, 0.4, (variants, people)).astype(float)
    genotypes[rng.random(genotypes.shape) < 0.1] = np.nan
    genotypes[0] = np.where(np.arange(people) % 2, trait, 0)
    if variants > 4:
        genotypes[4] = 1
    null = LogisticDesign.build(values, trait[:, None]).null(0)
    return genotypes, np.ascontiguousarray(null.basis.T), np.ascontiguousarray(null.signs), np.ascontiguousarray(null.coefficients)


def refitted(arguments: tuple[Any, ...], method: int, ratio: int, threads: int, blocks: int = 2) -> tuple[Any, Any]:
    """By the simulator, and plainly."""
    columns = arguments[1].shape[1] + 1
    entries = entries_of(columns, cubes=method > 0)
    rooms = (
        np.full((blocks, INFORMATION + 5 * columns + columns**2, columns), np.nan),
        np.full((blocks, max(threads, len(entries))), np.nan),
    )
    found, expected = np.zeros((2, 4, len(arguments[0])))
    simulated(variant_refits, blocks, *arguments, entries, method, ratio, *rooms, found, threads=threads)
    variant_refits.plain(*arguments, entries, method, ratio, *rooms, expected)
    return found, expected


def assert_alike(found: Any, expected: Any) -> None:
    """Alike to a millionth of a standard error, and by the same tests."""
    np.testing.assert_array_equal(found[3], expected[3])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
    known = ~np.isnan(expected[0])
    assert (abs(found[0] - expected[0])[known] < 2e-6 * expected[1][known]).all()
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("people", "covariates", "threads"), [(31, 0, 3), (33, 1, 4)])
def test_variant_refits__by_wald_are_those_of_the_cpu(people: int, covariates: int, threads: int) -> None:
    found, expected = refitted(drawn(people, covariates, 3 + 2 * (threads == 3)), METHODS.index("wald"), 0, threads)
    assert_alike(found, expected)
    assert np.isnan(expected[0, 0])


@pytest.mark.parametrize("threads", [1, 3])
def test_variant_refits__of_separated_variants_are_firths_with_the_likelihood_ratio(threads: int) -> None:
    found, expected = refitted(drawn(20, 0, 2), METHODS.index("firth_fallback"), 1, threads)
    assert_alike(found, expected)
    assert expected[3].tolist() == [3, 1]


@pytest.mark.parametrize("covariates", [0, 2])
def test_variant_refits__by_firth_are_those_of_the_cpu(covariates: int) -> None:
    found, expected = refitted(drawn(33, covariates, 3), METHODS.index("firth"), 0, 1)
    assert_alike(found, expected)
    assert (expected[3] == 2).all()
