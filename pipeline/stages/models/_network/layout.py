"""What a network takes of a matrix of features: which columns are numbers, and which codes of categories and of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.stages.models._unfolded.column import Unfolded
from pipeline.stages.models._unfolded.columns import places, unfolded_of
from pipeline.stages.models._unfolded.image import Image
from pipeline.stages.models._unfolded.text import Ngrams


@dataclass(frozen=True)
class Layout:
    """Columns of the matrix: `numbers`, pixels first, and `codes` of the categories, then of each text.

    `names` are those of numbers, categories and texts.
    """

    numbers: tuple[int, ...]
    codes: tuple[int, ...]
    names: tuple[str, ...]

    @staticmethod
    def of(features: Sequence[str], categorical: Sequence[str], unfolded: Mapping[str, Unfolded]) -> Layout:
        """Of features in the order of the matrix."""
        at = places(features, unfolded)
        texts = [name for name in features if isinstance(unfolded.get(name), Ngrams)]
        coded = [*categorical, *texts]
        images = [name for name in features if isinstance(unfolded.get(name), Image)]
        numbers = [*images, *(name for name in features if name not in {*coded, *images})]
        called = [one for name in numbers for one in (unfolded[name].names(name) if name in unfolded else [name])]
        columns = [tuple(column for name in names for column in at[name]) for names in (numbers, coded)]
        return Layout(columns[0], columns[1], (*called, *coded))

    @staticmethod
    def told(description: Mapping[str, Any]) -> Layout:
        """Of a published network."""
        return Layout.of(description["features"], description["categorical"], unfolded_of(description))
