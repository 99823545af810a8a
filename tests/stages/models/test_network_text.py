"""network on texts: as good as scikit-learn's hashed n-grams, scored again exactly, and the n-grams that tell."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import StageError
from pipeline.registry import stage_class
from pipeline.stages.models.export import Export
from pipeline.stages.models.network import Network
from pipeline.stages.models.score import Score
from pipeline.testing.stages import even_sizes, plan_stage, run_stage
from tests.stages.models.comments import comments
from tests.stages.models.test_network import Result, train

pytestmark = pytest.mark.long  # JAX compiles its programs

ROWS = comments(10_000)
NGRAMS = {"words": 12, "buckets": 4_096}
LEARNED: dict[str, Any] = {
    "target": "label", "key": "id", "objective": "binary", "features": ["comment"], "text": ["comment"], "ngrams": NGRAMS, "layers": [],
    "dropout": 0, "optimizer": "sgd", "learning_rate": 0.5, "rounds": 30, "early_stopping_rounds": 3,
}  # fmt: skip


def stage_for(**more: Any) -> Network:
    """A network of the comments alone."""
    return Network.model_validate({**LEARNED, **more})


@cache
def trained() -> Result:
    return train(stage_for(), ROWS)


def test_texts__are_classified_as_well_as_by_scikit_learns_hashed_ngrams() -> None:
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    hashing = HashingVectorizer(n_features=4_096, ngram_range=(1, 2), token_pattern=r"\w+", norm="l1", alternate_sign=False)
    splits = {name[0]: part for name, part in ROWS.partition_by("split", as_dict=True).items()}
    texts = {name: hashing.transform(part["comment"].fill_null("").to_list()) for name, part in splits.items()}
    truth = {name: part["label"].to_numpy() for name, part in splits.items()}
    fits = [LogisticRegression(C=strength, max_iter=1_000).fit(texts["train"], truth["train"]) for strength in (1, 10, 100)]
    losses = {name: [log_loss(truth[name], fit.predict_proba(texts[name])) for fit in fits] for name in ("validation", "test")}
    expected = losses["test"][int(np.argmin(losses["validation"]))]
    found = trained().metrics["test"]["log_loss"]
    assert found == pytest.approx(expected, abs=0.015)
    assert found < log_loss(truth["test"], np.full(len(truth["test"]), truth["train"].mean())) - 0.2


def test_score__of_texts_is_what_training_gave_and_a_missing_text_is_one_without_words(tmp_path: Path) -> None:
    score = Score(model=str(trained().published(tmp_path))).opened(stage_class)
    expected = trained().tables[""].select("id", "prediction")
    assert_frame_equal(run_stage(score, {"rows": ROWS.select("id", "comment")}, 3)[""], expected, check_exact=True)
    some = pl.DataFrame({"id": [1, 2, 3], "comment": ["... !", None, ""]})
    assert run_stage(score, {"rows": some})[""]["prediction"].n_unique() == 1
    alike = pl.DataFrame({"id": [1, 2], "comment": ["FINE1; not  poor2", "fine1 not poor2"]})
    assert run_stage(score, {"rows": alike})[""]["prediction"].n_unique() == 1


def test_network__of_texts_is_the_same_for_any_parts_and_over_devices() -> None:
    small = ROWS.head(700)
    given = {"features": ["comment", "x"], "layers": [8], "dropout": 0.2, "batch_size": 64, "rounds": 3, "early_stopping_rounds": None}
    one = train(stage_for(**given), small)
    parts = train(stage_for(**given), small.reverse(), even_sizes(700, 7))
    assert (parts.model, parts.metrics) == (one.model, one.metrics)
    assert_frame_equal(parts.tables["ngrams"], one.tables["ngrams"], check_exact=True)
    several = train(stage_for(**given, parallel={"data": 8}), small)
    assert_frame_equal(several.tables["history"], one.tables["history"], rel_tol=1e-4)
    assert_frame_equal(several.tables[""], one.tables[""], rel_tol=1e-3, abs_tol=1e-4)
    assert set(one.tables["importance"]["feature"]) == {"comment", "x"}


def test_ngrams__that_tell_are_the_words_that_were_sown() -> None:
    found = trained().tables["ngrams"].filter(pl.col("texts") >= 40)
    for towards, kind in (("1", "fine"), ("0", "poor")):
        words = found.filter(pl.col("towards") == towards)["ngram"].to_list()
        assert len(words) > 5
        assert [word for word in words if not word.startswith(kind)] == []
    pairs = trained().tables["ngrams"].filter(pl.col("ngram").str.contains(r"^not (fine|poor)") & (pl.col("texts") >= 8))
    right = pairs.filter((pl.col("towards") == "1") == pl.col("ngram").str.starts_with("not poor"))
    assert right.height >= 0.9 * pairs.height > 5


def test_ngrams__of_several_classes_are_told_class_by_class() -> None:
    classes = ["for", "against", "neither"]
    more = {"target": "group", "objective": "multiclass", "classes": classes, "layers": [8], "rounds": 6, "early_stopping_rounds": None}
    found = train(stage_for(**more, optimizer="adamw", learning_rate=0.01), ROWS.head(1_500))
    assert found.tables["ngrams"]["towards"].unique(maintain_order=True).to_list() == classes
    assert found.metrics["test"]["accuracy"] > 0.45


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"text": ["x"], "features": ["x"]}, "text names 'x', which is Float64, and takes texts"),
        ({"text": ["comment"], "features": ["x"]}, "'comment' is no feature"),
        ({"text": ["coment"]}, "no column 'coment'. Did you mean 'comment'"),
        ({"text": []}, "feature 'comment' is String: .* name it in text or image where it is one"),
        ({"ngrams": {"words": 1}}, "there are no n-grams of 1 to 2 of a text's first 1 words"),
    ],
)
def test_network__refuses_texts_that_are_none(more: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(stage_for(**more), {"rows": ROWS})


def test_export__of_a_network_of_texts_is_refused_by_the_plan(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="the model hashes the words of 'comment' itself, for which ONNX has no words"):
        Export(model=str(trained().published(tmp_path))).opened(stage_class)
