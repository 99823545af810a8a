"""The tables that a network of texts or images gives beside those of every network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.mistakes import MISTAKES, mistakes
from pipeline.stages.models._network.rows import Material
from pipeline.stages.models._network.telling import TELLING, telling_ngrams
from pipeline.stages.models._training_rows import TrainingRows
from pipeline.tables.part import Part

if TYPE_CHECKING:
    from pipeline.neural.saved import Trained


def shown_columns(stage: DeepLearning) -> Mapping[str, Mapping[str, pl.DataType]]:
    """The tables and their columns: n-grams that tell, and images that were mistaken for others."""
    classes = stage.image is not None and stage.objective != "regression"
    return {**({"ngrams": TELLING} if stage.text else {}), **({"mistakes": MISTAKES} if classes else {})}


def shown(learning: Learning[DeepLearning], network: Trained, material: Material, rows: TrainingRows, predicted: Any) -> dict[str, Part]:
    """The tables."""
    found, tables = dict[str, Part](), shown_columns(learning.stage)
    if "ngrams" in tables:
        found["ngrams"] = telling_ngrams(learning, network, material, rows.part.frame)
    if "mistakes" in tables:
        found["mistakes"] = mistakes(learning, rows, predicted)
    return found
