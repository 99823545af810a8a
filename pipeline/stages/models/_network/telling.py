"""The n-grams of a network's texts that move what it gives most, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.rows import Material
from pipeline.stages.models._unfolded.text import Ngrams
from pipeline.tables.part import Part

if TYPE_CHECKING:
    from pipeline.neural.saved import Trained

Array = Any
SAMPLE, FEWEST, MOST = 2_048, 3, 30  # texts that are looked at, texts that an n-gram stands in, and n-grams of a class
TELLING = {"text": pl.String(), "ngram": pl.String(), "towards": pl.String(), "influence": pl.Float64(), "texts": pl.Int64()}


def telling_ngrams(learning: Learning[DeepLearning], network: Trained, material: Material, rows: pl.DataFrame) -> Part:
    """Of each text and class the n-grams that move the answer most towards it, in some of the training rows, the greatest first."""
    from pipeline.neural.influence import centre_of
    from pipeline.neural.towards import of_embeddings, towards

    stage, train = learning.stage, np.flatnonzero(material.labels.of_split("train"))
    some = train[:: -(-len(train) // SAMPLE)]
    given = material.numbers[some], material.codes[some]
    gradients, centre = towards(network, given, learning.backend), centre_of(network, given)
    found = [pl.DataFrame(schema=TELLING)]
    for place, name in enumerate(stage.text):
        known = _known(stage.ngrams, rows[name][some])
        moved = of_embeddings(network, place, gradients, known["bucket"].to_numpy() + 1, centre)
        for way, values in _ways(stage, moved):
            one = known.select(pl.lit(name).alias("text"), "ngram", pl.lit(way).alias("towards"), pl.Series("influence", values), "texts")
            found.append(one.sort("influence", "ngram", descending=[True, False]).head(MOST))
    return Part(pl.concat([one.cast(pl.Schema(TELLING)) for one in found]))


def _ways(stage: DeepLearning, moved: Array) -> list[tuple[str, Array]]:
    """What an answer can be moved towards, and by how much each n-gram does."""
    if stage.classes:
        return list(zip(stage.class_names, moved.T, strict=True))
    more, less = ("1", "0") if stage.objective == "binary" else ("more", "less")
    return [(more, moved[:, 0]), (less, -moved[:, 0])]


def _known(ngrams: Ngrams, texts: pl.Series) -> pl.DataFrame:
    """N-grams that stand in some texts at least: ngram, texts, bucket."""
    words = pl.DataFrame({"words": ngrams.spoken(texts)}).with_row_index("at").explode("words", empty_as_null=False).lazy()
    kinds = []
    for size in range(ngrams.shortest, ngrams.longest + 1):
        following = [pl.col("words").shift(-step).over("at") for step in range(size)]
        grams = words.select("at", pl.concat_str(following, separator=" ").alias("ngram")).drop_nulls()
        counted = grams.group_by("ngram").agg(pl.col("at").n_unique().cast(pl.Int64).alias("texts")).filter(pl.col("texts") >= FEWEST)
        kinds.append(_with_buckets(ngrams, counted.sort("ngram").collect(), size))
    return pl.concat(kinds)


def _with_buckets(ngrams: Ngrams, grams: pl.DataFrame, size: int) -> pl.DataFrame:
    """N-grams of so many words, each as a text by itself."""
    alone = ngrams.model_copy(update={"shortest": size, "longest": size, "words": size})
    return grams.with_columns(pl.Series("bucket", alone.numbers(grams["ngram"], np.float64)[:, 0].astype(np.int64)))
