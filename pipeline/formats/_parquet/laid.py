"""Row groups that are too large for a task, laid on disk once in small ones: of some rows of one Polars reads all, packed, at once."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pipeline.errors import InputError
from pipeline.formats._broken import BROKEN
from pipeline.formats._parquet.checksums import need_whole
from pipeline.formats._parquet.ranges import RowRange, footer, opened, scan
from pipeline.results.full import is_full

LEAST_BYTES = 64 << 20  # of a row group as it is stored: of a smaller one tasks may hold all
ROWS = 1 << 17  # of a row group that is laid down: a part has several
BUFFER = 1 << 20


def in_small_ones(pieces: Sequence[RowRange], parts: int, folder: str, *, checksums: bool) -> list[RowRange]:
    """The row groups, each alone in its range, those that are too large for so many parts laid in the folder."""
    rows = sum(piece.rows for piece in pieces) // parts
    return [laid_down(piece, folder, checksums=checksums) if is_too_large(piece, rows) else piece for piece in pieces]


def is_too_large(piece: RowRange, rows: int) -> bool:
    """Whether a row group, alone in its range, is read at once by many tasks, of about so many rows each."""
    meta = footer(piece.path)
    columns = [meta.row_group(group).column(at) for group, _ in piece.groups() for at in range(meta.num_columns)]
    stored = sum(column.total_compressed_size for column in columns)
    return stored > LEAST_BYTES and piece.rows > 16 * rows


def laid_down(piece: RowRange, folder: str, *, checksums: bool) -> RowRange:
    """The range, which is read from where it was laid; itself where that would not be of the same types.

    It is read column by column, for the words of a column (a dictionary) are in memory as long as it is read. Raises InputError for what
    cannot be read, and OSError for a full disk.
    """
    import pyarrow as pa

    if checksums:
        need_whole(piece)
    path = Path(folder) / f"group-{secrets.token_hex(8)}.parquet"
    groups = [group for group, _ in piece.checked().groups()]
    try:
        with tempfile.TemporaryDirectory(dir=folder) as columns:
            _put_together(_column_files(piece.path, groups, Path(columns)), path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, *BROKEN) as error:
        if is_full(error):
            raise
        what = str(error).partition("\n")[0][:200]
        raise InputError(f"{piece.path}: row group {groups[0]} cannot be read ({what}). Copy the file again, or write it anew.") from error
    if scan(str(path)).collect_schema() != scan(piece.path).collect_schema():
        path.unlink()
        return piece
    return replace(piece, laid=str(path), first=piece.offset)


def _column_files(path: str, groups: Sequence[int], folder: Path) -> list[Path]:
    """Each column of the row groups in a file of its own, in batches of as many rows; the schema's own order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = []
    with opened(path) as source, pq.ParquetFile(source, pre_buffer=False, buffer_size=BUFFER) as file:
        for number, name in enumerate(file.schema_arrow.names):
            found.append(folder / f"{number}.arrows")
            field = pa.schema([file.schema_arrow.field(number)], file.schema_arrow.metadata)
            with (
                pa.OSFile(str(found[-1]), "wb") as sink,
                pa.ipc.new_stream(sink, field, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out,
            ):
                for batch in file.iter_batches(ROWS, groups, [name], use_threads=False):
                    out.write_batch(batch)
    return found


def _put_together(columns: Sequence[Path], path: Path) -> None:
    """The columns side by side in one Parquet file, a row group a batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as stack:
        readers = [pa.ipc.open_stream(stack.enter_context(pa.OSFile(str(column), "rb"))) for column in columns]
        schema = pa.schema([reader.schema.field(0) for reader in readers], readers[0].schema.metadata)
        kinds = [field.name for field in schema if pa.types.is_dictionary(field.type)]  # Polars reads them with a dictionary alone
        writer = stack.enter_context(pq.ParquetWriter(str(path), schema, compression="lz4", use_dictionary=kinds))
        for batches in zip(*readers, strict=True):
            writer.write_batch(pa.record_batch([batch.column(0) for batch in batches], schema=schema))
