"""Arrays of features as columns, for files that hold columns alone."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pipeline.backend.arrays import to_host
from pipeline.formats._parquet.genotypes import GENOTYPES
from pipeline.tables.columns import AXES, AXIS_IDS
from pipeline.tables.part import Part


def with_features(part: Part, axes: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The rows, arrays of features as columns named by their axis."""
    frame = part.frame
    for name, array in part.arrays.items():
        if name not in GENOTYPES:
            labels = axes[name][AXIS_IDS[AXES[name]]].to_list()
            columns = [pl.Series(label, column) for label, column in zip(labels, to_host(array).T, strict=True)]
            frame = frame.hstack([column.fill_nan(None) if column.dtype.is_float() else column for column in columns])
    return frame
