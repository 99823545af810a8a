"""A pooled fit as a published model: the files of `linear`, whose stage reads them."""

from __future__ import annotations

import json

import numpy as np

from pipeline.stages.models._linear.model import LinearModel
from pipeline.stages.models._pooled.solve import Solution


def content(found: Solution) -> bytes:
    """The npz file. Features count from their pooled means, as a missing one does."""
    none = np.empty(0, np.int64)
    slopes = found.coefficients[1:, None]
    return LinearModel(found.means[-1:], found.means[:-1], slopes, none, none, np.empty((0, 1))).saved()


def description(found: Solution, name: str, key: str) -> bytes:
    """The file beside it: every feature is taken as Float64, since sites may have it in several types."""
    features = list(found.names[1:])
    text = {
        "use": "linear", "model": f"{name}.npz", "objective": "regression", "target": found.target, "key": key, "classes": [],
        "precision": "Float64", "predicts": {"prediction": "Float64"}, "features": features, "types": dict.fromkeys(features, "Float64"),
        "arrays": [], "categorical": [], "codes": {}, "family": "normal", "l1": 0.0, "l2": 0.0, "fitted": [],
    }  # fmt: skip
    return (json.dumps(text, indent=1) + "\n").encode()
