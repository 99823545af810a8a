"""Genotypes in a Parquet file: calls or dosages as a column of as many bytes a row, and the samples in the file's metadata."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.formats._parquet.ranges import RowRange, opened
from pipeline.sql.expression import finite
from pipeline.tables.part import Part, frame_bytes

GENOTYPES = {"calls": np.uint8, "alt_dosages": np.float32}
"""The arrays that become a column of their name, and their type."""

SAMPLES_KEY = b"pipeline.samples"
"""The file metadata that hold the samples: an Arrow IPC frame in base64."""

GROUP_BYTES = 4 << 20  # of genotypes in a row group: small enough for parts of equal size, and as a reader's second copy


def read_genotypes(ranges: Sequence[RowRange], names: Sequence[str]) -> Part:
    """The rows of ranges with these arrays: row group by row group, each copied to its place, so that no second copy is held."""
    frames, arrays, at = [], dict[str, np.ndarray[Any, Any]](), 0
    rows = sum(piece.rows for piece in ranges)
    for table in _tables(ranges):
        for name in names:
            block = _rows_of(table.column(name).combine_chunks(), GENOTYPES[name])
            target = arrays.setdefault(name, np.empty((rows, block.shape[1]), block.dtype))
            target[at : at + len(block)] = block
        at += table.num_rows
        frame = pl.from_arrow(table.drop_columns(list(names)))
        assert isinstance(frame, pl.DataFrame)
        frames.append(frame)
    whole = pl.concat(frames)
    floats = [finite(pl.col(name), dtype).alias(name) for name, dtype in whole.schema.items() if dtype.is_float()]
    return Part(whole.with_columns(floats), arrays)


def _tables(ranges: Sequence[RowRange]) -> Iterator[Any]:
    """The rows of ranges, row group by row group, as Arrow tables; an empty one of a file without rows."""
    import pyarrow.parquet as pq

    for piece in ranges:
        groups = piece.groups()
        with opened(piece.path) as given, pq.ParquetFile(given) as file:
            if not groups:
                yield file.schema_arrow.empty_table()
            for group, start in groups:
                table, low = file.read_row_group(group, use_threads=False), max(piece.offset - start, 0)
                yield table.slice(low, piece.offset + piece.rows - start - low)


def _rows_of(column: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """A fixed-size binary column as `dtype[rows, row's bytes / size]`, without a copy."""
    width = column.type.byte_width
    flat = np.frombuffer(column.buffers()[1] or b"", np.uint8, len(column) * width, column.offset * width)
    return flat.reshape(len(column), width).view(dtype)


def write_genotypes(part: Part, samples: pl.DataFrame, codec: str, path: str) -> None:
    """Write rows and their arrays (on the host), with the samples as metadata; `codec` auto, zstd, snappy, lz4 or uncompressed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame, arrays = part.frame, part.arrays
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    for name, array in arrays.items():
        held = pa.py_buffer(np.ascontiguousarray(array))
        kind = pa.binary(array.shape[1] * array.itemsize)
        table = table.append_column(name, pa.FixedSizeBinaryArray.from_buffers(kind, len(array), [None, held]))
    metadata = {SAMPLES_KEY: base64.b64encode(frame_bytes(samples))}
    groups = sum(array.nbytes for array in arrays.values()) // GROUP_BYTES + 1
    codecs = {"auto": "zstd", "uncompressed": "none"}
    pq.write_table(
        table.replace_schema_metadata(metadata),
        path,
        compression={name: "lz4" if codec == "auto" and name in arrays else codecs.get(codec, codec) for name in table.column_names},
        use_dictionary=[name for name in frame.columns if _repeats(frame[name])],
        write_statistics=frame.columns,
        row_group_size=-(-len(frame) // groups) or 1,
    )


def _repeats(column: pl.Series) -> bool:
    """Whether a dictionary is worth its making: texts, of which the first thousand are hardly different."""
    head = column.head(1000)
    return column.dtype == pl.String and 2 * head.n_unique() < len(head)
