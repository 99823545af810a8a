"""Arrow IPC files, which are also called Feather (version 2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.bounds import Bounds
from pipeline.errors import InputError
from pipeline.files import for_polars, open_file, stamp
from pipeline.format import OutputFormat
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._scanned import Check, Read, ScannedInput
from pipeline.tables.part import Part


class ArrowInput(ScannedInput, BoundedInput):
    """Arrow IPC files (Feather version 2), a part each; files are one table by their columns' names."""

    name = "arrow"
    suffixes = (".arrow", ".feather", ".ipc")
    noun = "an Arrow IPC file"

    def reads(self) -> Read:
        """A scan."""
        return _scan

    def checks(self) -> Check:
        """Its batches are what they say: Polars maps them and believes them."""
        return partial(need_batches, limits=self.limits)


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


def need_batches(path: str, limits: Bounds) -> None:
    """Raise InputError where a batch is damaged, by all of its offsets and texts, or comes to more than the limits allow."""
    import pyarrow as pa

    size, held = stamp(path).size, 0
    with open_file(path) as file:
        try:
            batches = pa.ipc.open_file(file)
            for number in range(batches.num_record_batches):
                batch = batches.get_batch(number)
                batch.validate(full=True)
                held += batch.nbytes
                limits.need_table(path, size, held)
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            what = str(error).partition("\n")[0][:200]
            raise InputError(f"{path}: cannot be read whole ({what}). It is damaged: copy it again, or write it anew.") from error


def _scan(path: str) -> pl.LazyFrame:
    return pl.scan_ipc(for_polars(path))
