"""Parts: arrays follow their frame, sizes and the wire form."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from pipeline.tables.part import ROW, Part, concat_parts, frame_bytes, frame_size, read_frame
from pipeline.tables.wire import deserialize_part, register_with_dask, serialize_part


def part_of(rows: int) -> Part:
    return Part(
        pl.DataFrame({"x": range(rows), "t": [f"t{i}" for i in range(rows)]}, schema={"x": pl.Int64, "t": pl.String}),
        {"calls": np.arange(rows * 3, dtype=np.uint8).reshape(rows, 3)},
    )


FIRST_FRAMES = """
import sys, threading
import pipeline.tables.part
from polars._utils.construction.dataframe import _sequence_to_pydf_dispatcher as constructors
import polars as pl
assert pl.Series in constructors.registry
sys.setswitchinterval(1e-6)
column, begin, made = pl.Series("a", [1]), threading.Barrier(8), []
def make():
    begin.wait()
    made.append(pl.DataFrame([column]))
threads = [threading.Thread(target=make) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(made))
"""


@pytest.mark.process
def test_threads_that_are_the_first_to_make_frames__do_not_disturb_one_another() -> None:
    """Without what the module does as it is loaded, Polars registers how in the first call, and others that look meanwhile fail."""
    ended = subprocess.run([sys.executable, "-c", FIRST_FRAMES], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, "8"), ended.stderr


def test_arrays__follow_a_filter_and_a_sort() -> None:
    part = part_of(6)
    moved = part.with_frame(part.frame.with_row_index(ROW).filter(pl.col("x") % 2 == 0).sort("x", descending=True))
    assert moved.frame["x"].to_list() == [4, 2, 0]
    assert moved.arrays["calls"][:, 0].tolist() == [12, 6, 0]


def test_arrays__are_dropped_where_rows_lost_their_identity() -> None:
    part = part_of(4)
    assert part.with_frame(part.frame.group_by("x").len()).arrays == {}


def test_arrays__are_not_copied_where_all_rows_stay() -> None:
    part = part_of(4)
    assert part.with_frame(part.frame.with_row_index(ROW)).arrays["calls"] is part.arrays["calls"]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_wire_form__gives_the_part_back(rows: int) -> None:
    part = Part(part_of(rows).frame, part_of(rows).arrays, {"lost": 2}, beside=np.arange(rows))
    header, frames = serialize_part(part)
    back = deserialize_part(header, [bytes(frame) for frame in frames])
    assert back.frame.equals(part.frame)
    assert np.array_equal(back.arrays["calls"], part.arrays["calls"])
    assert back.counts == {"lost": 2}
    assert back.beside.tolist() == list(range(rows))
    back.arrays["calls"][:] = 0  # writable, unlike a view of the message


def test_wire_form__of_a_slice_is_as_small_as_the_slice() -> None:
    frame = pl.DataFrame({"t": ["some text " * 20] * 10_000})
    assert len(frame_bytes(frame.slice(5, 2))) < 4_000
    assert read_frame(frame_bytes(frame.slice(5, 2))).height == 2


def test_dask__knows_the_size_of_parts_and_frames() -> None:
    from dask.sizeof import sizeof

    register_with_dask()
    part = Part(pl.DataFrame({"x": np.zeros(100_000)}), {"calls": np.zeros((100_000, 10), np.uint8)})
    assert 1_800_000 <= sizeof(part) <= 2_000_000
    assert 800_000 <= sizeof(part.frame) <= 900_000


def test_concat__stacks_frames_and_arrays_and_adds_counts() -> None:
    first, second = part_of(2), part_of(3)
    whole = concat_parts([Part(first.frame, first.arrays, {"a": 1}), Part(second.frame, second.arrays, {"a": 2, "b": 1})])
    assert whole.frame["x"].to_list() == [0, 1, 0, 1, 2]
    assert whole.arrays["calls"].shape == (5, 3)
    assert whole.counts == {"a": 3, "b": 1}


def test_concat__takes_empty_parts_whose_arrays_have_no_width() -> None:
    empty = Part(part_of(0).frame, {"calls": np.empty((0, 0), np.uint8)})
    assert concat_parts([empty, part_of(2), empty]).arrays["calls"].shape == (2, 3)


PICKLED_WHILE_A_QUERY_CALLS_PYTHON = """
import os, pickle, threading, time
os.environ["POLARS_MAX_THREADS"] = "2"
import polars as pl
from pipeline.tables.part import Part
from pipeline.tables.wire import register_with_dask

register_with_dask()
there = threading.Barrier(3)

def slow(values):
    there.wait()  # both of Polars' threads are in Python now, and want its lock again after
    time.sleep(0.2)
    return values

def query():
    rows = [pl.LazyFrame({"x": [number]}) for number in range(2)]
    pl.concat([each.select(pl.col("x").map_batches(slow, return_dtype=pl.Int64)) for each in rows]).collect(engine="in-memory")

frame = pl.concat([pl.DataFrame({"x": [1, None], "t": ["a", "b"]})] * 3, rechunk=False)
thread = threading.Thread(target=query)
thread.start()
there.wait()
again = pickle.loads(pickle.dumps(Part(frame)))
thread.join()
assert again.frame.equals(frame)
print("well")
"""


@pytest.mark.process
def test_pickle__of_a_frame_does_not_keep_pythons_lock_while_it_waits_for_polars() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PICKLED_WHILE_A_QUERY_CALLS_PYTHON], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "well\n", done.stderr


def test_pickle__of_a_frame_keeps_every_type() -> None:
    register_with_dask()
    frame = pl.DataFrame(
        {
            "decimal": pl.Series(["1.25", None]).cast(pl.Decimal(38, 2)),
            "time": pl.Series([1, None]).cast(pl.Datetime("ns", "Europe/Berlin")),
            "wide": pl.Series([2**100, None], dtype=pl.Int128),
            "kind": pl.Series(["a", None]).cast(pl.Enum(["a", "b"])),
            "word": pl.Series(["a", None]).cast(pl.Categorical),
            "list": pl.Series([[1, None], None], dtype=pl.List(pl.Int8)),
            "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Float32, 2)),
            "struct": pl.Series([{"x": 1, "y": "a"}, None]),
            "bytes": pl.Series([b"a", None]),
            "nothing": pl.Series([None, None]),
        }
    )
    again = pickle.loads(pickle.dumps(frame))
    assert again.schema == frame.schema
    assert again.equals(frame)


@pytest.mark.parametrize(("text", "held"), [("", 16), ("twelve signs", 16), ("thirteen sign", 29), (None, 16)])
def test_frame_size__counts_the_sixteen_bytes_of_a_text(text: str | None, held: int) -> None:
    texts = pl.DataFrame({"text": [text] * 800, "number": range(800)}, schema={"text": pl.String, "number": pl.Int64})
    assert frame_size(texts) == 800 * (held + 8)
    assert Part(texts).nbytes == frame_size(texts)
    assert frame_size(texts.drop("text")) == texts.drop("text").estimated_size()
