"""Which columns of a table are several numbers of a model's matrix each, and where these stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.stages.models._unfolded.column import Unfolded
from pipeline.stages.models._unfolded.image import Image
from pipeline.stages.models._unfolded.text import Ngrams

KINDS: dict[str, type[Unfolded]] = {kind.kind: kind for kind in (Image, Ngrams)}


def told(columns: Mapping[str, Unfolded]) -> dict[str, dict[str, Any]]:
    """For the file beside a model."""
    return {name: {"kind": one.kind, **one.model_dump(mode="json")} for name, one in columns.items()}


def unfolded_of(description: Mapping[str, Any]) -> dict[str, Unfolded]:
    """As `told` wrote it down in a model's description; nothing where it says nothing of it."""
    told = {name: dict(one) for name, one in description.get("unfolded", {}).items()}
    return {name: KINDS[one.pop("kind")].model_validate(one) for name, one in told.items()}


def places(features: Sequence[str], columns: Mapping[str, Unfolded]) -> dict[str, range]:
    """The columns of the matrix that each feature has."""
    found, start = {}, 0
    for name in features:
        size = columns[name].size if name in columns else 1
        found[name] = range(start, start + size)
        start += size
    return found


def matrix_names(description: Mapping[str, Any]) -> list[str]:
    """What the columns of the matrix that a published model takes are called."""
    unfolded = unfolded_of(description)
    return [name for one in description["features"] for name in (unfolded[one].names(one) if one in unfolded else [one])]
