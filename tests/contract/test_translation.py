"""Every query of every stage is one that cuDF runs: asked of its translator, with no GPU."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.backend.engines import UntranslatableError, collect, refusals
from pipeline.errors import PipelineError
from pipeline.formats.csv import CsvInput
from pipeline.formats.parquet import ParquetInput
from pipeline.registry import STAGES, stage_class
from pipeline.running.writing import _selected
from pipeline.tables.names import Order
from pipeline.tables.session import Session
from pipeline.tables.steps import Source
from tests.harness import cut, run_parts
from tests.stage_examples import EXAMPLES, FRAME, IDS, StageExample

pytestmark = pytest.mark.contract


class Translating(Session):
    """Tasks at once in this process; every query is first shown to cuDF."""

    backend = "translate"


class TwoWorkers(Translating):
    """The same, exchanged as between two workers: partial queries, and their merging, are shown too."""

    workers = 2


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
@pytest.mark.parametrize("parts", [1, 2])
def test_every_query_of_a_stage__translates_for_cudf(example: StageExample, parts: int) -> None:
    if example.needs:
        pytest.importorskip(example.needs)
    found = example.run(TwoWorkers() if parts > 1 else Translating(), parts)
    expected = example.run(Session())
    example.check({name: part.frame for name, part in found.items()}, {name: part.frame for name, part in expected.items()})


def untested(stages: Sequence[str]) -> list[str]:
    """Stages of this project that have no example."""
    return sorted({*stages} - {example.stage for example in EXAMPLES})


def test_examples__are_of_every_stage() -> None:
    own = [name for name, module in STAGES.modules.items() if module.startswith("pipeline.")]
    assert untested(own) == []
    assert untested([*own, "a_new_stage"]) == ["a_new_stage"]


def test_a_query_that_cudf_cannot_run__is_refused() -> None:
    with pytest.raises(UntranslatableError, match="cuDF cannot run this stage's query"):
        collect(FRAME.lazy().select(pl.col("text").cast(pl.Boolean)), "translate")
    stage = stage_class("derive").model_validate({"columns": {"angle": "atan2(x, n)"}})
    with pytest.raises((PipelineError, UntranslatableError), match="cuDF cannot run"):
        run_parts(stage, {"rows": cut(FRAME, [6])}, Translating())


@pytest.mark.parametrize("by", [["x"], ["-x", "key"], ["-day", "flag", "-n"]])
def test_the_order_of_an_output__translates(by: list[str]) -> None:
    assert refusals(Order(by).sort(FRAME.lazy())) == []


@pytest.mark.parametrize("rows", [FRAME, FRAME.with_row_index("__row__")], ids=["plain", "with arrays"])
def test_the_columns_of_an_output__translate(rows: pl.DataFrame) -> None:
    assert refusals(_selected(rows.lazy(), ["x", "key"])) == []


def assert_scans_translate(sources: Sequence[Source]) -> None:
    """Alone, with a projection, with a filter, and one below the other."""
    scans = [scan for scan in (source.load() for source in sources) if isinstance(scan, pl.LazyFrame)]
    assert len(scans) == len(sources)
    for scan in scans:
        for query in (scan, scan.select("x"), scan.filter(pl.col("id") > 2)):
            assert refusals(query) == []
    assert refusals(pl.concat(scans)) == []


@pytest.mark.parametrize("parts", [None, 1, 2, 7])
def test_a_scan_of_parquet__translates(tmp_path: Path, parts: int | None) -> None:
    for number in range(2):
        FRAME.write_parquet(tmp_path / f"{number}.parquet", row_group_size=2)
    assert_scans_translate(ParquetInput(path=(str(tmp_path),), parts=parts).sources(2))


@pytest.mark.parametrize("parts", [None, 7])
@pytest.mark.parametrize(
    "options", [{}, {"separator": "\t"}, {"null_values": ("NA",)}, {"columns": {"n": "int8", "x": "float32"}}], ids=str
)
def test_a_scan_of_csv__translates(tmp_path: Path, parts: int | None, options: dict[str, Any]) -> None:
    for number in range(2):
        FRAME.write_csv(tmp_path / f"{number}.csv", separator=options.get("separator", ","))
    assert_scans_translate(CsvInput.model_validate({"path": str(tmp_path), "parts": parts, **options}).sources(2))


@pytest.mark.xfail(reason="cuDF reads no compressed text; a plan for a GPU refuses such an input", raises=AssertionError, strict=True)
def test_a_scan_of_gzipped_csv__translates(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(FRAME.write_csv().encode()))
    assert_scans_translate(CsvInput(path=(str(tmp_path),)).sources(2))
