from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import RunError
from pipeline.kernels.genotypes import alt_frequency, call_counts, pack
from pipeline.kernels.relationship import grm, grm_sums, principal_components, shared_variants
from pipeline.kernels.relationship_tiles import Calls, add_products, joined_calls, leading_axes, relationship_tile

PEOPLE, CUT = 83, 64


def calls_of(missing: float, variants: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    rng = np.random.default_rng(8)
    calls = rng.binomial(2, rng.uniform(0.1, 0.9, (variants, 1)), (variants, PEOPLE)).astype(np.uint8)
    calls[rng.random(calls.shape) < missing] = 3
    return calls


def nothing() -> None:
    """Nobody has given it up."""


@pytest.mark.parametrize(("missing", "variants", "near"), [(0.0, 300, 1e-12), (0.3, 300, 1e-12), (0.02, 2_100, 1e-6)])
def test_relationship_tiles__are_those_of_the_whole_matrix(missing: float, variants: int, near: float) -> None:
    packed = pack(calls_of(missing, variants))
    frequency = alt_frequency(call_counts(packed, PEOPLE))
    sums = grm_sums(packed, PEOPLE, frequency)
    expected = grm(sums, shared_variants(sums))
    cuts = (slice(0, 7), slice(7, None))
    first = joined_calls([Calls(packed[rows, : CUT // 4], frequency[rows], CUT) for rows in cuts])
    last = joined_calls([Calls(packed[rows, CUT // 4 :], frequency[rows], PEOPLE - CUT) for rows in cuts])
    places = (slice(0, CUT), slice(CUT, PEOPLE))
    tiles = [
        (relationship_tile(first, None, nothing), (places[0], places[0])),
        (relationship_tile(last, first, nothing), (places[1], places[0])),
        (relationship_tile(last, None, nothing), (places[1], places[1])),
    ]
    for tile, (rows, columns) in tiles:
        np.testing.assert_allclose(tile.relationships, expected[rows, columns], rtol=near, atol=near)
        assert not any(apart.any() for apart in tile.apart)

    def product(vectors: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """The matrix times vectors, tile by tile."""
        added = np.zeros(vectors.shape)
        for tile, where in tiles:
            add_products(tile.relationships, where, vectors, added)
        return added

    values, vectors = leading_axes(product, PEOPLE, 3)
    whole = principal_components(expected, 3)
    np.testing.assert_allclose(values, whole[0], rtol=near)
    np.testing.assert_allclose(vectors, whole[1], atol=1e4 * near)


def test_relationship_tile__counts_with_how_many_each_shares_no_variant() -> None:
    packed = pack(np.array([[0, 3, 1, 2], [3, 1, 2, 0]] * 4, np.uint8))
    tile = relationship_tile(Calls(packed, np.full(8, 0.5), 4), None, nothing)
    assert [apart.tolist() for apart in tile.apart] == [[1, 1, 0, 0], [1, 1, 0, 0]]
    assert tile.relationships[0, 1] == 0


def test_relationship_tile__asks_before_every_product_whether_it_is_wanted() -> None:
    def interrupted() -> None:
        """As a run that was given up."""
        raise RunError("its run was interrupted")

    with pytest.raises(RunError, match="its run was interrupted"):
        relationship_tile(Calls(pack(calls_of(0, 5)), np.full(5, 0.5), PEOPLE), None, interrupted)
