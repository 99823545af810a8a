"""Parts of one file that a task reads below one another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.formats.parquet import ParquetInput
from pipeline.tables.as_one import Picked
from pipeline.tables.infinities import Tally
from pipeline.tables.steps import Step, evaluate, lazy_of

ROWS = pl.DataFrame({"a": range(1_000), "b": [value % 7 for value in range(1_000)], "c": ["x", "y", None, "z"] * 250})


def _parts(folder: Path, files: int = 1, parts: int = 5) -> list[Step]:
    """Steps that read the parts of these rows, written as so many files of row groups of 50 rows."""
    for number in range(files):
        piece = ROWS.slice(number * len(ROWS) // files, len(ROWS) // files)
        piece.write_parquet(folder / f"{number}.parquet", row_group_size=50)
    reader = ParquetInput(path=str(folder / "*.parquet"), parts=parts)
    return [Step("read", "rows", source=source) for source in reader.sources(2)]


def _picked(step: Step, *names: str) -> Step:
    return Step("frame", "rows", (step,), Picked(names, 8))


def _above(least: int, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows from that number on."""
    return rows.filter(pl.col("a") >= least)


def test_parts_of_a_file__are_read_by_one_scan(tmp_path: Path) -> None:
    parts = _parts(tmp_path)
    assert len(parts) == 5
    query = lazy_of(Step("concat", "rows", tuple(parts)), "cpu").query
    assert "UNION" not in (plan := query.explain())
    assert plan.count("SCAN") == 1
    assert query.collect().equals(ROWS)


def test_parts_without_the_first_and_the_last__are_one_stretch(tmp_path: Path) -> None:
    query = lazy_of(Step("concat", "rows", tuple(_parts(tmp_path)[1:-1])), "cpu").query
    assert query.explain().count("SCAN") == 1
    assert query.collect().equals(ROWS[200:800])


def test_parts_in_another_order__keep_it(tmp_path: Path) -> None:
    one, two, *_ = _parts(tmp_path)
    assert evaluate(Step("concat", "rows", (two, one)), "cpu").frame.equals(pl.concat([ROWS[200:400], ROWS[:200]]))


def test_parts_with_the_same_columns_picked__are_one_scan_of_them(tmp_path: Path) -> None:
    query = lazy_of(Step("concat", "rows", tuple(_picked(part, "c", "b") for part in _parts(tmp_path))), "cpu").query
    assert query.explain().count("SCAN") == 1
    assert query.collect().equals(ROWS.select("c", "b"))


def test_files_of_a_table__are_one_scan_of_all(tmp_path: Path) -> None:
    query = lazy_of(Step("concat", "rows", tuple(_parts(tmp_path, files=4, parts=8))), "cpu").query
    assert query.explain().count("SCAN") == 1
    assert query.collect().equals(ROWS)


def test_parts_below_other_steps__are_read_each_and_not_held_together(tmp_path: Path) -> None:
    parts = _parts(tmp_path)
    above = [Step("frame", "rows", (part,), partial(_above, 100 * number)) for number, part in enumerate(parts)]
    lazy = lazy_of(Step("concat", "rows", tuple(above)), "cpu")
    assert lazy.apart
    assert evaluate(Step("concat", "rows", tuple(above)), "cpu").frame.equals(ROWS)
    assert "CACHE" not in lazy.query.explain(optimizations=pl.QueryOptFlags(comm_subplan_elim=False))


@pytest.mark.parametrize("held", [False, True])
def test_what_a_query_below_holds_itself__is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    asked = list[bool]()
    collect = Tally.collect

    def watched(tally: Tally, query: pl.LazyFrame, *, apart: bool, **settings: Any) -> Any:
        asked.append(apart)
        return collect(tally, query, apart=apart, **settings)

    monkeypatch.setattr(Tally, "collect", watched)
    above = [Step("frame", "rows", (part,), partial(_twice, held)) for part in _parts(tmp_path)]
    assert evaluate(Step("concat", "rows", tuple(above)), "cpu").frame.height == 2_000
    assert asked == [not held]


def _twice(held: bool, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows twice, of what is held for both or made for each."""
    rows = rows.with_columns(pl.col("a") + 1)
    return pl.concat([rows.cache()] * 2 if held else [rows] * 2)


def test_tables_with_other_columns__are_read_each(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    ROWS.select("c", "a").write_parquet(tmp_path / "two.parquet")
    one = _parts(tmp_path / "one", parts=1)[0]
    two = Step("read", "others", source=ParquetInput(path=str(tmp_path / "two.parquet"), parts=1).sources(2)[0])
    both = Step("concat", "rows", (_picked(one, "a", "c"), _picked(two, "a", "c")))
    assert evaluate(both, "cpu").frame.equals(pl.concat([ROWS, ROWS]).select("a", "c"))
    differing = Step("concat", "rows", (_picked(one, "a"), Step("frame", "rows", (_picked(one, "a"),), partial(_above, 500))))
    assert evaluate(differing, "cpu").frame["a"].to_list() == [*range(1_000), *range(500, 1_000)]
