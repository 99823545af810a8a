"""rank_to_normal and text_features by what their pages say, in plain Python with scikit-learn's weights: DuckDB has none of these."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import polars as pl
from hypothesis import strategies as st

from pipeline.stages.features.rank_to_normal import RankToNormal
from pipeline.stages.features.text_features import TextFeatures
from tests.differential.cases import Case
from tests.differential.feature_stages import NUMBERS, _fit
from tests.differential.oracle import Plain
from tests.differential.tables import some, tables

PICKED: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "": lambda rows: rows,
    "row % 2 = 0": lambda rows: rows.gather_every(2),
    "row < 3": lambda rows: rows.head(3),
}
LEAST = Fraction(1, 10**7)


@st.composite
def rank_to_normal(draw: st.DrawFn) -> Case:
    """Numbers by their rank among the rows learned from."""
    names, quantiles, where = draw(some(NUMBERS)), draw(st.sampled_from([2, 5, 20, 200])), draw(st.sampled_from(list(PICKED)))

    def made(given: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        rows = given["rows"]
        return rows.with_columns(_ranked(rows[name], PICKED[where](rows)[name], quantiles) for name in names)

    stage = RankToNormal.model_validate({"columns": names, "quantiles": quantiles, **_fit(where)})
    return Case(stage, {"rows": draw(tables(least=1))}, Plain(f"ranks of {names}, {quantiles}, {where}", made))


def _ranked(values: pl.Series, learned: pl.Series, quantiles: int) -> pl.Series:
    """Each value's share on the line between exact quantiles, as a value of a normal distribution."""
    known = sorted(Fraction(value) for value in learned.drop_nulls())
    knots = [_quantile(known, Fraction(place, quantiles - 1)) for place in range(quantiles)] if known else []
    found = [None if value is None or not knots else _normal(_share(Fraction(value), knots)) for value in values]
    return pl.Series(values.name, found, dtype=pl.Float64)


def _quantile(known: Sequence[Fraction], share: Fraction) -> Fraction:
    whole, part = divmod((len(known) - 1) * share, 1)
    return known[whole] + part * (known[min(whole + 1, len(known) - 1)] - known[whole])


def _share(value: Fraction, knots: Sequence[Fraction]) -> Fraction:
    """Where a value is among the knots, from 0 to 1; of one that several knots are, in their middle, at the ends 0 and 1."""
    if knots[0] == knots[-1]:
        return Fraction(1 + (value > knots[0]) - (value < knots[0]), 2)
    if value <= knots[0] or value >= knots[-1]:
        return Fraction(value >= knots[-1])
    below, beyond = bisect_left(knots, value), bisect_right(knots, value)
    if below < beyond:
        return Fraction(below + beyond - 1, 2 * (len(knots) - 1))
    low, high = knots[below - 1], knots[below]
    return (below - 1 + (value - low) / (high - low)) / (len(knots) - 1)


def _normal(share: Fraction) -> float:
    return NormalDist().inv_cdf(float(min(max(share, LEAST), 1 - LEAST)))


@st.composite
def text_features(draw: st.DrawFn) -> Case:
    """Words and n-grams in buckets: counted, there or not, or weighed by what some rows say."""
    buckets, weights, keep = (
        draw(st.sampled_from([2, 7, 64])),
        draw(st.sampled_from(["counts", "binary", "tfidf", "tfidf"])),
        draw(st.booleans()),
    )
    ngrams = draw(st.sampled_from([(1, 1), (1, 2), (2, 2), (2, 4)]))
    where = draw(st.sampled_from(list(PICKED))) if weights == "tfidf" else ""
    rows = draw(tables(least=1))
    pieces = [pl.col("word"), pl.col("code"), pl.col("word").reverse(), pl.col("flag").cast(pl.String)]
    joined = pl.concat_str(pieces, separator=draw(st.sampled_from([" ", "-", "\n", ""])), ignore_nulls=draw(st.booleans()))
    rows = rows.with_columns(joined.alias("text"))

    def made(given: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        rows = given["rows"]
        counts = np.array([_counts(text, ngrams, buckets) for text in rows["text"]])
        if weights == "tfidf":
            counts = _weighed(counts, PICKED[where](rows.select("row"))["row"].to_numpy())
        found = np.sign(counts) if weights == "binary" else counts
        columns = [pl.Series(f"text_{place}", found[:, place], dtype=pl.Float64) for place in range(buckets)]
        return (rows if keep else rows.drop("text")).with_columns(columns)

    given = {"column": "text", "buckets": buckets, "ngrams": ngrams, "weights": weights, "keep": keep, **_fit(where)}
    return Case(TextFeatures.model_validate(given), {"rows": rows}, Plain(f"words, {given}", made))


def _counts(text: str | None, ngrams: tuple[int, int], buckets: int) -> list[int]:
    words = _words((text or "").lower())
    found = [" ".join(words[at : at + size]) for size in range(ngrams[0], ngrams[1] + 1) for at in range(len(words) - size + 1)]
    tally = Counter(_bucket(piece, buckets) for piece in found)
    return [tally[place] for place in range(buckets)]


def _words(text: str) -> list[str]:
    """The stretches of letters, their marks, digits and underscores that are two long at least."""
    kinds = (unicodedata.category(sign) for sign in text)
    spaced = "".join(sign if kind[0] in "LM" or kind in {"Nd", "Pc"} else " " for sign, kind in zip(text, kinds, strict=True))
    return [word for word in spaced.split(" ") if len(word) > 1]


def _bucket(piece: str, buckets: int) -> int:
    """FNV-1a, its upper half folded into the lower, modulo the buckets."""
    word = 0xCBF29CE484222325
    for byte in piece.encode():
        word = ((word ^ byte) * 0x100000001B3) % 2**64
    return (word ^ (word >> 32)) % buckets


def _weighed(counts: np.ndarray[tuple[int, int]], learned: np.ndarray[tuple[int]]) -> np.ndarray[tuple[int, int]]:
    from sklearn.feature_extraction.text import TfidfTransformer

    found: np.ndarray[tuple[int, int]] = TfidfTransformer().fit(counts[learned]).transform(counts).toarray()
    return found
