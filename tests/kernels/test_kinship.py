from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels.device import kinship as on_device
from pipeline.kernels.genotypes import pack
from pipeline.kernels.kinship import kinship, pair_counts, pair_members, unrelated
from tests.kernels.plink_files import DATA, REFERENCE, assert_printed, chromosomes, needs_data, read_bed, read_columns

SIZES = [(0, 5), (1, 2), (3, 4), (63, 7), (65, 33), (700, 70), (16_500, 9)]
# Pairs of 24 people above a cutoff, and whom PLINK 2.00a3.5's --king-cutoff took away.
PAIRS = [
    (1, 0), (4, 0), (4, 2), (5, 0), (6, 2), (7, 6), (8, 0), (8, 4), (11, 1), (14, 1), (14, 3), (14, 8), (17, 14), (17, 16), (18, 3),
    (18, 7), (19, 14), (20, 15), (21, 8), (21, 12), (22, 3), (23, 5), (23, 9),
]  # fmt: skip
GONE = [0, 1, 4, 6, 14, 17, 18, 20, 21, 22, 23]


def random_calls(n_variants: int, n_samples: int) -> NDArray[np.uint8]:
    return np.random.default_rng(n_variants + n_samples).integers(0, 4, (n_variants, n_samples)).astype(np.uint8)


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_pair_counts__count_what_two_share(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    expected = []
    for later in range(n_samples):
        for earlier in range(later):
            one, other = calls[:, earlier], calls[:, later]
            both = (one < 3) & (other < 3)
            states = (both, both & (one == 1) & (other == 1), both & (one == 1), both & (other == 1), both & (abs(one - other * 1.0) == 2))
            expected.append([int(state.sum()) for state in states])
    found = pair_counts(pack(calls), n_samples)
    assert found.dtype == np.int32
    assert np.array_equal(found, np.array(expected).reshape(-1, 5))
    packed = pack(calls)
    planes, plain = np.empty((2, -(-n_variants // 32), 4 * packed.shape[1]), np.uint32), np.empty_like(found)
    on_device.sample_planes.plain(packed, planes)
    on_device.pair_counts.plain(planes, plain)
    assert np.array_equal(plain, found)


def test_pair_counts__of_blocks_add_up() -> None:
    calls = random_calls(300, 12)
    parts = [pair_counts(pack(calls[rows]), 12) for rows in (slice(0, 100), slice(100, 101), slice(101, 300))]
    assert np.array_equal(sum(parts), pair_counts(pack(calls), 12))


@pytest.mark.parametrize("n_samples", [0, 1])
def test_pair_counts__of_nobody_to_pair_are_empty(n_samples: int) -> None:
    packed = pack(np.zeros((5, n_samples), np.uint8))
    assert pair_counts(packed, n_samples).shape == (0, 5)
    assert kinship(pair_counts(packed, n_samples)).shape == (0,)


def test_kinship__is_a_half_for_the_same_person_and_nan_without_heterozygotes() -> None:
    calls = np.array([[1, 1, 0, 3], [2, 2, 2, 3], [0, 0, 2, 3], [1, 1, 0, 3]], np.uint8)
    np.testing.assert_array_equal(kinship(pair_counts(pack(calls), 4)), [0.5, np.nan, np.nan, np.nan, np.nan, np.nan])


@needs_data
def test_kinship__is_what_plink_printed_for_hapmap3() -> None:
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    autosomal = np.isin(chromosomes(DATA / "hapmap3" / "data"), [str(number) for number in range(1, 23)])
    counts = pair_counts(packed[autosomal], n_samples)
    values = kinship(counts)
    printed = read_columns(REFERENCE / "hapmap3" / "king.kin0")
    listed = np.flatnonzero(values > 0.02)
    ids = np.array([line.split()[1] for line in (DATA / "hapmap3" / "data.fam").read_text().splitlines()])
    earlier, later = pair_members(listed)
    assert np.array_equal(ids[later], printed["IID1"])
    assert np.array_equal(ids[earlier], printed["IID2"])
    counts = counts[listed]
    assert np.array_equal(counts[:, 0], printed["NSNP"].astype(int))
    assert_printed(counts[:, 1] / counts[:, 0], printed["HETHET"], 1e-9)
    assert_printed(counts[:, 4] / counts[:, 0], printed["IBS0"], 1e-9)
    assert_printed(values[listed], printed["KINSHIP"], 1e-9)


def test_pair_members__number_all_pairs() -> None:
    later, earlier = np.tril_indices(300, -1)
    assert np.array_equal(np.stack(pair_members(np.arange(len(later)))), np.stack([earlier, later]))
    last = np.array([50_000 * 49_999 // 2, 200_000 * 199_999 // 2 - 1])
    assert np.array_equal(np.stack(pair_members(last)), [[0, 199_998], [50_000, 199_999]])


def test_unrelated__keeps_whom_plink_keeps() -> None:
    later, earlier = np.array(PAIRS).T
    assert np.flatnonzero(~unrelated(24, earlier, later)).tolist() == GONE


def test_unrelated__keeps_everyone_without_pairs_and_one_of_a_clique() -> None:
    none = np.zeros(0, np.int64)
    assert unrelated(3, none, none).tolist() == [True] * 3
    later, earlier = np.tril_indices(5, -1)
    assert unrelated(5, earlier, later).sum() == 1
