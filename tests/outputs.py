"""What the tests of outputs share: a table in any number of parts, written as a run writes it, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.format import OutputFormat
from pipeline.job.spec import Output
from pipeline.job.yaml_tree import Place
from pipeline.running.writing import Written, submit_output
from pipeline.tables.names import Order
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import cut, even_sizes


def write_output(
    writer: OutputFormat, whole: Part, axes: Mapping[str, pl.DataFrame], parts: int, folder: Path | str, **keys: Any
) -> list[Written]:
    """What the tasks say they wrote of an output called `out`, under the folder."""
    session = Session()
    schema = Schema(whole.frame.schema, {name: axes[name].schema for name in whole.arrays})
    labels = {name: Table.of(session, "axis", [Part(frame)], schema=Schema(frame.schema)) for name, frame in axes.items()}
    pieces = cut(whole, even_sizes(whole.frame.height, parts))
    table = Table.of(session, "t", pieces, schema=schema, axes=labels)
    output = Output("out", "t", Order(keys.get("sort_by", ())), keys.get("columns"), writer.name, writer, Place(1, 1))

    def file(name: str) -> str:
        path = f"{folder}/{name}"
        if "://" not in path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        return path

    return submit_output(table, output, schema if output.columns is None else None, file)
