"""What a stage that publishes a model gives to those that use it: how the published bytes predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.stage import Whole
from pipeline.stages.models._exported.graph import Graph
from pipeline.stages.models._smaller.forms import Ladder
from pipeline.stages.models._unfolded.column import Unfolded
from pipeline.tables.part import Part

Array = Any


class Predictor(Protocol):
    """A published model that is ready to predict, on a CPU or a GPU."""

    def predict(self, features: Array) -> Array:
        """One number a row, `[rows]`, or one a prediction column, `[rows, columns]`.

        `features [rows, features]` are in the model's precision, in the order of its description, NaN where missing, in the host's memory.
        """
        ...


@runtime_checkable
class Answerer(Protocol):
    """A published model that answers by the values of columns and may give other rows than it is given, on a CPU or a GPU."""

    def answered(self, part: Part, kept: pl.DataFrame) -> Part:
        """`kept`, whose rows go with those of `part`, each as often as there are answers to it, and the columns of the answers."""
        ...


class Learns(Whole):
    """A stage that publishes a model: models/NAME.`suffix` and models/NAME.json, which `score` reads."""

    long = "training"

    suffix: ClassVar[str]
    """Of the model's own file."""
    exports: ClassVar[tuple[str, ...]] = ()
    """The formats that its model can be written in: onnx, where `graph` is there; treelite, where `forest` is."""
    smaller: ClassVar[tuple[str, ...]] = ()
    """The methods of compress that `ladder` has."""

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor | Answerer:
        """The published model: what its JSON file says, and the bytes of its own. Raises InputError for bytes that are none."""
        raise NotImplementedError(f"{cls.__name__} has no predictor")

    @classmethod
    def graph(cls, description: Mapping[str, Any], content: bytes) -> Graph:
        """The published model as a graph of ONNX. Raises DataError, with the reason, for one that ONNX has no words for."""
        raise NotImplementedError(f"{cls.__name__} has no graph")

    @classmethod
    def asked(cls, description: Mapping[str, Any], _columns: Sequence[str]) -> Mapping[str, Any]:
        """The description for a table with these columns, of a model that can be asked in several ways: what it takes and gives there."""
        return description

    @classmethod
    def forest(cls, content: bytes, *, logistic: bool) -> bytes:
        """The published trees as Treelite has them; `logistic`: with the probabilities of what are log-odds."""
        raise NotImplementedError(f"{cls.__name__} has no forest")

    @classmethod
    def ladder(cls, description: Mapping[str, Any], content: bytes, method: str) -> Ladder:
        """Smaller forms of the published model by one of the methods `smaller`."""
        raise NotImplementedError(f"{cls.__name__} has no {method}")

    @classmethod
    def need(cls) -> None:
        """Raise PlaceError where a library that learning and predicting take is not installed."""


NONE: Mapping[str, Unfolded] = {}
COLUMNS = "__columns__"
"""The array of a part whose features among the frame's columns lie on a GPU: CuPy [rows, columns], NaN where missing."""


def feature_matrix(
    part: Part, columns: Sequence[str], arrays: Sequence[str], precision: pl.DataType, unfolded: Mapping[str, Unfolded] = NONE
) -> Array:
    """Columns of the frame, then the arrays', `[rows, features]` in Float32 or Float64, NaN where missing.

    A column that is `unfolded` is several of the matrix. Of `COLUMNS` on a GPU the matrix is there.
    """
    if COLUMNS in part.arrays:
        there = [part.arrays[COLUMNS], *(part.arrays[name] for name in arrays)]
        return array_module(*there).hstack(there, dtype=np.float32) if arrays else there[0]
    dtype = np.float32 if precision == pl.Float32 else np.float64
    pieces = [np.empty((part.frame.height, 0), dtype)]
    for wide, names in groupby(columns, key=unfolded.__contains__):
        if wide:
            pieces += [unfolded[name].numbers(part.frame[name], dtype) for name in names]
        else:
            pieces.append(part.frame.select(pl.col(*names).cast(precision)).to_numpy())
    pieces += [to_host(part.arrays[name]) for name in arrays]
    return pieces[1] if len(pieces) == 2 and not arrays else np.hstack(pieces, dtype=dtype)


def check_finite(columns: Sequence[str], frame: pl.DataFrame, precision: pl.DataType) -> None:
    """Raise DataError for a feature with a value that the model's numbers cannot hold."""
    if not columns:
        return
    most = float(np.finfo(np.float32 if precision == pl.Float32 else np.float64).max)
    every = pl.col(*columns)
    ends = [frame.select(end.cast(pl.Float64)).row(0) for end in (every.min(), every.max())]
    for name, *reached in zip(columns, *ends, strict=True):
        if any(value is not None and abs(value) > most for value in reached):
            beyond = ", or some beyond the 32 bits of the model's numbers" if precision == pl.Float32 else ""
            raise DataError(
                f"feature {name!r} has infinite values (a division by zero?){beyond}. Make them null, or leave it out by exclude."
            )
