from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from pipeline.errors import DataError
from pipeline.kernels import standardized
from pipeline.kernels.genotypes import alt_frequency, call_counts, pack
from pipeline.kernels.relationship import GrmSums, grm, grm_sums, need_finite, principal_components, shared_variants
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


def sums_of(packed: NDArray[np.uint8], n_samples: int, earlier: GrmSums | None = None) -> GrmSums:
    """The sums over the variants that vary."""
    frequency = alt_frequency(call_counts(packed, n_samples))
    varies = (frequency > 0) & (frequency < 1)
    return grm_sums(packed[varies], n_samples, frequency[varies], earlier)


def whole(sums: GrmSums) -> tuple[Floats, Floats]:
    """Both triangles of the products, and the counts of pairs."""
    products: Floats = np.triu(sums.products) + np.triu(sums.products, 1).T
    return products, shared_variants(sums)


def relationships_of(packed: NDArray[np.uint8], n_samples: int) -> Floats:
    sums = sums_of(packed, n_samples)
    found: Floats = grm(sums, shared_variants(sums))
    return found


@pytest.mark.parametrize(("missing", "n_samples"), [(0, 41), (0.01, 41), (0.4, 41), (0.05, 40), (0.1, 1)])
def test_grm_sums__equal_the_definition(missing: float, n_samples: int) -> None:
    calls = calls_with(missing, 300, n_samples)
    sums, counts = whole(sums_of(pack(calls), n_samples))
    expected = by_definition(calls)
    np.testing.assert_allclose(sums, expected[0], rtol=1e-10, atol=1e-10)
    assert np.array_equal(counts, expected[1])


def test_grm_sums__of_few_and_of_many_missing_calls_equal_the_definition() -> None:
    calls = np.concatenate([calls_with(0.004, 60, 403), calls_with(0.3, 5, 403), calls_with(0.09, 30, 403)])
    expected = by_definition(calls)
    sums, counts = whole(sums_of(pack(calls), 403))
    np.testing.assert_allclose(sums, expected[0], rtol=1e-10, atol=1e-10)
    assert np.array_equal(counts, expected[1])


@pytest.mark.parametrize("n_samples", [41, 44])
def test_grm_sums__in_float32_are_close_to_those_in_float64(n_samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standardized, "_SMALL", 1)
    packed = pack(calls_with(0.02, 6_200, n_samples))
    sums = sums_of(packed, n_samples)
    some: GrmSums | None = None
    for start in range(0, len(packed), 1_000):
        some = sums_of(packed[start : start + 1_000], n_samples, some)
    assert some is not None
    assert sums.variants == some.variants
    assert np.array_equal(shared_variants(sums), shared_variants(some))
    single, double = (np.linalg.eigvalsh(whole(found)[0]) for found in (sums, some))
    assert 0 < np.abs(single / double - 1)[-10:].max() < 2e-7


def test_grm_sums__add_up_and_leave_earlier_ones_as_they_are() -> None:
    packed = pack(calls_with(0.1))
    expected = whole(sums_of(packed, 41))
    parts = [sums_of(packed[rows], 41) for rows in (slice(0, 0), slice(0, 130), slice(130, 300))]
    before = parts[1].products.copy()
    after = sums_of(packed[130:], 41, parts[1])
    assert np.array_equal(parts[1].products, before)
    for sums in (after, parts[0].plus(parts[1]).plus(parts[2])):
        np.testing.assert_allclose(whole(sums)[0], expected[0], rtol=1e-11, atol=1e-10)
        assert np.array_equal(whole(sums)[1], expected[1])
        assert sums.variants == 300


def test_grm_sums__of_odd_variants_are_right() -> None:
    calls = np.array([[0, 3, 0], [0, 1, 2], [1, 0, 3]], np.int8)
    sums, counts = whole(sums_of(pack(calls), 3))
    expected = by_definition(calls)
    np.testing.assert_allclose(sums, expected[0], atol=1e-12)
    assert np.array_equal(counts, expected[1])


def test_grm__refuses_two_samples_without_a_common_variant() -> None:
    with pytest.raises(DataError, match=r"Samples 0 and 1 .* share no called variant"):
        relationships_of(pack(np.array([[0, 3, 1], [3, 1, 2]], np.int8)), 3)


def test_principal_components__equal_those_of_scikit_learn_without_missing_calls() -> None:
    calls = calls_with(0)
    frequency = calls.mean(axis=1, keepdims=True) / 2
    standard = ((calls - 2 * frequency) / np.sqrt(2 * frequency * (1 - frequency))).T
    expected = PCA(5, svd_solver="full").fit(standard)
    values, vectors = principal_components(relationships_of(pack(calls), 41), 5)
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


def test_principal_components__of_a_large_matrix_are_those_of_a_full_solver() -> None:
    rng = np.random.default_rng(8)
    basis = np.linalg.qr(rng.normal(size=(1_300, 1_300)))[0]
    values = np.concatenate([[40, 39.999, 9, 9, 9, 2.001], np.linspace(2, 0, 1_294)])
    matrix = (basis * values) @ basis.T
    found, vectors = principal_components((matrix + matrix.T) / 2, 8)
    np.testing.assert_allclose(found, values[:8], rtol=1e-10)
    np.testing.assert_allclose(np.abs((vectors * basis[:, :8]).sum(axis=0))[[0, 1, 5, 6]], 1, rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-10)


@cache
def hapmap3() -> Floats:
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    autosomes = np.isin(chromosomes(DATA / "hapmap3" / "data"), [str(number) for number in range(1, 23)])
    return relationships_of(packed[autosomes], n_samples)


@needs_data
def test_grm__is_what_plink_wrote_for_hapmap3() -> None:
    written = np.fromfile(REFERENCE / "hapmap3" / "grm.grm.bin", np.float32)
    ours = hapmap3()[np.tril_indices(len(hapmap3()))]
    np.testing.assert_allclose(ours, written, rtol=6.1e-8, atol=1e-9)


@needs_data
def test_grm__in_float32_has_plinks_eigenvalues_and_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standardized, "_SMALL", 1)
    relationships = hapmap3.__wrapped__()
    assert 0 < np.abs(relationships - hapmap3()).max() < 5e-7
    values, vectors = principal_components(relationships, 10)
    assert_printed(values, np.array((REFERENCE / "hapmap3" / "pca.eigenval").read_text().split()), 1.4e-6)
    exact, axes = principal_components(hapmap3(), 10)
    np.testing.assert_allclose(values, exact, rtol=1e-7)
    assert (vectors * axes).sum(axis=0).min() > 1 - 1e-11


@needs_data
def test_principal_components__are_what_plink_printed_for_hapmap3() -> None:
    values, vectors = principal_components(hapmap3(), 10)
    assert_printed(values, np.array((REFERENCE / "hapmap3" / "pca.eigenval").read_text().split()), 1.4e-6)
    table = read_columns(REFERENCE / "hapmap3" / "pca.eigenvec")
    printed = np.stack([floats(table[f"PC{number}"]) for number in range(1, 11)], axis=1)
    correlation = np.abs((vectors * printed).sum(axis=0)) / np.linalg.norm(printed, axis=0)
    assert correlation.min() > 1 - 1e-11


def test_need_finite__a_factorization_that_failed_in_silence_is_an_error() -> None:
    need_finite(np.array([3.0, 1.0]))
    with pytest.raises(DataError, match="an eigenvalue is not finite"):
        need_finite(np.array([np.nan, np.nan]))
