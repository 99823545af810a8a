"""Boosted trees in Treelite's own format, which its C++ library and the forests of RAPIDS read; ours by its reference predictor."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.backend.boosting import import_xgboost
from pipeline.errors import DataError, InputError


def forest_of(content: bytes, *, logistic: bool) -> bytes:
    """A booster as it was saved, as Treelite serializes it; `logistic`: it gives the probabilities of what are log-odds.

    Raises DataError, with the reason, for one that Treelite does not take.
    """
    import treelite

    booster = import_xgboost().Booster()
    booster.load_model(bytearray(content))
    try:
        forest = treelite.frontend.from_xgboost(booster)
    except treelite.TreeliteError as error:
        raise DataError(f"Treelite does not take the booster ({str(error).splitlines()[0]})", key="model") from error
    if logistic:
        forest.get_header_accessor().set_field("postprocessor", "sigmoid")
    serialized: bytes = forest.serialize_bytes()
    return serialized


class TreelitePredictor:
    """Trees that predict by Treelite, on one thread: the tasks are the parallelism. They travel between workers as their bytes."""

    def __init__(self, content: bytes) -> None:
        import treelite

        try:
            self._forest = treelite.Model.deserialize_bytes(content)
        except treelite.TreeliteError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"this is no file of trees that this version of Treelite reads ({reason}). Export the model again.") from error
        self._content = content

    def __reduce__(self) -> tuple[type[TreelitePredictor], tuple[bytes]]:
        return type(self), (self._content,)

    def predict(self, features: Any) -> np.ndarray[Any, Any]:
        """Predictions [rows] or [rows, columns] of [rows, features]."""
        import treelite

        found: np.ndarray[Any, Any] = treelite.gtil.predict(self._forest, np.ascontiguousarray(features), nthread=1)
        columns = found.shape[1] * found.shape[2]
        return found.reshape(len(found), columns) if columns > 1 else found.reshape(len(found))
