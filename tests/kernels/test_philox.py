"""Philox against the vectors that its authors publish, and the distributions that are made of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.kernels.philox import box_muller, key_of, normals_of, philox4x32, uniforms_of, uniforms_plain

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
    whole = normals_of(PATHS, 3, 3, 1, key_of(7))
    for first, last in ((0, 1), (777, 801), (1_234, 9_999)):
        np.testing.assert_array_equal(whole[:, first:last], normals_of(PATHS[first:last], 3, 3, 1, key_of(7)))
    for others in ((3, 1, key_of(8)), (4, 1, key_of(7)), (3, 2, key_of(7)), (3, 1, key_of(7 + (1 << 40)))):
        assert abs(np.corrcoef(whole[0], normals_of(PATHS, 3, *others)[0])[0, 1]) < 4 / np.sqrt(len(PATHS))


def test_uniforms_and_normals__are_distributed_as_they_should_be() -> None:
    uniforms = uniforms_of(PATHS, range(2), 0, key_of(1)).reshape(4, -1)
    for values, law in ((uniforms, "uniform"), (normals_of(PATHS, 5, 0, 0, key_of(1)), "norm")):
        for value in values:
            assert stats.kstest(value, law).pvalue > 1e-4
        between = np.corrcoef(values) - np.eye(len(values))
        assert abs(between).max() < 4.5 / np.sqrt(len(PATHS))


def test_the_compiled_kernel__gives_what_the_plain_one_does() -> None:
    far = PATHS * np.uint64(1 << 33) + np.uint64(5)
    plain = uniforms_plain(far, range(18, 20), 2, key_of(1 << 62))
    np.testing.assert_array_equal(uniforms_of(far, range(18, 20), 2, key_of(1 << 62)), plain)
    normals = box_muller(plain).reshape(4, -1)[:3]
    np.testing.assert_allclose(normals_of(far, 3, 9, 2, key_of(1 << 62)), normals, rtol=1e-13, atol=3e-15)
