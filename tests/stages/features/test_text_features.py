"""text_features."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stages.features.text_features import TextFeatures
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

RANDOM = random.Random(4)
WORDS = ["home", "Car", "the", "a", "Zürich", "loan-2", "x_1", "日本", ", ", "car", "café"]
FRAME = pl.DataFrame(
    {
        "id": range(50),
        "text": [RANDOM.choice([None, "", *([" ".join(RANDOM.choices(WORDS, k=RANDOM.randint(1, 8)))] * 8)]) for _ in range(50)],
        "split": ["train"] * 30 + ["test"] * 20,
    }
)
EXAMPLES = [
    StageExample(TextFeatures(column="text", buckets=5, ngrams=(1, 2), fit_where="id < 20"), {"rows": FRAME}, ordered=True),
    StageExample(TextFeatures(column="text", buckets=3, weights="binary", keep=True), {"rows": FRAME}, ordered=True),
]


def bucket(token: str, buckets: int) -> int:
    """The documented bucket in plain Python."""
    word = 0xCBF29CE484222325
    for byte in token.encode():
        word = ((word ^ byte) * 0x100000001B3) & (2**64 - 1)
    return (word ^ (word >> 32)) % buckets


def hashed_counts(texts: list[str], ngrams: tuple[int, int], buckets: int) -> np.ndarray[Any, Any]:
    """What scikit-learn counts, each of its words put into its bucket."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(ngram_range=ngrams)
    counts = vectorizer.fit_transform(texts).toarray()
    found = np.zeros((len(texts), buckets))
    for token, place in vectorizer.vocabulary_.items():
        found[:, bucket(token, buckets)] += counts[:, place]
    return found


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("weights", ["counts", "binary", "tfidf"])
def test_text_features__are_those_of_scikit_learn(ngrams: tuple[int, int], weights: Any) -> None:
    from sklearn.feature_extraction.text import TfidfTransformer

    stage = TextFeatures(
        column="text", buckets=20, ngrams=ngrams, weights=weights, fit_where="split = 'train'" if weights == "tfidf" else None
    )
    found = assert_same_for_any_parts(stage, {"rows": FRAME}, ["id"])
    assert found.columns == ["id", "split", *(f"text_{place}" for place in range(20))]
    expected = hashed_counts(FRAME["text"].fill_null("").to_list(), ngrams, 20)
    if weights == "tfidf":
        learns = (FRAME["split"] == "train").to_numpy()
        expected = TfidfTransformer().fit(expected[learns]).transform(expected).toarray()
    if weights == "binary":
        expected = (expected > 0).astype(float)
    np.testing.assert_allclose(found.drop("id", "split").to_numpy(), expected, rtol=1e-12, atol=1e-15)


def test_text_features__repeats_what_it_learned_on_raw_rows() -> None:
    stage = TextFeatures(column="text", buckets=8, fit_where="split = 'train'")
    found = run_stage(stage, {"rows": FRAME}, 3)
    again = stage.apply(FRAME.drop("split").lazy(), found["fitted"]).collect()
    assert again.equals(found[""].drop("split"))


def test_text_features__of_nothing_is_zero() -> None:
    frame = pl.DataFrame({"text": pl.Series([None, "", "a b"], dtype=pl.String)})
    found = run_stage(TextFeatures(column="text", buckets=2, ngrams=(1, 3)), {"rows": frame}, 2)[""]
    assert found.rows() == [(0.0, 0.0)] * 3


def test_text_features__refuses_what_does_not_fit() -> None:
    with pytest.raises(StageError, match="'id' is Int64, and words are those of text"):
        plan_stage(TextFeatures(column="id"), {"rows": FRAME})
    with pytest.raises(StageError, match="a column 'text_1' already"):
        plan_stage(TextFeatures(column="text"), {"rows": FRAME.with_columns(text_1=1)})
    with pytest.raises(ValidationError, match="must be two numbers from 1 to 5"):
        TextFeatures(column="text", ngrams=(2, 1))
    with pytest.raises(ValidationError, match="counts are not learned"):
        TextFeatures(column="text", weights="counts", fit_where="id > 1")
