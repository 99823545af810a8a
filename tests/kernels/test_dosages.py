"""Hard calls nearest to dosages as PLINK 2 rounds them, in compiled and in plain code, and sums over people."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.dosages import alt_frequencies, call_codes, dosage_sums, genotypes_of, hard_calls, missing_mask
from pipeline.kernels.genotypes import pack, unpack
from pipeline.kernels.standardized import decoded, standard_values, value_sums

RNG = np.random.default_rng(20261123)
DOSAGES = np.where(RNG.random((9, 37)) < 0.1, np.nan, RNG.uniform(0, 2, (9, 37))).astype(np.float32)
# DS of a VCF, and whether PLINK 2.00a3.5 has a hard call for it: steps of 1/16384, at most 1638 from 0, 1 or 2.
CALLED = [0, 0.099, 0.1, 0.9, 0.901, 1, 1.099, 1.1, 1.9, 1.901, 2]
UNCERTAIN = [0.10001, 0.1001, 0.101, 0.5, 0.899, 0.8999, 0.89998, 1.10004, 1.1001, 1.5, 1.899, 1.8999]


def test_call_codes__are_plinks_at_the_threshold() -> None:
    assert call_codes(np.array([CALLED], np.float32)).tolist() == [[0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]]
    assert call_codes(np.array([[*UNCERTAIN, np.nan]], np.float32)).tolist() == [[3] * 13]
    assert call_codes(np.array([[0.125, 0.1251, 0.875, 1.125, 1.126, 2]], np.float32), 0.125).tolist() == [[0, 3, 1, 1, 3, 2]]


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.49])
def test_hard_calls__are_the_codes_packed(threshold: float) -> None:
    edges = np.resize(np.array([*CALLED, *UNCERTAIN], np.float32), (3, 37))
    every = np.concatenate([DOSAGES, edges])
    np.testing.assert_array_equal(hard_calls(every, threshold), pack(call_codes(every, threshold)))
    np.testing.assert_array_equal(hard_calls(np.asfortranarray(every), threshold), pack(call_codes(every, threshold)))
    assert hard_calls(every[:0]).shape == (0, 10)


def test_missing_mask__is_where_no_dosage_is() -> None:
    np.testing.assert_array_equal(unpack(missing_mask(DOSAGES), 37) == 3, np.isnan(DOSAGES))
    calls = hard_calls(DOSAGES)
    assert missing_mask(calls) is calls


def test_dosage_sums__are_of_those_who_count() -> None:
    among = RNG.random(37) < 0.6
    for chosen, given in ((np.ones(37, np.bool_), None), (among, among)):
        sums, picked = dosage_sums(DOSAGES, given), DOSAGES[:, chosen].astype(np.float64)
        np.testing.assert_array_equal(sums.called, (~np.isnan(picked)).sum(axis=1))
        np.testing.assert_allclose(sums.copies, np.nansum(picked, axis=1), rtol=1e-13)
        np.testing.assert_allclose(sums.squares, np.nansum(picked**2, axis=1), rtol=1e-13)
        np.testing.assert_allclose(alt_frequencies(DOSAGES, 37, given), np.nanmean(picked, axis=1) / 2, rtol=1e-13)
    assert np.isnan(alt_frequencies(DOSAGES * np.float32(np.nan), 37)).all()


def test_certain_dosages__give_what_packed_calls_give() -> None:
    codes = RNG.integers(0, 4, (9, 37)).astype(np.uint8)
    calls, dosages = pack(codes), np.where(codes == 3, np.nan, codes).astype(np.float32)
    values, index = standard_values(alt_frequencies(calls, 37)), np.array([5, 0, 36, 5])
    np.testing.assert_array_equal(alt_frequencies(dosages, 37), alt_frequencies(calls, 37))
    np.testing.assert_allclose(decoded(dosages, 37, values), decoded(calls, 37, values), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(value_sums(dosages, 37, values), value_sums(calls, 37, values), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(hard_calls(genotypes_of(dosages, 37, index)), genotypes_of(calls, 37, index))
