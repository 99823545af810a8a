"""The functions that Polars' SQL does not have, by name: each makes a node of its checked arguments and their types."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from pipeline.sql.cut import left, right, split_part
from pipeline.sql.hashed import hashed
from pipeline.sql.moments import at_time_zone, date_trunc
from pipeline.sql.nested import field, list_contains, list_extract, string_split
from pipeline.sql.patterns import regexp_extract, regexp_replace
from pipeline.sql.spelling import ZONE
from pipeline.sql.tree import Node

OWN: dict[str, Callable[[list[Node], list[pl.DataType]], Node]] = {
    ".": field,
    ZONE: at_time_zone,
    "date_trunc": date_trunc,
    "hash": hashed,
    "left": left,
    "list_contains": list_contains,
    "list_extract": list_extract,
    "regexp_extract": regexp_extract,
    "regexp_replace": regexp_replace,
    "right": right,
    "split_part": split_part,
    "string_split": string_split,
}
