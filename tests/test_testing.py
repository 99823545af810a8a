"""What authors are given to test with: it finds what it is for, and asks for no test runner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import polars as pl
import pytest

import pipeline.testing.examples
from pipeline.errors import JobError
from pipeline.formats.csv import CsvInput, CsvOutput
from pipeline.formats.gwas_ssf import GwasSsfOutput
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.stage import Keyed, Rows, Stage
from pipeline.stages.relational.filter import Filter
from pipeline.testing.examples import StageExample, check_documented, check_parts, check_translation
from pipeline.testing.formats import assert_reads, assert_round_trip, read_table, write_table
from pipeline.testing.stages import assert_same_for_any_parts

ROOT = Path(__file__).parents[1]
FRAME = pl.DataFrame({"id": range(20), "key": [number % 3 for number in range(20)], "x": [number / 7 for number in range(20)]})


class Shares(Rows, name="shares"):
    """Each row's share of a sum: of its part's, which is wrong."""

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.with_columns(share=pl.col("x") / pl.col("x").sum())


class Halved(Keyed, name="halved"):
    """Counts of each key, which count again what they have counted: wrong as soon as rows move between workers."""

    def keys(self) -> tuple[str, ...]:
        return ("key",)

    def partial(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return self.apply(rows)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.group_by("key").agg(pl.len())


def test_check_parts__finds_a_stage_that_depends_on_how_rows_are_cut() -> None:
    with pytest.raises(AssertionError, match="shares, 2 parts: "):
        check_parts(StageExample(Shares(), {"rows": FRAME}))
    with pytest.raises(AssertionError, match="2 parts: "):
        assert_same_for_any_parts(Shares(), {"rows": FRAME}, ["id"])


def test_check_parts__finds_a_wrong_partial_step() -> None:
    with pytest.raises(AssertionError, match="halved, 2 parts on two workers: "):
        check_parts(StageExample(Halved(), {"rows": FRAME}))


def test_check_parts__of_a_stage_whose_library_is_not_there_is_skipped_with_the_reason() -> None:
    with pytest.raises(SkipTest, match="filter needs acme_absent, which is not installed here"):
        check_parts(StageExample(Filter(where="x > 1"), {"rows": FRAME}, needs="acme_absent"))


def test_check_translation__without_cudf_says_that_nothing_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.testing.examples, "find_spec", lambda _name: None)
    with pytest.raises(SkipTest, match=r"whether cuDF takes the query is not checked: cudf_polars is not installed here \(make contract"):
        check_translation(StageExample(Filter(where="x > 1"), {"rows": FRAME}))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("Nothing.", AssertionError, r"Filter has no example: end its docstring with `Example: \{use: filter, from: TABLE, as: NAME"),
        ("Example: filter", AssertionError, "the example of Filter must be a mapping: filter"),
        ("Example: {use: filtr, from: t, as: a}", AssertionError, "the example must have `use: filter` and `as`"),
        ("Example: {use: filter, from: t, where: x > 1}", AssertionError, "the example must have `use: filter` and `as`"),
        ("Example: {use: filter, from: t, as: a}", JobError, r"example of filter:1:\d+: stages\.a\.where: missing"),
        (
            "Example: {use: filter, from: {left: t}, as: a, where: x > 1}",
            JobError,
            r"example of filter:1:\d+: stages\.a\.from: .* no role 'left'",
        ),
    ],
)
def test_check_documented__refuses_an_example_that_no_job_could_hold(text: str, kind: type[Exception], message: str) -> None:
    documented: type[Stage] = type("Filter", (Filter,), {"__doc__": f"Keep rows.\n\n{text}", "__module__": __name__})
    with pytest.raises(kind, match=message):
        check_documented(documented)


def test_assert_reads__finds_rows_types_and_promises_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet", row_group_size=5)
    reader = ParquetInput(path=(str(tmp_path),))
    assert_reads(reader, FRAME)
    with pytest.raises(AssertionError, match="parts: None: "):
        assert_reads(reader, FRAME.reverse())
    monkeypatch.setattr(ParquetInput, "rows", lambda _self: 19)
    with pytest.raises(AssertionError, match="the reader says 19 rows, and there are 20"):
        read_table(reader)
    schema = reader.table_schema()
    monkeypatch.setattr(ParquetInput, "table_schema", lambda _self: type(schema)(pl.Schema({"id": pl.Int8})))
    with pytest.raises(AssertionError, match="a part's schema is not the stated one"):
        read_table(reader)


def test_assert_round_trip__holds_for_parquet_and_finds_what_csv_loses(tmp_path: Path) -> None:
    assert_round_trip(ParquetOutput(), ParquetInput, FRAME, tmp_path / "parquet")
    with pytest.raises(AssertionError, match="parts: None: "):
        assert_round_trip(CsvOutput(), CsvInput, FRAME.cast({"id": pl.Int8}), tmp_path / "csv")


def test_write_table__puts_the_pieces_of_a_joined_output_together(tmp_path: Path) -> None:
    place = {"chromosome": ["1", "2"], "base_pair_location": [5, 6], "effect_allele": ["A", "C"], "other_allele": ["G", "T"]}
    numbers = {name: [0.5, 0.25] for name in ("beta", "standard_error", "effect_allele_frequency", "p_value")}
    files = write_table(GwasSsfOutput(build="GRCh38"), pl.DataFrame(place | numbers), tmp_path / "out", 2)
    assert all(file.is_file() for file in files)
    assert [file.name for file in files] == ["whole.tsv.gz", "whole.tsv.gz-meta.yaml"]
    with pytest.raises(JobError, match="GWAS-SSF needs the column chromosome"):
        write_table(GwasSsfOutput(build="GRCh38"), FRAME, tmp_path / "none")


@pytest.mark.process
def test_testing__needs_no_test_runner() -> None:
    code = "import sys; import pipeline.testing.examples, pipeline.testing.formats; print('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=ROOT).stdout == "False\n"
