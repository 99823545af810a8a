"""A query as the text that Polars' SQL runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from pipeline.backend.devices import Backend
from pipeline.sql.queries.beforehand import Made
from pipeline.sql.queries.exact import made_exact
from pipeline.sql.queries.lacking import made_up_for
from pipeline.sql.queries.mended import mended
from pipeline.sql.queries.moved import moved
from pipeline.sql.queries.ordered import made_ordered
from pipeline.sql.queries.parsed import parsed
from pipeline.sql.queries.read import read_columns
from pipeline.sql.queries.spelled import spelled
from pipeline.sql.queries.subqueries import taken_apart
from pipeline.sql.queries.worded import worded


class Written(NamedTuple):
    """The text for Polars' SQL, columns that its tables need before, and those that it reads of each table of `from`."""

    text: str
    made: Made
    reads: Mapping[str, frozenset[str]]


Schemas = Mapping[str, pl.Schema]
_KNOWN: dict[tuple[str, bool], tuple[Schemas, Written]] = {}
_MOST = 64  # texts that are known


def written(text: str, schemas: Schemas, backend: Backend) -> Written:
    """A query on tables of these columns. Raises ExpressionError."""
    asked = (text, backend != "cpu")
    known = _KNOWN.get(asked)
    if known is None or not _is_of(*known, schemas):
        known = (dict(schemas), _written(*asked, schemas))
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        _KNOWN[asked] = known
    return known[1]


def _is_of(whole: Schemas, found: Written, schemas: Schemas) -> bool:
    """Whether tables have what the query reads of those that it was written for, and nothing else: then it says the same of them."""
    same = whole.keys() == schemas.keys() and all(schema.items() <= whole[name].items() for name, schema in schemas.items())
    return same and all(columns <= schemas[name].keys() for name, columns in found.reads.items())


def _written(text: str, on_gpu: bool, schemas: Schemas) -> Written:
    found, made = parsed(text, schemas)
    reads = read_columns(found, made, schemas)
    query = taken_apart(spelled(found))
    wide = "DECIMAL(38,0)" if on_gpu else "INT128"  # cuDF has no integers of 128 bits; Polars adds them up four times as fast
    asked = moved(made_ordered(mended(made_up_for(made_exact(query, wide=wide)), wide=wide)))
    return Written(worded(asked), made, reads)
