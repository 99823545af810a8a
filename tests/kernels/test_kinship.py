from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels.device import kinship as on_device
from pipeline.kernels.genotypes import pack
from pipeline.kernels.kinship import in_order, joined, kinship, near, sample_bits, unrelated
from tests.kernels.plink_files import DATA, REFERENCE, assert_printed, chromosomes, needs_data, read_bed, read_columns

SIZES = [(0, 5), (1, 2), (3, 4), (63, 7), (65, 33), (700, 70), (16_500, 9)]
ROWS = (slice(0, 100), slice(100, 101), slice(101, 300))
EDGES = ((0, 64), (64, 128), (128, 150))
# Pairs of 24 people above a cutoff, and whom PLINK 2.00a3.5's --king-cutoff took away.
PAIRS = [
    (1, 0), (4, 0), (4, 2), (5, 0), (6, 2), (7, 6), (8, 0), (8, 4), (11, 1), (14, 1), (14, 3), (14, 8), (17, 14), (17, 16), (18, 3),
    (18, 7), (19, 14), (20, 15), (21, 8), (21, 12), (22, 3), (23, 5), (23, 9),
]  # fmt: skip
GONE = [0, 1, 4, 6, 14, 17, 18, 20, 21, 22, 23]


def random_calls(n_variants: int, n_samples: int) -> NDArray[np.uint8]:
    return np.random.default_rng(n_variants + n_samples).integers(0, 4, (n_variants, n_samples)).astype(np.uint8)


def counted(calls: NDArray[np.uint8], pairs: Iterable[tuple[int, int]]) -> NDArray[np.int32]:
    """What pairs (later, earlier) share, said plainly."""
    expected = []
    for later, earlier in pairs:
        one, other = calls[:, earlier], calls[:, later]
        both = (one < 3) & (other < 3)
        states = (both, both & (one == 1) & (other == 1), both & (one == 1), both & (other == 1), both & (abs(one - other * 1.0) == 2))
        expected.append([int(state.sum()) for state in states])
    return np.array(expected, np.int32).reshape(-1, 5)


