"""Counts of the four states of packed calls, by bits, and packed calls of chosen samples; `bytes` is packed calls as `uint8[v * width]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined, popcount, word_at

_LOW = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_ONE, _TWO, _FOUR, _ALL = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def variant_counts(calls: NDArray[np.uint8], width: int, counts: NDArray[np.int64]) -> None:
    """Write the heterozygous, homozygous ALT and missing samples of each variant into columns 1 to 3 of `counts: int64[v, 4]`."""
    words = width // 8
    for variant in range(len(counts)):
        low = high = both = np.uint64(0)
        start = variant * width
        for word in range(words):
            call = word_at(calls, start + 8 * word)
            first, second = call & _LOW, call >> _ONE & _LOW
            low += popcount(first)
            high += popcount(second)
            both += popcount(first & second)
        for place in range(start + 8 * words, start + width):
            call = np.uint64(calls[place])
            first, second = call & _LOW, call >> _ONE & _LOW
            low += popcount(first)
            high += popcount(second)
            both += popcount(first & second)
        counts[variant, 1] = low - both
        counts[variant, 2] = high - both
        counts[variant, 3] = both


@compiled
def sample_counts(calls: NDArray[np.uint8], width: int, counts: NDArray[np.int64]) -> None:
    """Add the heterozygous, homozygous ALT and missing variants of each sample to columns 1 to 3 of `counts: int64[4 * width, 4]`.

    Fields of two bits take three variants, of four bits 15 and of eight bits 255 before they would overflow, and are widened then.
    """
    words, variants = width // 8, len(calls) // width
    grouped = variants - variants % 15
    fields = np.zeros((12, words), np.uint64)
    for start in range(0, grouped, 255):
        fields[:] = 0
        for group in range(start, min(start + 255, grouped), 15):
            _add_fifteen(calls, width, group * width, fields)
        octets = fields.view(np.uint8)
        for byte in range(8 * words):
            for field in range(4):
                both = octets[8 + field, byte]
                counts[4 * byte + field, 1] += octets[field, byte] - both
                counts[4 * byte + field, 2] += octets[4 + field, byte] - both
                counts[4 * byte + field, 3] += both
    for variant in range(variants):
        for byte in range(8 * words if variant < grouped else 0, width):
            call = calls[variant * width + byte]
            for field in range(4):
                counts[4 * byte + field, call >> 2 * field & 3] += 1


@compiled
def _add_fifteen(calls: NDArray[np.uint8], width: int, start: int, fields: NDArray[np.uint64]) -> None:
    """Add 15 variants to `fields`: low bits, high bits and both, of the samples 0 to 3 of every byte, `uint64[3 * 4, width // 8]`."""
    for word in range(fields.shape[1]):
        low_0 = low_1 = high_0 = high_1 = both_0 = both_1 = np.uint64(0)
        for three in range(5):
            low = high = both = np.uint64(0)
            for one in range(3):
                call = word_at(calls, start + (3 * three + one) * width + 8 * word)
                first, second = call & _LOW, call >> _ONE & _LOW
                low += first
                high += second
                both += first & second
            low_0 += low & _PAIRS
            low_1 += low >> _TWO & _PAIRS
            high_0 += high & _PAIRS
            high_1 += high >> _TWO & _PAIRS
            both_0 += both & _PAIRS
            both_1 += both >> _TWO & _PAIRS
        fields[0, word] += low_0 & _NIBBLES
        fields[1, word] += low_1 & _NIBBLES
        fields[2, word] += low_0 >> _FOUR & _NIBBLES
        fields[3, word] += low_1 >> _FOUR & _NIBBLES
        fields[4, word] += high_0 & _NIBBLES
        fields[5, word] += high_1 & _NIBBLES
        fields[6, word] += high_0 >> _FOUR & _NIBBLES
        fields[7, word] += high_1 >> _FOUR & _NIBBLES
        fields[8, word] += both_0 & _NIBBLES
        fields[9, word] += both_1 & _NIBBLES
        fields[10, word] += both_0 >> _FOUR & _NIBBLES
        fields[11, word] += both_1 >> _FOUR & _NIBBLES


@compiled
def add_missing(calls: NDArray[np.uint8], width: int, weights: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
    """Add to `sums: float64[4 * width]` of every sample the weights, `float64[v]`, of the variants it has no call for."""
    for variant in range(len(weights)):
        start = variant * width
        for byte in range(0, width, 8):
            call = _call_word(calls, start + byte, start + width)
            missing = call & call >> _ONE & _LOW
            while missing:
                lowest = popcount((missing & -missing) - _ONE)
                sums[4 * byte + (lowest >> _ONE)] += weights[variant]
                missing &= missing - _ONE


@inlined
def _call_word(calls: NDArray[np.uint8], place: int, end: int) -> Any:
    """The calls from a byte on, 32 samples; those from the byte `end` on are 0."""
    if place + 8 <= end:
        return word_at(calls, place)
    word = np.uint64(0)
    for byte in range(end - place):
        word |= np.uint64(calls[place + byte]) << np.uint64(8 * byte)
    return word


@compiled
def take_runs(calls: NDArray[np.uint8], width: int, runs: NDArray[np.int64], taken: NDArray[np.uint8]) -> None:
    """Write into `taken: uint8[v, w]`, packed, the samples of `runs: int64[r, 2]`, each a first sample and how many follow on it."""
    for variant in range(taken.shape[0]):
        start, word, bits, place = variant * width, np.uint64(0), 0, 0
        for run in range(len(runs)):
            sample, left = runs[run]
            while left > 0:
                # Less than a byte is held, so 28 samples more fit into the word, and so many are read from any place in a byte.
                shift, number = 2 * (sample & 3), min(28, left)
                call = _call_word(calls, start + (sample >> 2), start + width) >> np.uint64(shift)
                word |= (call & (_ALL >> np.uint64(64 - 2 * number))) << np.uint64(bits)
                bits += 2 * number
                sample += number
                left -= number
                while bits >= 8:
                    taken[variant, place] = np.uint8(word & np.uint64(255))
                    word >>= np.uint64(8)
                    bits -= 8
                    place += 1
        if bits > 0:
            taken[variant, place] = np.uint8(word)
