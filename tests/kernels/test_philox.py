"""Philox against the vectors that its authors publish, and the distributions that are made of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.kernels.philox import box_muller, key_of, normal_pairs, philox4x32, uniform_pairs, uniform_pairs_plain

PATHS = np.arange(20_000, dtype=np.uint64)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # kat_vectors of Random123: nothing, every bit, and the digits of pi
        ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox__gives_the_published_words(counter: list[int], key: tuple[int, int], words: list[int]) -> None:
    first, second, third, fourth = (np.array([word], np.uint64) for word in counter)
    assert [int(word[0]) for word in philox4x32((first, second, third, fourth), key)] == words


def test_a_number__depends_on_its_counter_alone() -> None:
    whole = normal_pairs(PATHS, 3, 1, key_of(7))
    part = normal_pairs(PATHS[777:801], 3, 1, key_of(7))
    for one, other in zip(whole, part, strict=True):
        np.testing.assert_array_equal(one[777:801], other)
    for others in ((3, 1, key_of(8)), (4, 1, key_of(7)), (3, 2, key_of(7)), (3, 1, key_of(7 + (1 << 40)))):
        assert abs(np.corrcoef(whole[0], normal_pairs(PATHS, *others)[0])[0, 1]) < 4 / np.sqrt(len(PATHS))


def test_uniforms_and_normals__are_distributed_as_they_should_be() -> None:
    for values, law in ((uniform_pairs(PATHS, 0, 0, key_of(1)), "uniform"), (normal_pairs(PATHS, 0, 0, key_of(1)), "norm")):
        for value in values:
            assert stats.kstest(value, law).pvalue > 1e-4
        assert abs(np.corrcoef(*values)[0, 1]) < 4 / np.sqrt(len(PATHS))


def test_the_compiled_kernel__gives_what_the_plain_one_does() -> None:
    far = PATHS * np.uint64(1 << 33) + np.uint64(5)
    plain = uniform_pairs_plain(far, 9, 2, key_of(1 << 62))
    for one, other in zip(uniform_pairs(far, 9, 2, key_of(1 << 62)), plain, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(normal_pairs(far, 9, 2, key_of(1 << 62)), box_muller(*plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
