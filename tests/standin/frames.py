"""Frames that stay on the device: cuDF's container, with the names of it that the package uses, and Polars for what it would compute."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from tests.standin import counts
from tests.standin.array import Array
from tests.standin.functions import device_of

STREAM = SimpleNamespace(synchronize=counts.waited)


class Column:
    """A column: its type, and its buffer as bytes of the device."""

    def __init__(self, values: pl.Series) -> None:
        self.name, self.dtype = values.name, SimpleNamespace(polars_type=values.dtype)
        self.obj = SimpleNamespace(data=lambda: device_of(values.to_numpy().view(np.uint8)), offset=lambda: 0)


class Container:
    """`cudf_polars.containers.DataFrame`. Whoever takes it for a frame of the host finds none of such a frame's names here."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows
        self.column_names, self.num_rows, self.stream = rows.columns, rows.height, STREAM
        self.column_map = {column.name: Column(column) for column in rows}
        self.dtypes = [SimpleNamespace(polars_type=dtype) for dtype in rows.dtypes]
        sizes = [SimpleNamespace(device_buffer_size=column.estimated_size) for column in rows]
        self.table = SimpleNamespace(columns=lambda: sizes)

    @staticmethod
    def from_polars(rows: pl.DataFrame, *, stream: Any) -> Container:
        """A frame of the host, sent to the device."""
        assert stream is STREAM
        counts.counting.frames_sent += int(rows.estimated_size())
        return Container(rows)

    def to_polars(self) -> pl.DataFrame:
        """The frame on the host."""
        counts.counting.frames_fetched += int(self._rows.estimated_size())
        return self._rows

    def select(self, names: Sequence[str]) -> Container:
        """Some columns; of none the number of rows alone."""
        return Container(self._rows.select(names) if names else pl.DataFrame(height=self.num_rows))

    def discard_columns(self, names: set[str]) -> Container:
        """The other columns."""
        return Container(self._rows.drop(names))

    def serialize(self, stream: Any) -> tuple[dict[str, Any], tuple[memoryview, Array]]:
        """A header, some bytes of the host, and all columns in one buffer of the device."""
        assert stream is STREAM
        return {"frame_count": 2}, (memoryview(b"packed"), device_of(np.frombuffer(pickle.dumps(self._rows), np.uint8)))

    @staticmethod
    def deserialize(header: dict[str, Any], frames: tuple[memoryview, Array], stream: Any) -> Container:
        """What `serialize` gave."""
        assert (header["frame_count"], bytes(frames[0]), stream) == (2, b"packed", STREAM)
        return Container(pickle.loads(frames[1].host.tobytes()))

    def rows_of(self) -> pl.DataFrame:
        """The rows where they lie, for the stand-in alone."""
        return self._rows


def computed(query: pl.LazyFrame) -> Any:
    """The answer of a query that cuDF takes, left on the device. Raises what the translator could not take."""
    from pipeline.backend.frames import DeviceFrame

    shown_to_cudf(query)
    return DeviceFrame(Container(query.collect(engine="streaming")))


def shown_to_cudf(query: Any) -> None:
    """Show a query to cuDF's translator and count the bytes of the host's frames in it. Raises what it could not take."""
    from cudf_polars import Translator

    translator = Translator(query._ldf.visit(), pl.GPUEngine(executor="in-memory", raise_on_fail=True))
    answer = translator.translate_ir()
    if (refused := translator.unsupported_operations_error()) is not None:
        raise refused
    left, seen = list[Any]([answer]), set[int]()
    while left:
        node = left.pop()
        if id(node) not in seen:
            seen.add(id(node))
            left += node.children
            if type(node).__name__ == "DataFrameScan":
                counts.counting.frames_sent += int(pl.DataFrame._from_pydf(node.df).estimated_size())


def read_where_they_lie(register: Callable[..., pl.LazyFrame]) -> Callable[..., pl.LazyFrame]:
    """Polars' IO sources, which may yield a container as cuDF's may, and nothing else that is none of Polars' frames."""

    def registered(source: Callable[..., Iterator[Any]], **options: Any) -> pl.LazyFrame:
        def chunks(columns: Any, where: Any, rows: Any, batch: Any) -> Iterator[pl.DataFrame]:
            for chunk in source(columns, where, rows, batch):
                if isinstance(chunk, Container):
                    assert where is None
                    assert rows is None
                yield chunk.rows_of() if isinstance(chunk, Container) else chunk

        return register(chunks, **options)

    return registered


@contextmanager
def installed() -> Iterator[None]:
    """Frames that stay are the stand-in's in the block."""
    import cudf_polars.containers
    import cudf_polars.utils.cuda_stream
    import polars.io.plugins
    import pylibcudf

    from pipeline.backend import frames

    with ExitStack() as stack:
        enter = stack.enter_context
        enter(patch.object(cudf_polars.containers, "DataFrame", Container))
        enter(patch.object(cudf_polars.utils.cuda_stream, "get_cuda_stream", lambda: STREAM))
        enter(patch.object(pylibcudf, "gpumemoryview", lambda buffer: buffer))
        enter(patch.object(polars.io.plugins, "register_io_source", read_where_they_lie(polars.io.plugins.register_io_source)))
        enter(patch.object(frames, "collect_there", computed))
        yield
