"""Frames that stay on the GPU: what a query left there, in cuDF's own container, for the next query and for CuPy to read where it lies.

`collect` of a GPU query ends on the host, whoever asks. So a query whose answer stays is translated and evaluated here, as the package's
own callback does it, without the way back; the next query has it as an IO source. What of this is public says docs/platform.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from pipeline.backend.engines import UntranslatableError, translated

if TYPE_CHECKING:
    import polars as pl


class DeviceFrame:
    """The rows of a frame on a GPU. It has of a frame's names those that need no look at the rows."""

    def __init__(self, held: Any) -> None:
        """`held`: a `cudf_polars.containers.DataFrame`."""
        self.held = held

    @staticmethod
    def of_host(frame: pl.DataFrame) -> DeviceFrame:
        """A frame of the host, copied to the GPU."""
        from cudf_polars.containers import DataFrame
        from cudf_polars.utils.cuda_stream import get_cuda_stream

        return DeviceFrame(DataFrame.from_polars(frame, stream=get_cuda_stream()))

    @staticmethod
    def loaded(header: Any, described: memoryview, buffer: Any) -> DeviceFrame:
        """The frame that `dumped` gave, from its buffer in this GPU's memory."""
        import pylibcudf
        from cudf_polars.containers import DataFrame
        from cudf_polars.utils.cuda_stream import get_cuda_stream

        buffers = (memoryview(described), pylibcudf.gpumemoryview(buffer))
        return DeviceFrame(DataFrame.deserialize(header, buffers, stream=get_cuda_stream()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Inside of what is pickled it goes by way of the host, and comes back to the GPU."""
        return DeviceFrame.of_host, (self.on_host,)

    def dumped(self) -> tuple[Any, memoryview, Any]:
        """A header that pickles, its description in bytes, and all columns in one buffer of the GPU (a copy: it takes the room twice)."""
        import cupy

        header, (described, buffer) = self.held.serialize(self.held.stream)
        return header, described, cupy.asarray(buffer)

    @property
    def columns(self) -> list[str]:
        """Names of its columns."""
        return list(self.held.column_names)

    @cached_property
    def schema(self) -> pl.Schema:
        """Names and types of its columns."""
        import polars as pl

        return pl.Schema(zip(self.columns, (dtype.polars_type for dtype in self.held.dtypes), strict=True))

    @property
    def height(self) -> int:
        """Its number of rows."""
        return int(self.held.num_rows)

    def estimated_size(self) -> int:
        """Bytes of the GPU that its columns have."""
        return sum(int(column.device_buffer_size()) for column in self.held.table.columns())

    @cached_property
    def on_host(self) -> pl.DataFrame:
        """The frame of the host with the same rows, copied once however often it is asked for."""
        frame: pl.DataFrame = self.held.to_polars()
        return frame

    def seen(self, names: Sequence[str]) -> pl.DataFrame:
        """Some columns on the host, and no others."""
        frame: pl.DataFrame = self.held.select(names).to_polars()
        return frame

    def lazy(self) -> pl.LazyFrame:
        """The rows for a query on this GPU, which reads them where they lie."""
        from polars.io.plugins import register_io_source

        def chunks(columns: Sequence[str] | None, _where: Any, _rows: Any, _batch: Any) -> Iterator[Any]:
            """All rows of the columns that the query reads."""
            yield self.held if columns is None else self.held.select(columns)

        # cuDF takes no `head` of an IO source. Of all the last rows of one it does, and no filter comes so far down either.
        return register_io_source(chunks, schema=self.schema).tail(max(1, self.height))

    def taken_out(self, name: str) -> tuple[Any, DeviceFrame]:
        """A column of numbers without nulls as a CuPy array, which shares its memory, and the frame of all others."""
        import cupy
        import polars as pl

        column = self.held.column_map[name].obj
        kind = pl.Series([], dtype=self.schema[name]).to_numpy().dtype
        self.held.stream.synchronize()  # CuPy has a stream of its own
        whole = cupy.asarray(column.data()).view(kind)
        return whole[column.offset() : column.offset() + self.height], DeviceFrame(self.held.discard_columns({name}))

    def matrix(self, names: Sequence[str]) -> Any:
        """Some columns of numbers as a CuPy array on the same GPU, float32 [rows, columns], NaN where missing."""
        import cupy
        import polars as pl

        numbers = collect_there(self.lazy().select(pl.col(*names).cast(pl.Float32).fill_null(float("nan"))))
        return cupy.stack([numbers.taken_out(name)[0] for name in names], axis=1)


def collect_there(query: pl.LazyFrame) -> DeviceFrame:
    """Run a lazy query on this task's GPU and leave its answer there. Raises UntranslatableError where cuDF does not take it.

    Memory comes from the process's current allocator, which on a worker is its own.
    """
    from cudf_polars.dsl.ir import IRExecutionContext

    answer, refused = translated(cast("Any", query)._ldf)
    if refused:
        raise UntranslatableError(f"cuDF cannot run this stage's query: {'; '.join(refused)}.")
    return DeviceFrame(answer.evaluate(cache={}, timer=None, context=IRExecutionContext()))
