"""Frames that stay on the GPU: the next query, CuPy, the wire and the shipped jobs have of them what they would have of the host's."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.backend import frames
from pipeline.backend.arrays import to_host
from pipeline.backend.devices import Backend
from pipeline.backend.engines import UntranslatableError
from pipeline.backend.frames import DeviceFrame
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.tables.wire import deserialize_device_part, register_with_dask, register_with_gpus, serialize_device_part
from pipeline.testing.examples import assert_alike
from tests.example_tables import GENOTYPES
from tests.gpu.conftest import library_of

pytestmark = pytest.mark.gpu

ROWS = pl.DataFrame(
    {
        "id": [4, 2, 3, 1],
        "x": [1.5, None, -3.0, 0.25],
        "n": pl.Series([1, None, 3, 2**31], dtype=pl.Int64),
        "text": ["a", None, "", "ä b"],
        "day": [date(2026, 1, 1), None, date(1969, 12, 31), date(2026, 11, 24)],
        "flag": [True, None, False, True],
        "cost": pl.Series(["1.50", None, "-0.25", "3"]).cast(pl.Decimal(12, 2)),
    }
)


@pytest.fixture(autouse=True)
def _needs_device(device: Backend) -> None:
    if device != "gpu":
        pytest.skip("frames stay on a GPU, or on the stand-in for one")


def there(rows: pl.DataFrame) -> DeviceFrame:
    """Rows that a query left on the GPU."""
    return frames.collect_there(rows.lazy().with_columns(later=pl.col("id") + 1))


def test_what_a_query_left__is_what_it_gives_on_the_host() -> None:
    left, wanted = there(ROWS), ROWS.with_columns(later=pl.col("id") + 1)
    assert (left.columns, left.height, left.schema) == (wanted.columns, 4, wanted.schema)
    assert left.estimated_size() > 0
    assert_alike(left.on_host, wanted, ordered=True)


@pytest.mark.parametrize(
    "query",
    [
        lambda rows: rows.head(2),
        lambda rows: rows.slice(1, 2),
        lambda rows: rows.tail(1),
        lambda rows: rows.select("text").head(3),
        lambda rows: rows.filter(pl.col("x") > 0),
        lambda rows: rows.sort("id").with_row_index("at").filter(pl.col("at") > 1),
        lambda rows: rows.select(pl.len()),
        lambda rows: rows.join(rows.select("id", y=pl.col("x") * 2), on="id", maintain_order="left"),
        lambda rows: pl.concat([rows, rows]).head(5),
        lambda rows: rows.filter(pl.col("id") > 9),
        lambda rows: rows.group_by("flag").agg(pl.col("x").sum()).sort("flag"),
    ],
    ids=["head", "slice", "tail", "columns", "filter", "rows", "count", "join", "concat", "none", "group"],
)
@pytest.mark.parametrize("height", [4, 1, 0])
def test_the_next_query__reads_it_where_it_lies(query: Callable[[pl.LazyFrame], pl.LazyFrame], height: int) -> None:
    rows = ROWS.head(height)
    answer = frames.collect_there(query(there(rows).lazy()))
    assert_alike(answer.on_host, query(rows.lazy().with_columns(later=pl.col("id") + 1)).collect(), ordered=True)


def test_what_cudf_cannot_run__is_refused() -> None:
    with pytest.raises((UntranslatableError, NotImplementedError), match=r"(?i)cuDF cannot run|not ?implemented|not supported|a(rc)?tan2"):
        frames.collect_there(there(ROWS).lazy().select(pl.arctan2("x", "x")))


def test_a_column__is_an_array_that_shares_its_memory() -> None:
    array, others = there(ROWS).taken_out("later")
    assert library_of(array) == "cupy"
    assert to_host(array).tolist() == [5, 3, 4, 2]
    assert others.columns == ROWS.columns


def test_features__are_a_matrix_without_a_way_over_the_host() -> None:
    found = there(ROWS).matrix(["x", "n", "flag", "cost", "id"])
    assert (library_of(found), found.shape, str(found.dtype)) == ("cupy", (4, 5), "float32")
    wanted = ROWS.select(pl.col("x", "n", "flag", "cost", "id").cast(pl.Float32)).to_numpy()
    np.testing.assert_array_equal(to_host(found), wanted)


@pytest.mark.parametrize("kept", [lambda: pl.col("chromosome") == "X", lambda: pl.lit(value=True)], ids=["some", "all"])
def test_arrays__follow_the_rows_of_a_frame_that_stays(
    kept: Callable[[], pl.Expr], session: Session, placed: Callable[[Part], Part], library: str
) -> None:
    session.frames = "device"
    first = Table.of(session, "rows", [placed(GENOTYPES)]).map(lambda rows: rows.with_columns(one=pl.lit(1)))
    (held,) = first.futures()
    assert isinstance(held.held, DeviceFrame)
    (part,) = Table.of(session, "rows", [held]).map(lambda rows: rows.filter(kept()).sort("variant_id")).futures()
    assert isinstance(part.held, DeviceFrame)
    wanted = GENOTYPES.frame.with_row_index("row").filter(kept()).sort("variant_id")
    assert part.frame["variant_id"].to_list() == wanted["variant_id"].to_list()
    assert library_of(part.arrays["calls"]) == library
    np.testing.assert_array_equal(to_host(part.arrays["calls"]), GENOTYPES.arrays["calls"][wanted["row"].to_numpy()])


def test_infinities__are_counted_where_the_rows_stay(session: Session) -> None:
    session.frames = "device"
    from pipeline.registry import stage_class
    from pipeline.testing.stages import cut, run_parts

    stage = stage_class("derive").model_validate({"columns": {"y": "x * 1e308 * 1e308"}})
    for rows in (ROWS, ROWS.head(0)):
        (found,) = run_parts(stage, {"rows": cut(rows, [rows.height])}, session)[""]
        (wanted,) = run_parts(stage, {"rows": cut(rows, [rows.height])}, Session())[""]
        assert_alike(found.frame, wanted.frame, ordered=True)
        assert found.counts == {name: count for name, count in wanted.counts.items() if "audited" not in name}


def test_over_the_host__it_comes_back_to_the_gpu() -> None:
    from distributed.protocol import deserialize, serialize

    register_with_dask()
    part = Part(there(ROWS), {}, {"lost": 3})
    back = deserialize(*serialize(part, serializers=("dask", "error")))
    assert isinstance(back.held, DeviceFrame)
    assert dict(back.counts) == {"lost": 3}
    assert_alike(back.frame, part.frame, ordered=True)


def test_pickled__it_comes_back_to_the_gpu() -> None:
    back = pickle.loads(pickle.dumps(there(ROWS)))
    assert isinstance(back, DeviceFrame)
    assert_alike(back.on_host, there(ROWS).on_host, ordered=True)


def test_between_gpus__its_columns_go_as_one_buffer_of_the_device(placed: Callable[[Part], Part], stand_in: bool) -> None:
    if stand_in:
        pytest.skip("Dask knows how to send CuPy's arrays and not the stand-in's; tests/contract has this with arrays of its own")
    register_with_gpus()
    part = Part(there(GENOTYPES.frame.with_row_index("id")), placed(GENOTYPES).arrays, {"lost": 3})
    header, buffers = serialize_device_part(part)
    assert all(not isinstance(buffer, np.ndarray) for buffer in buffers[1:])
    back: Any = deserialize_device_part(header, buffers)
    assert isinstance(back.held, DeviceFrame)
    assert_alike(back.frame, part.frame, ordered=True)
    np.testing.assert_array_equal(to_host(back.arrays["calls"]), to_host(part.arrays["calls"]))
