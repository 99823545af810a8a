"""Words and runs of neighbouring words (n-grams) as numbers of buckets, by hashes that stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]


def gram_places(shortest: int, longest: int, words: int) -> int:
    """How many n-grams, of `shortest` to `longest` words, a text of so many words has."""
    return sum(max(words - size + 1, 0) for size in range(shortest, longest + 1))


def gram_buckets(
    hashes: Words, bounds: np.ndarray[Any, Any], sizes: tuple[int, int], words: int, buckets: int
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The bucket of every n-gram of the first `words` words of texts, int32 [texts, places], -1 where a text has no more of them.

    `hashes` uint64 are those of the words of all texts, those of text i from `bounds[i]` to `bounds[i + 1]`; n-grams have as many words as
    `sizes` say, from and to. Those of one word come first, then those of two, each in the order of the text. An n-gram's hash is the first
    word's, and for every further word that hash mixed plus the word's, modulo 2^64; its bucket is the hash, mixed, modulo `buckets`.
    """
    lengths = np.minimum(np.diff(bounds), words)
    at = np.arange(words)
    known = np.append(hashes, np.uint64(0))
    table = known[np.minimum(bounds[:-1, None] + at, len(hashes))]
    made = np.full((len(lengths), gram_places(*sizes, words)), -1, np.int32)
    grams, start = table, 0
    for size in range(1, sizes[1] + 1):
        if size > words:
            break
        if size > 1:
            grams = mixed_words(grams[:, :-1]) + table[:, size - 1 :]
        if size >= sizes[0]:
            width = words - size + 1
            found = (mixed_words(grams) % np.uint64(buckets)).astype(np.int32)
            made[:, start : start + width] = np.where(at[:width] + size <= lengths[:, None], found, -1)
            start += width
    return made


def mixed_words(values: Words) -> Words:
    """A hash of uint64 values, each for itself: the finalizer of MurmurHash3 (A. Appleby), of 64 bits."""
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xFF51AFD7ED558CCD)
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))
