"""What carries stages on a GPU: files read to null, parts on the wire with their arrays, workers of their own, and no silent way back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.backend.arrays import to_device
from pipeline.backend.devices import Backend, device_names
from pipeline.backend.engines import UntranslatableError, collect
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.cuda import Cuda
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.local import Local
from pipeline.formats.csv import CsvInput
from pipeline.formats.parquet import ParquetInput
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.tables.wire import register_with_dask
from pipeline.testing.examples import StageExample, assert_alike
from tests.example_tables import GENOTYPES
from tests.gpu.conftest import library_of
from tests.stage_examples import EXAMPLES

pytestmark = pytest.mark.gpu

FRAME = pl.DataFrame({"id": [1, 2, 3, 4], "x": [1.5, float("nan"), None, float("inf")], "text": ["a", None, "", "d"]})


@pytest.fixture(scope="module")
def cluster(device: Backend, stand_in: bool) -> Iterator[Cluster]:
    """Our own cluster of GPU workers, with one; threads where there is no GPU."""
    spec = Cuda(workers=1, dashboard=False) if device == "gpu" and not stand_in else Local(dashboard=False)
    with open_cluster(spec, device) as opened:
        yield opened


def read(session: Session, reader: Any) -> pl.DataFrame:
    table = Table.of(session, "read", reader.sources(2)).map(lambda rows: rows.with_columns(y=pl.col("x") * 2))
    return concat_parts(table.futures()).frame


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_nan_and_infinity_of_a_parquet_file__are_null(session: Session, tmp_path: Path, parts: int) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet")
    found = read(session, ParquetInput(path=(str(tmp_path),), parts=parts))
    assert found["x"].to_list() == [1.5, None, None, None]
    assert_alike(found.drop("y"), FRAME.with_columns(x=pl.when(pl.col("x").is_finite()).then(pl.col("x"))))
    assert found["y"].null_count() == 3


def test_nan_of_a_csv_file__is_null(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,text\n1,1.5,a\n2,NaN,\n3,,c\n4,NA,d\n", encoding="utf-8")
    found = read(session, CsvInput(path=(str(tmp_path),), columns={"x": "float64"}))
    assert found["x"].to_list() == [1.5, None, None, None]
    assert found["text"].to_list() == ["a", None, "c", "d"]


def test_a_part_on_the_wire__keeps_its_arrays_where_they_were(placed: Callable[[Part], Part], library: str) -> None:
    from distributed.protocol import deserialize, serialize

    register_with_dask()
    for part in (placed(GENOTYPES), placed(Part(GENOTYPES.frame[:0], {"calls": GENOTYPES.arrays["calls"][:0]}))):
        back = deserialize(*serialize(part, serializers=("dask", "error")))
        assert library_of(back.arrays["calls"]) == library
        assert back.arrays["calls"].shape == part.arrays["calls"].shape
        assert bool((back.arrays["calls"] == part.arrays["calls"]).all())
        assert_alike(back.frame, part.frame, ordered=True)
        assert part.nbytes >= part.arrays["calls"].nbytes


def test_filtered_rows__take_their_arrays_along(placed: Callable[[Part], Part], session: Session, library: str) -> None:
    table = Table.of(session, "rows", [placed(GENOTYPES)]).map(lambda rows: rows.filter(pl.col("chromosome") == "X").sort("variant_id"))
    (part,) = table.futures()
    wanted = GENOTYPES.frame.with_row_index("row").filter(pl.col("chromosome") == "X").sort("variant_id")["row"].to_numpy()
    assert library_of(part.arrays["calls"]) == library
    assert bool((part.arrays["calls"] == to_device(GENOTYPES.arrays["calls"][wanted], session.backend)).all())


def test_what_cudf_cannot_run__raises_and_is_not_run_on_the_cpu(device: Backend) -> None:
    query = pl.LazyFrame({"x": [1.0], "y": [2.0]}).select(pl.arctan2("x", "y"))
    with pytest.raises(
        (UntranslatableError, pl.exceptions.ComputeError, NotImplementedError), match=r"(?i)not ?implemented|not supported|a(rc)?tan2"
    ):
        collect(query, device)


def test_a_query__ran_on_the_gpu(device: Backend) -> None:
    rows = pl.LazyFrame({"x": np.arange(1_000_000.0)})
    assert collect(rows.select(pl.col("x").sum()), device).item() == 499_999_500_000.0


@pytest.mark.parametrize(("module", "fails"), [("cupy.linalg", False), ("pipeline.kernels.linkage", True), ("tests.gpu.test_tables", True)])
def test_a_warning__fails_a_test_where_a_line_of_ours_is_what_it_is_about(module: str, fails: bool) -> None:
    with warnings.catch_warnings(record=True) if not fails else pytest.raises(DeprecationWarning, match="old"):
        warnings.warn_explicit("old", DeprecationWarning, "module.py", 1, module)


def on_worker() -> dict[str, Any]:
    """What a worker says of itself."""
    import os

    found = {"visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "gpus": device_names()}
    if found["gpus"]:
        import rmm

        found["memory"] = type(rmm.mr.get_current_device_resource()).__name__
    return found


def test_the_worker__has_one_gpu_and_its_own_allocator(cluster: Cluster, device: Backend, stand_in: bool) -> None:
    on_gpu = device == "gpu" and not stand_in
    assert (cluster.workers, cluster.kind) == (1, "cuda" if on_gpu else "local")
    (found,) = cluster.client.run(on_worker).values()
    if on_gpu:
        assert cluster.session().threads == 1
        assert len(found["gpus"]) >= 1
        assert found["memory"] == "CudaAsyncMemoryResource"


@pytest.mark.parametrize("stage", ["aggregate", "join", "variant_qc", "principal_components", "xgboost"])
def test_a_stage_on_the_cluster__gives_what_the_cpu_gives(stage: str, cluster: Cluster, placed: Callable[[Part], Part]) -> None:
    assert cluster.workers == 1
    example: StageExample = next(found for found in EXAMPLES if found.stage.name == stage)
    found, expected = example.run(cluster.session(), 2, placed), example.run(Session())
    example.check(found, expected)
