"""What covariates leave of genotypes and traits on the device, and the estimates of it, in the simulator, against the plain versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.kernels.device.explained import explained_variants
from pipeline.kernels.device.linear import estimates
from pipeline.kernels.genotypes import pack
from pipeline.testing.device import simulated
from tests.simulated.drawn import assert_alike, odd_calls, odd_mask


def drawn(people: int, columns: int, traits: int) -> tuple[Any, ...]:
    """Packed calls, their mask, orthonormal columns beside traits, products, and the traits' squares."""
    rng, used = np.random.default_rng(people), odd_mask(people)
    mask = pack(3 * used[None].astype(np.uint8))[0]
    basis = np.linalg.qr(rng.normal(size=(max(people, columns), columns)))[0][:people]
    values = np.concatenate([basis, rng.normal(size=(people, traits))], axis=1) * used[:, None]
    totals = (values[:, columns:] ** 2).sum(axis=0)
    return pack(odd_calls(people)), mask, values, values, rng.normal(size=(7, columns + traits)), totals


@pytest.mark.parametrize("relative", [0, 1])
@pytest.mark.parametrize(("people", "columns", "traits", "at_once"), [(1, 1, 1, 1), (31, 1, 3, 2), (33, 4, 1, 1), (130, 5, 7, 3)])
def test_explained_variants__takes_missing_people_out(people: int, columns: int, traits: int, at_once: int, relative: int) -> None:
    arguments = drawn(people, columns, traits)
    settings = np.arange(7.0), columns, relative, at_once
    found, expected = ((np.zeros((2, 7)), np.zeros((2, 7, traits))) for _ in range(2))
    systems = np.full((2, (columns + 1 + at_once) * columns + at_once), np.nan)
    simulated(explained_variants, 2, *arguments, *settings, systems, *found, threads=8)
    explained_variants.plain(*arguments, *settings, systems, *expected)
    regular = expected[0][1] > 1e-9
    assert_alike(found[0][1] > 1e-9, regular)
    for ours, theirs in zip(found, expected, strict=True):
        assert_alike(ours[:, regular], theirs[:, regular])
    assert regular.any()


def test_explained_variants__lists_missing_people_window_by_window() -> None:
    calls = np.zeros((1, 4101), np.int8)
    calls[0, [0, 3, 4095, 4096, 4100]] = 3
    values = np.random.default_rng(1).normal(size=(4101, 3)) / 100
    mask = np.full(1026, 255, np.uint8)
    arguments = pack(calls), mask, values, values, np.ones((1, 3)), np.ones(1), np.ones(1), 2, 0, 1
    found, expected = ((np.zeros((2, 1)), np.zeros((2, 1, 1))) for _ in range(2))
    simulated(explained_variants, 1, *arguments, np.zeros((1, 9)), *found, threads=32)
    explained_variants.plain(*arguments, np.zeros((1, 9)), *expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert_alike(ours, theirs)


@pytest.mark.parametrize("used", [0, 40])
def test_estimates__give_numbers_or_a_reason(used: int) -> None:
    rng = np.random.default_rng(3)
    moments, own = rng.uniform(1, 2, (4, 8)), rng.uniform(0.5, 1, (2, 8))
    moments[0], moments[3] = [40, 39, 0, 5, 6, 30, 30, 30], 0
    moments[2, 5], own[0, 6], own[1, 7] = 0, 1e-12, 1e-12
    crossed = rng.normal(size=(2, 8, 3))
    crossed[1] = rng.uniform(1, 2, (8, 3)) + crossed[0] ** 2 / own[0][:, None]
    crossed[1, 1, 2] = 1e-16
    found, expected = ((np.zeros((3, 8, 3)), np.zeros((2, 8), np.int64), np.zeros((8, 3), np.uint8)) for _ in range(2))
    simulated(estimates, 4, moments, own, crossed, np.ones(3), 4, used, *found, threads=7)
    estimates.plain(moments, own, crossed, np.ones(3), 4, used, *expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert_alike(ours, theirs)
    assert {*expected[2].flat} == {0, 1, 2, 3, 4, 5}
