"""Texts that tests of networks learn from: words that speak for a class or against it, turned round by a `not` before them."""

from __future__ import annotations

import numpy as np
import polars as pl

TOLD, PLAIN = 20, 40  # words for, as many against, and those that say nothing


def comments(rows: int, seed: int = 20261122) -> pl.DataFrame:
    """Texts of up to twelve words, some missing, a number, a binary label and three classes by what was said, and a split."""
    rng = np.random.default_rng(seed)
    words = np.array(
        ["not", *(f"{kind}{number}" for kind, of in (("fine", TOLD), ("poor", TOLD), ("word", PLAIN)) for number in range(of))]
    )
    weights = np.array([0] + [1] * TOLD + [-1] * TOLD + [0] * PLAIN)
    chance = np.append(0.2, np.full(len(words) - 1, 0.8 / (len(words) - 1)))
    texts, said = [], []
    for length in rng.integers(0, 13, rows):
        chosen = rng.choice(len(words), length, p=chance)
        turned = np.where(np.append(-1, chosen[:-1])[: len(chosen)] == 0, -1, 1)
        said.append(float((weights[chosen] * turned).sum()))
        texts.append(", ".join(words[chosen]).title() if length else None)
    score, x = np.array(said), rng.normal(size=rows)
    frame = pl.DataFrame({"id": np.arange(rows), "comment": texts, "x": x})
    return frame.with_columns(
        label=pl.Series((rng.random(rows) < 1 / (1 + np.exp(-3 * score))).astype(np.int8)),
        group=pl.Series(np.array(["against", "neither", "for"])[np.digitize(score, [-0.5, 0.5])]),
        value=pl.Series(score + x),
        split=pl.Series(rng.choice(["train", "validation", "test"], rows, p=[0.6, 0.15, 0.25])),
    )
