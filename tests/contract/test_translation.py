"""Every query of every stage is one that cuDF runs: asked of its translator, with no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.backend.engines import UntranslatableError, collect, refusals
from pipeline.errors import PipelineError
from pipeline.formats.parquet import ParquetInput
from pipeline.registry import stage_class
from pipeline.running.writing import _selected
from pipeline.tables.names import Order
from pipeline.tables.session import Session
from pipeline.tables.steps import Source
from pipeline.testing.examples import StageExample, Translating, check_translation
from pipeline.testing.stages import cut, run_parts
from tests.example_tables import MIXED
from tests.stage_examples import EXAMPLES, IDS

pytestmark = pytest.mark.contract


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_every_query_of_a_stage__translates_for_cudf(example: StageExample) -> None:
    check_translation(example)


def test_a_query_that_cudf_cannot_run__is_refused() -> None:
    with pytest.raises(UntranslatableError, match="cuDF cannot run this stage's query"):
        collect(MIXED.lazy().select(pl.col("text").cast(pl.Boolean)), "translate")
    stage = stage_class("derive").model_validate({"columns": {"angle": "atan2(x, n)"}})
    with pytest.raises((PipelineError, UntranslatableError), match="cuDF cannot run"):
        run_parts(stage, {"rows": cut(MIXED, [6])}, Translating())


@pytest.mark.parametrize("height", [0, 1, 6])
@pytest.mark.parametrize(
    ("use", "keys"),
    [
        ("derive", {"columns": {"y": "x * 1e308 * 1e308", "z": "exp(x * 1000)"}}),
        ("filter", {"where": "x * 1e308 * 1e308 > 0"}),
        ("aggregate", {"by": ["key"], "compute": {"y": "sum(x * 1e300 * 1e300)"}}),
        ("standardize", {"columns": ["x"]}),
    ],
)
def test_infinities__are_counted_by_a_query_that_translates(use: str, keys: dict[str, Any], height: int) -> None:
    stage = stage_class(use).model_validate(keys)
    rows = {"rows": cut(MIXED.head(height), [height])}
    (found,), (expected,) = (run_parts(stage, rows, session)[""] for session in (Translating(), Session()))
    assert found.frame.equals(expected.frame)
    assert found.counts == {name: count for name, count in expected.counts.items() if "audited" not in name}
    assert bool(found.counts) == (height > 0 and use != "standardize")


@pytest.mark.parametrize(
    ("what", "takes"),
    [
        *((pl.col("x").sum(), True), (pl.col("x").min(), True), (pl.col("x").max(), True), (pl.col("x").first(), True)),
        *(
            (pl.col("x").cum_sum(), True),
            (pl.col("x").rank("ordinal"), True),
            (pl.int_range(pl.len()), False),
            (pl.col("x").cum_count(), False),
        ),
    ],
    ids=str,
)
def test_what_extending_says_of_expressions_over_a_key__is_so(what: pl.Expr, takes: bool) -> None:
    assert (refusals(MIXED.lazy().with_columns(found=what.over("key"))) == []) == takes


def test_the_head_of_a_group__is_refused_and_numbered_rows_are_not() -> None:
    rows = MIXED.lazy().sort("x").with_row_index("place")
    assert refusals(rows.group_by("key").head(2)) != []
    assert refusals(rows.filter(pl.col("place") - pl.col("place").min().over("key") < 2)) == []


@pytest.mark.parametrize("by", [["x"], ["-x", "key"], ["-day", "flag", "-n"]])
def test_the_order_of_an_output__translates(by: list[str]) -> None:
    assert refusals(Order(by).sort(MIXED.lazy())) == []


@pytest.mark.parametrize("rows", [MIXED, MIXED.with_row_index("__row__")], ids=["plain", "with arrays"])
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
        MIXED.write_parquet(tmp_path / f"{number}.parquet", row_group_size=2)
    assert_scans_translate(ParquetInput(path=(str(tmp_path),), parts=parts).sources(2))
