"""Spectra of evenly sampled signals, by fast Fourier transforms of real numbers (Cooley & Tukey 1965)."""

from __future__ import annotations

from typing import Any

from pipeline.backend.arrays import array_module

Array = Any


def hann(samples: int, like: Array) -> Array:
    """The periodic Hann window `float64[samples]`, as spectra want it, beside an array."""
    xp = array_module(like)
    return 0.5 - 0.5 * xp.cos(2 * xp.pi * xp.arange(samples) / samples)


def frequencies(samples: int, step: float) -> Array:
    """Frequencies `float64[samples // 2 + 1]` in cycles per unit of the step between two samples, from 0 to at most half a cycle a step."""
    import numpy as np

    return np.arange(samples // 2 + 1) / (samples * step)


def transformed(signals: Array, window: Array | None) -> Array:
    """`complex128[n // 2 + 1, k]`: the sum over j of w_j x_j exp(-2 pi i f j / n), of signals `float64[n, k]`, f = 0, 1 ... n // 2."""
    return array_module(signals).fft.rfft(signals if window is None else signals * window[:, None], axis=0)


def amplitudes(found: Array, samples: int, window: Array | None) -> Array:
    """`float64[n // 2 + 1, k]`: a sine of amplitude 1 at one of the frequencies has 1 there; at 0 stands the size of the mean."""
    both = _sides(found, samples, 2.0)
    return abs(found) * both / (samples if window is None else float(window.sum()))


def densities(found: Array, samples: int, step: float, window: Array | None) -> Array:
    """One-sided power spectral density, `float64[n // 2 + 1, k]`, squares per unit of frequency: its integral is the mean square."""
    both = _sides(found, samples, 2.0)
    return abs(found) ** 2 * both * (step / (samples if window is None else float((window**2).sum())))


def _sides(found: Array, samples: int, factor: float) -> Array:
    """`float64[n // 2 + 1, 1]`: twice where a negative frequency stands for the same; 0 and half a cycle a step have none."""
    both = array_module(found).full((len(found), 1), factor)
    both[0] = 1.0
    if samples % 2 == 0:
        both[-1] = 1.0
    return both