def all_pairs(n_samples: int) -> list[tuple[int, int]]:
    return [(later, earlier) for later in range(n_samples) for earlier in range(later)]


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
@pytest.mark.parametrize("least", [-9.0, -0.3, 0.05])
def test_near__counts_what_two_share_and_lists_those_near_enough(n_variants: int, n_samples: int, least: float) -> None:
    calls = random_calls(n_variants, n_samples)
    pairs = np.array(all_pairs(n_samples))
    expected = counted(calls, all_pairs(n_samples))
    values = kinship(expected)
    found = near(sample_bits(pack(calls), n_samples), None, least)
    assert found.counts.dtype == np.int32
    assert np.array_equal(np.stack([found.later, found.earlier], axis=1), pairs[values >= least])
    assert np.array_equal(found.counts, expected[values >= least])
    assert np.array_equal(found.kinship, values[values >= least])
    assert (found.unknown, found.apart) == (np.isnan(values).sum(), (expected[:, 0] == 0).sum())
    assert in_order([found]).counts.tolist() == found.counts.tolist()


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_pair_counts__of_the_device_say_the_same_plainly(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    packed, cut = pack(calls), 4 * (n_samples // 8)
    planes = np.empty((2, -(-n_variants // 32), 4 * packed.shape[1]), np.uint32)
    on_device.sample_planes.plain(packed, planes)
    whole, wanted = np.empty((n_samples, n_samples, 5), np.int32), np.empty((n_samples, n_samples), np.uint8)
    on_device.pair_counts.plain(planes, planes, np.array([1, 0.1]), whole, wanted)
    later, earlier = np.tril_indices(n_samples, -1)
    expected = counted(calls, all_pairs(n_samples))
    assert np.array_equal(whole[later, earlier], expected)
    assert np.array_equal(wanted[later, earlier], ~(kinship(expected) < 0.1))
    assert not whole[earlier, later].any()
    assert not wanted[earlier, later].any()
    tile, near_enough = np.empty((n_samples - cut, cut, 5), np.int32), np.empty((n_samples - cut, cut), np.uint8)
    first, second = (np.ascontiguousarray(planes[:, :, rows]) for rows in (slice(cut, None), slice(cut)))
    on_device.pair_counts.plain(first, second, np.array([0, 0.1]), tile, near_enough)
    assert np.array_equal(tile, whole[cut:, :cut])
    assert np.array_equal(near_enough, wanted[cut:, :cut])


def test_near__of_tiles_and_blocks_of_variants_is_near_of_all() -> None:
    calls = random_calls(300, 150)
    calls[:, 7] = 3
    calls[:, 11] = 2 * (calls[:, 11] > 1)
    blocks = [joined([sample_bits(pack(calls[rows, low:high]), high - low) for rows in ROWS]) for low, high in EDGES]
    tiles = [near(blocks[i], blocks[j] if j < i else None, -0.4) for i in range(3) for j in range(i + 1)]
    starts = [(EDGES[i][0], EDGES[j][0]) for i in range(3) for j in range(i + 1)]
    moved = [tile._replace(later=tile.later + a, earlier=tile.earlier + b) for tile, (a, b) in zip(tiles, starts, strict=True)]
    whole = near(sample_bits(pack(calls), 150), None, -0.4)
    found = in_order(moved)
    for column in ("later", "earlier", "counts", "kinship"):
        assert np.array_equal(getattr(found, column), getattr(whole, column))
    assert (found.unknown, found.apart) == (whole.unknown, whole.apart)
    assert whole.unknown > 290
    assert whole.apart == 149


@pytest.mark.parametrize("n_samples", [0, 1])
def test_near__of_nobody_to_pair_is_nobody(n_samples: int) -> None:
    found = near(sample_bits(pack(np.zeros((5, n_samples), np.uint8)), n_samples), None, -1)
    assert (len(found.later), found.counts.shape, found.unknown, found.apart) == (0, (0, 5), 0, 0)
    assert in_order([]).counts.shape == (0, 5)


def test_kinship__is_a_half_for_the_same_person_and_nan_without_heterozygotes() -> None:
    calls = np.array([[1, 1, 0, 3], [2, 2, 2, 3], [0, 0, 2, 3], [1, 1, 0, 3]], np.uint8)
    np.testing.assert_array_equal(kinship(counted(calls, all_pairs(4))), [0.5, np.nan, np.nan, np.nan, np.nan, np.nan])


@needs_data
def test_near__is_what_plink_printed_for_hapmap3() -> None:
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    autosomal = np.isin(chromosomes(DATA / "hapmap3" / "data"), [str(number) for number in range(1, 23)])
    found = near(sample_bits(packed[autosomal], n_samples), None, 0.02)
    printed = read_columns(REFERENCE / "hapmap3" / "king.kin0")
    ids = np.array([line.split()[1] for line in (DATA / "hapmap3" / "data.fam").read_text().splitlines()])
    assert np.array_equal(ids[found.later], printed["IID1"])
    assert np.array_equal(ids[found.earlier], printed["IID2"])
    counts = found.counts
    assert np.array_equal(counts[:, 0], printed["NSNP"].astype(int))
    assert_printed(counts[:, 1] / counts[:, 0], printed["HETHET"], 1e-9)
    assert_printed(counts[:, 4] / counts[:, 0], printed["IBS0"], 1e-9)
    assert_printed(found.kinship, printed["KINSHIP"], 1e-9)


def test_unrelated__keeps_whom_plink_keeps() -> None:
    later, earlier = np.array(PAIRS).T
    assert np.flatnonzero(~unrelated(24, earlier, later)).tolist() == GONE


def test_unrelated__keeps_everyone_without_pairs_and_one_of_a_clique() -> None:
    none = np.zeros(0, np.int64)
    assert unrelated(3, none, none).tolist() == [True] * 3
    later, earlier = np.tril_indices(5, -1)
    assert unrelated(5, earlier, later).sum() == 1
