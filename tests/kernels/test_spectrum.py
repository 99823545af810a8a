from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

from pipeline.kernels.spectrum import amplitudes, densities, frequencies, hann, transformed

SIGNALS = np.random.default_rng(3).normal(size=(31, 2))


@pytest.mark.parametrize("samples", [2, 7, 30, 31])
def test_densities__are_scipys_and_add_up_to_the_mean_square(samples: int) -> None:
    some, step = SIGNALS[:samples], 0.5
    for name, window in (("boxcar", None), ("hann", hann(samples, some))):
        found = densities(transformed(some, window), samples, step, window)
        there, theirs = scipy.signal.periodogram(some, fs=2.0, window=name, detrend=False, axis=0)
        np.testing.assert_allclose(frequencies(samples, step), there, rtol=1e-15)
        np.testing.assert_allclose(found, theirs, rtol=1e-12, atol=1e-15)
    whole = densities(transformed(some, None), samples, step, None).sum(axis=0) / (samples * step)
    np.testing.assert_allclose(whole, (some**2).mean(axis=0), rtol=1e-13)


def test_amplitudes__are_those_of_cosines() -> None:
    at = np.arange(16)
    signal = 3 + 2 * np.cos(2 * np.pi * 3 * at / 16) + np.cos(np.pi * at)
    for window in (None, hann(16, at)):
        found = amplitudes(transformed(signal[:, None], window), 16, window)[:, 0]
        assert found[[3, 8]] == pytest.approx([2, 1], abs=1e-13)
    assert amplitudes(transformed(signal[:, None], None), 16, None)[0, 0] == pytest.approx(3, abs=1e-13)
