"""Arrow IPC files, which are also called Feather (version 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.files import for_polars
from pipeline.format import OutputFormat
from pipeline.formats._scanned import Read, ScannedInput
from pipeline.tables.part import Part


class ArrowInput(ScannedInput):
    """Arrow IPC files (Feather version 2), a part each; files are one table by their columns' names."""

    name = "arrow"
    suffixes = (".arrow", ".feather", ".ipc")
    noun = "an Arrow IPC file"

    def reads(self) -> Read:
        """A scan."""
        return _scan


class ArrowOutput(OutputFormat):
    """Arrow IPC files, one a part. Arrays have no place in them and are left out."""

    name = "arrow"
    suffix = ".arrow"
    compression: Literal["uncompressed", "lz4", "zstd"] = Field("zstd", description="How the files are compressed.")

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame."""
        part.frame.write_ipc(path, compression=self.compression, compat_level=pl.CompatLevel.oldest())

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows; it knows its types."""
        return pl.scan_ipc(source)


def _scan(path: str) -> pl.LazyFrame:
    return pl.scan_ipc(for_polars(path))
