from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from pipeline.errors import DataError
from pipeline.kernels import relationship
from pipeline.kernels.genotypes import pack
from pipeline.kernels.relationship import grm, grm_sums, principal_components
from tests.kernels.plink_files import DATA, REFERENCE, assert_printed, chromosomes, floats, needs_data, read_bed, read_columns

Floats = NDArray[np.float64]


def calls_with(missing: float, n_variants: int = 300, n_samples: int = 41) -> NDArray[np.int8]:
    rng = np.random.default_rng(6)
    calls = rng.binomial(2, rng.uniform(0.05, 0.95, (n_variants, 1)), (n_variants, n_samples)).astype(np.int8)
    calls[rng.random(calls.shape) < missing] = 3
    return calls


def by_definition(calls: NDArray[np.int8]) -> tuple[Floats, Floats]:
    """Sums and counts with one loop over variants, as the papers write them."""
    sums, counts = np.zeros((2, calls.shape[1], calls.shape[1]))
    for row in calls:
        called = row != 3
        f = row[called].mean() / 2 if called.any() else 0
        if 0 < f < 1:
            z = np.where(called, (row - 2 * f) / np.sqrt(2 * f * (1 - f)), 0)
            sums += np.outer(z, z)
            counts += np.outer(called, called)
    return sums, counts


@pytest.mark.parametrize("missing", [0, 0.01, 0.4])
def test_grm_sums__equal_the_definition(missing: float) -> None:
    calls = calls_with(missing)
    sums, counts = grm_sums(pack(calls), 41)
    expected = by_definition(calls)
    np.testing.assert_allclose(sums, expected[0], rtol=1e-10, atol=1e-10)
    assert np.array_equal(counts, expected[1])


def test_grm_sums__of_few_missing_calls_in_many_samples_equal_the_definition() -> None:
    calls = calls_with(0.004, 60, 403)
    expected = by_definition(calls)
    sums, counts = grm_sums(pack(calls), 403)
    np.testing.assert_allclose(sums, expected[0], rtol=1e-10, atol=1e-10)
    assert np.array_equal(counts, expected[1])


def test_grm_sums__add_up_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(calls_with(0.1))
    whole = grm_sums(packed, 41)
    parts = [grm_sums(packed[rows], 41) for rows in (slice(0, 0), slice(0, 130), slice(130, 300))]
    monkeypatch.setattr(relationship, "BLOCK_BYTES", 5000)
    for place in range(2):
        np.testing.assert_allclose(sum(part[place] for part in parts), whole[place], rtol=1e-11, atol=1e-10)
        np.testing.assert_allclose(grm_sums(packed, 41)[place], whole[place], rtol=1e-11, atol=1e-10)


def test_grm_sums__leave_out_variants_that_do_not_vary_or_that_nobody_has() -> None:
    calls = np.array([[0, 0, 0], [2, 2, 2], [3, 3, 3], [0, 3, 0], [0, 1, 2]], np.int8)
    sums, counts = grm_sums(pack(calls), 3)
    assert np.array_equal(counts, np.ones((3, 3)))
    np.testing.assert_allclose(sums, [[2, 0, -2], [0, 0, 0], [-2, 0, 2]], atol=1e-12)


def test_grm__refuses_two_samples_without_a_common_variant() -> None:
    with pytest.raises(DataError, match=r"Samples 0 and 1 .* share no called variant"):
        grm(*grm_sums(pack(np.array([[0, 3, 1], [3, 1, 2]], np.int8)), 3))


def test_principal_components__equal_those_of_scikit_learn_without_missing_calls() -> None:
    calls = calls_with(0)
    frequency = calls.mean(axis=1, keepdims=True) / 2
    standard = ((calls - 2 * frequency) / np.sqrt(2 * frequency * (1 - frequency))).T
    expected = PCA(5, svd_solver="full").fit(standard)
    values, vectors = principal_components(grm(*grm_sums(pack(calls), 41)), 5)
    np.testing.assert_allclose(values, expected.singular_values_**2 / len(calls), rtol=1e-10)
    scores = expected.transform(standard) / expected.singular_values_
    np.testing.assert_allclose(np.abs((scores * vectors).sum(axis=0)), 1, rtol=1e-10)


def test_principal_components__fix_the_sign_and_the_order() -> None:
    values, vectors = principal_components(np.diag([1.0, 5.0, 3.0]), 3)
    np.testing.assert_allclose(values, [5, 3, 1])
    np.testing.assert_allclose(vectors, [[0, 0, 1], [1, 0, 0], [0, 1, 0]], atol=1e-15)


@pytest.mark.parametrize("components", [0, 4])
def test_principal_components__refuse_more_than_there_are_samples(components: int) -> None:
    with pytest.raises(DataError, match=f"{components} principal components were asked of 3 samples: ask for 1 to 3"):
        principal_components(np.eye(3), components)


def test_principal_components__refuse_what_is_not_finite() -> None:
    with pytest.raises(DataError, match="not finite"):
        principal_components(np.array([[1.0, np.nan], [np.nan, 1.0]]), 1)


@cache
def hapmap3() -> Floats:
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    autosomes = np.isin(chromosomes(DATA / "hapmap3" / "data"), [str(number) for number in range(1, 23)])
    relationships: Floats = grm(*grm_sums(packed[autosomes], n_samples))
    return relationships


@needs_data
def test_grm__is_what_plink_wrote_for_hapmap3() -> None:
    written = np.fromfile(REFERENCE / "hapmap3" / "grm.grm.bin", np.float32)
    ours = hapmap3()[np.tril_indices(len(hapmap3()))]
    np.testing.assert_allclose(ours, written, rtol=6.1e-8, atol=1e-9)


@needs_data
def test_principal_components__are_what_plink_printed_for_hapmap3() -> None:
    values, vectors = principal_components(hapmap3(), 10)
    assert_printed(values, np.array((REFERENCE / "hapmap3" / "pca.eigenval").read_text().split()), 1.4e-6)
    table = read_columns(REFERENCE / "hapmap3" / "pca.eigenvec")
    printed = np.stack([floats(table[f"PC{number}"]) for number in range(1, 11)], axis=1)
    correlation = np.abs((vectors * printed).sum(axis=0)) / np.linalg.norm(printed, axis=0)
    assert correlation.min() > 1 - 1e-11
