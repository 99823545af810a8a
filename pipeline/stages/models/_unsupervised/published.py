"""A model of points as it is published: arrays in an npz file without pickles, and the file beside it that says what they are of."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl

from pipeline.errors import InputError
from pipeline.kernels.moments import Scaling
from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import Given, described, with_states
from pipeline.stages.models._unsupervised.rows import Points
from pipeline.tables.part import Part
from pipeline.tables.table import Fitted, Table

Array = Any


@dataclass(frozen=True)
class Found:
    """What a stage learned: its arrays by name (those of `own_files` beside the scaling), what it says of itself, tables, warnings."""

    scaling: Scaling
    arrays: Mapping[str, Array]
    own: Mapping[str, Any]
    tables: Mapping[str, Part]
    warnings: tuple[str, ...] = ()


def packed(found: Found) -> bytes:
    """The model's own file; the same bytes for the same arrays."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **found.scaling._asdict(), **found.arrays)
    return file.getvalue()


def unpacked(content: bytes, names: Sequence[str]) -> tuple[Scaling, dict[str, Array]]:
    """The scaling and the arrays of those names. Raises InputError for bytes that are no such file."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return Scaling(*(file[name] for name in Scaling._fields)), {name: file[name] for name in names}
    except (ValueError, KeyError, OSError, EOFError, BadZipFile) as error:
        raise InputError(f"these bytes are no model ({type(error).__name__}: {error}). Train it again.") from error


def description(
    points: Points, names: Sequence[str], predicts: Mapping[str, str], fitted: Sequence[Fitted], own: Mapping[str, Any]
) -> bytes:
    """The file beside the model: what every model says of itself, and its `own`."""
    stage = points.stage
    text = {
        "use": stage.name, "model": f"{points.name}.npz", "key": stage.key, "precision": "Float64", "predicts": dict(predicts),
        "features": list(names), "types": dict(zip(points.columns, points.types, strict=True)), "arrays": list(points.arrays),
        "categorical": [], "codes": {}, "missing": stage.missing, **own, "fitted": described(fitted),
    }  # fmt: skip
    return (json.dumps(text, indent=1, default=str) + "\n").encode()


def published(points: Points, rows: Table, found: Any, predicts: Mapping[str, pl.DataType], context: Context) -> Outcome:
    """The files, tables and warnings of a `Found` that is still to come; `rows` are those that the stage was given."""
    submit, name = context.session.submit, context.name
    given = Given.of(rows, points.arrays, [])
    types = {column: str(dtype) for column, dtype in predicts.items()}
    beside = submit(_described, points, found, types, given.axes, given.steps, given.states, stage=name)
    files = {f"{name}.npz": submit(packed, found, stage=name), f"{name}.json": beside}
    return Outcome({}, files, warnings=submit(_warnings, found, stage=name))


def table_of(found: Any, which: str, context: Context) -> Table:
    """One of the tables of a `Found` that is still to come."""
    return Table.of(context.session, context.name, [context.session.submit(_table, found, which, stage=context.name)])


def answers(table: Table, context: Context) -> Table:
    """The rows with what the model says of them, as parts that know nothing of what they were made of."""
    return Table(context.session, context.name, table.hold().blocks, size=table.size)


def _described(
    points: Points, found: Found, predicts: Mapping[str, str], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]
) -> bytes:
    return description(points, points.feature_names(axes), predicts, with_states(steps, states), found.own)


def _table(found: Found, which: str) -> Part:
    return found.tables[which]


def _warnings(found: Found) -> list[str]:
    return list(found.warnings)
