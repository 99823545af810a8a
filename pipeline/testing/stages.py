"""A stage run on small tables, in any number of parts, in this process or on the session given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from pipeline.backend.devices import Backend
from pipeline.stage import Context, Stage
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.counts import unseen
from pipeline.tables.part import Part, Schema, added_counts, concat_parts, take
from pipeline.tables.session import Session
from pipeline.tables.table import Table

Data = pl.DataFrame | Part
Tables = Mapping[str, Data]
SEED = 20261121


def table_schemas(tables: Tables, axes: Mapping[str, pl.DataFrame] | None = None) -> dict[str, Schema]:
    """The schema of each table; `axes` labels the arrays of those that have some."""
    labels = {name: axis.schema for name, axis in (axes or {}).items()}
    return {
        role: Schema(data.frame.schema, {name: labels[name] for name in data.arrays}) if isinstance(data, Part) else Schema(data.schema)
        for role, data in tables.items()
    }


def plan_stage(stage: Stage, tables: Tables, axes: Mapping[str, pl.DataFrame] | None = None, backend: Backend = "cpu") -> dict[str, Schema]:
    """The schemas that the stage plans to give for tables like these."""
    session = Session()
    session.backend = backend
    return stage.plan(table_schemas(tables, axes), Context("tested", SEED, session))


def cut(data: Data, sizes: Sequence[int]) -> list[Part]:
    """A table as parts of so many rows each."""
    whole = data if isinstance(data, Part) else Part(data)
    bounds = [0, *(sum(sizes[: i + 1]) for i in range(len(sizes)))]
    return [Part(whole.frame[low:high], {name: array[low:high] for name, array in whole.arrays.items()}) for low, high in pairwise(bounds)]


def even_sizes(rows: int, parts: int) -> list[int]:
    """Rows of each part, as even as can be."""
    return [rows * (i + 1) // parts - rows * i // parts for i in range(parts)]


def height(data: Data) -> int:
    """Rows of a table."""
    return data.frame.height if isinstance(data, Part) else data.height


def shuffled(data: Data, seed: int = 3) -> Data:
    """The rows in another order."""
    order = np.random.default_rng(seed).permutation(height(data))
    if isinstance(data, Part):
        return Part(data.frame[order], {name: take(array, order) for name, array in data.arrays.items()})
    return data[order]


def run_parts(
    stage: Stage, tables: Mapping[str, Sequence[Part]], session: Session | None = None, axes: Mapping[str, pl.DataFrame] | None = None
) -> dict[str, list[Part]]:
    """The parts that the stage gives, by table; their schema must be the planned one."""
    session = session or Session()
    context = Context("tested", SEED, session)
    schemas = table_schemas({role: parts[0] for role, parts in tables.items()}, axes)
    planned = stage.plan(schemas, replace(context, session=Session()))
    labels = {name: Table.of(session, "axis", [Part(frame)], schema=Schema(frame.schema)) for name, frame in (axes or {}).items()}
    given = {
        role: Table.of(session, role, parts, schema=schemas[role], axes=labels, size=_size(parts, schemas[role]))
        for role, parts in tables.items()
    }
    found: dict[str, list[Part]] = {}
    for name, table in stage.run(given, context).tables.items():
        found[name] = [future.result() if session.is_future(future) else future for future in table.futures()]
        assert all(part.frame.schema == planned[name].columns for part in found[name]), (planned[name], found[name][0].frame.schema)
    assert set(found) == set(planned)
    return found


def _size(parts: Sequence[Part], schema: Schema) -> Size | None:
    """As a run knows it: of what has arrays with an axis it is not."""
    return None if schema.arrays else Size(sum(part.rows for part in parts), row_bytes(schema))


def run_stage(stage: Stage, tables: Tables, parts: int = 1, session: Session | None = None) -> dict[str, pl.DataFrame]:
    """The frames that the stage gives, by table ('' is its own), from tables cut into so many parts."""
    pieces = {role: cut(data, even_sizes(height(data), parts)) for role, data in tables.items()}
    return {name: concat_parts(found).frame for name, found in run_parts(stage, pieces, session).items()}


def counts_of(stage: Stage, tables: Tables, parts: int = 1) -> dict[str, int]:
    """What the stage's tasks counted, over all parts, without the stage's name before it."""
    pieces = {role: cut(data, even_sizes(height(data), parts)) for role, data in tables.items()}
    counts = added_counts([part.counts for part in run_parts(stage, pieces)[""]])
    found: dict[str, int] = {}
    for name, count in counts.items():
        plain = unseen(name, count, {})[0].split(":")[-1]
        found[plain] = found.get(plain, 0) + count
    return found


def assert_same_for_any_parts(
    stage: Stage, tables: Tables, sort_by: Sequence[str], *, order: bool = True, session: Session | None = None
) -> pl.DataFrame:
    """The stage's own table, after it was the same from 1, 2 and 7 parts, from empty ones, and (`order`) from rows in another order."""
    expected = run_stage(stage, tables)[""].sort(sort_by, nulls_last=True)
    everywhere = {what: dict.fromkeys(tables, count) for what, count in (("2 parts", 2), ("7 parts", 7))}
    uneven = {role: 1 + 2 * i for i, role in enumerate(tables)}
    counts = {**everywhere, "one part and many": uneven, "many parts and one": dict(zip(tables, reversed(uneven.values()), strict=True))}
    runs = {what: {role: cut(tables[role], even_sizes(height(tables[role]), n)) for role, n in by.items()} for what, by in counts.items()}
    runs["empty parts"] = {role: cut(data, [0, *even_sizes(height(data), 2), 0]) for role, data in tables.items()}
    if order:
        runs["another order"] = {role: cut(shuffled(data), even_sizes(height(data), 3)) for role, data in tables.items()}
    for what, pieces in runs.items():
        found = concat_parts(run_parts(stage, pieces, session)[""]).frame.sort(sort_by, nulls_last=True)
        try:
            assert_frame_equal(found, expected, rel_tol=1e-12, abs_tol=1e-12)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error
    return expected
