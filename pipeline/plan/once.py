"""Inputs that many stages read: decoded once, and held in memory, where that spares most of the decoding and they fit."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pipeline.plan.needed import Needed
from pipeline.plan.plan import Plan
from pipeline.plan.sizes import size_of_input
from pipeline.tables.budget import SHARE, row_bytes
from pipeline.tables.part import Schema

OFTEN = 2.5
"""How many times its bytes a held input must spare its readers at least: it takes memory, and files' statistics spare them no rows then."""


def read_once(plan: Plan, needed: Needed) -> dict[str, int]:
    """Of inputs that are decoded once, how often they are read; together they take a share of the memory for tables at most.

    Those come first of which every byte spares most. None where rows would go from process to process instead, or on a GPU, whose memory
    is for what queries make.
    """
    cluster = plan.job.cluster.for_backend(plan.backend)
    if plan.backend != "cpu" or not cluster.in_this_process:
        return {}
    readers: dict[str, list[frozenset[str]]] = {}
    inputs = {stage.spec.name: stage.spec.inputs for stage in plan.stages}
    for (stage, role), columns in needed.reads.items():
        readers.setdefault(inputs[stage][role], []).append(columns)
    spared, sizes = dict[str, float](), dict[str, int]()
    for name, schema in plan.inputs.items():
        size = size_of_input(schema, plan.rows[name], plan.stamps[name], plan.job.inputs[name].reader)
        if name in readers and size is not None and plan.rows[name] is not None:
            held = _bytes(schema, needed.tables[name])
            spared[name] = sum(_bytes(schema, columns) for columns in readers[name]) / held
            sizes[name] = size.rows * held
    often = [name for name in sorted(spared, key=spared.__getitem__, reverse=True) if spared[name] >= OFTEN]
    left, found = (cluster.memory(plan.backend) or 0) // SHARE if often else 0, dict[str, int]()
    for name in often:
        if sizes[name] <= left:
            found[name], left = len(readers[name]), left - sizes[name]
    return found


def _bytes(schema: Schema, columns: frozenset[str]) -> int:
    kept: Mapping[str, pl.DataType] = {name: dtype for name, dtype in schema.columns.items() if name in columns}
    return row_bytes(Schema(pl.Schema(kept)))
