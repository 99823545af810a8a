"""Buckets of n-grams: the numbers that another program of the same rule gives, today and later."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.gram_hash import gram_buckets, gram_places
from pipeline.kernels.key_hash import fnv1a

TEXTS = [["not", "so", "good"], [], ["größe"], ["a", "b", "c", "d", "e", "f"]]
WIDE = 2**64


def _mixed(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ (value >> 33)) * factor % WIDE
    return value ^ (value >> 33)


def _of_word(word: str) -> int:
    value = 0xCBF29CE484222325
    for byte in word.encode():
        value = (value ^ byte) * 0x100000001B3 % WIDE
    return value


def _bucket(words: list[str], buckets: int) -> int:
    value = _of_word(words[0])
    for word in words[1:]:
        value = (_mixed(value) + _of_word(word)) % WIDE
    return _mixed(value) % buckets


def _buckets(texts: list[list[str]], sizes: tuple[int, int], words: int, buckets: int) -> np.ndarray:
    encoded = [word.encode() for text in texts for word in text]
    data, ends = np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)])
    return gram_buckets(fnv1a(data, ends), np.cumsum([0, *map(len, texts)]), sizes, words, buckets)


@pytest.mark.parametrize(("sizes", "words"), [((1, 2), 4), ((1, 1), 1), ((2, 3), 5), ((3, 3), 3)])
def test_gram_buckets__are_those_of_the_rule_word_by_word(sizes: tuple[int, int], words: int) -> None:
    found = _buckets(TEXTS, sizes, words, 1_000)
    assert found.shape == (4, gram_places(*sizes, words))
    for row, text in zip(found, TEXTS, strict=True):
        start = 0
        for size in range(sizes[0], sizes[1] + 1):
            width = words - size + 1
            grams = [text[at : at + size] for at in range(len(text[:words]) - size + 1)]
            assert row[start : start + width].tolist() == [_bucket(gram, 1_000) for gram in grams] + [-1] * (width - len(grams))
            start += width


def test_gram_buckets__stay_what_they_are_since_published_models_know_them() -> None:
    assert _buckets(TEXTS[:1], (1, 3), 3, 65_536).tolist() == [[39143, 17580, 42228, 35252, 21182, 26581]]


def test_gram_buckets__tell_orders_apart_and_spread_evenly() -> None:
    pair, turned = _buckets([["a", "b"], ["b", "a"]], (2, 2), 2, 2**24)[:, 0]
    assert pair != turned
    words = [[f"word{number}"] for number in range(20_000)]
    counts = np.bincount(_buckets(words, (1, 1), 1, 100)[:, 0], minlength=100)
    assert ((counts - 200) ** 2 / 200).sum() < 150  # chi-squared of 99 degrees of freedom
