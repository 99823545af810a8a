"""The parquet format: parts, statistics of footers, genotype calls there and back, and files that are wrong."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from pipeline.errors import InputError, RunError
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.tables.exchange import join_pieces, split_part
from pipeline.tables.part import Part, frame_bytes, read_frame
from pipeline.testing.formats import assert_round_trip
from tests.formats.reading import read
from tests.stages.genomics.cohorts import Cohort, small_cohort


def reader(path: Path | list[Path], **given: Any) -> ParquetInput:
    return ParquetInput.model_validate({"path": [str(one) for one in path] if isinstance(path, list) else str(path), **given})


def numbered(path: Path, low: int, high: int, group: int = 5) -> Path:
    frame = pl.DataFrame({"k": range(low, high), "t": [f"r{i}" for i in range(low, high)]}, schema={"k": pl.Int64, "t": pl.String})
    frame.write_parquet(path, row_group_size=group)
    return path


def write_cohort(cohort: Cohort, folder: Path, files: int) -> None:
    """The cohort with its calls, in so many files; rows of its people are known by a second column too."""
    height = cohort.rows.frame.height
    for number in range(files):
        rows = slice(height * number // files, height * (number + 1) // files)
        part = Part(cohort.rows.frame[rows], {"calls": cohort.rows.arrays["calls"][rows]})
        ParquetOutput(calls=True).write(part, {"calls": cohort.people}, str(folder / f"{number}.parquet"))


@pytest.mark.parametrize("parts", [None, 1, 2, 7, 40])
def test_parquet_input__parts_keep_the_rows_and_their_order(tmp_path: Path, parts: int | None) -> None:
    numbered(tmp_path / "a.parquet", 0, 23)
    numbered(tmp_path / "b.parquet", 23, 30)
    numbered(tmp_path / "c.parquet", 30, 30)
    table = reader(tmp_path, parts=parts)
    assert read(table).frame.rows() == [(i, f"r{i}") for i in range(30)]
    if parts in {1, 2, 7}:
        assert len(table.sources(2)) == parts


def test_parquet_input__parts_are_of_what_texts_take_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that repeats takes a few bits in a file."""
    pl.DataFrame({"k": range(4_000), "t": ["a long text that repeats"] * 4_000}).write_parquet(tmp_path / "a.parquet", row_group_size=500)
    monkeypatch.setattr("pipeline.formats.parquet.PART_BYTES_MOST", 60_000)
    assert len(reader(tmp_path / "a.parquet").sources(1)) == 3


def test_parquet_input__reads_a_file_with_no_rows_and_one_with_no_row_groups(tmp_path: Path) -> None:
    numbered(tmp_path / "a.parquet", 0, 0)
    pq.ParquetWriter(tmp_path / "b.parquet", pa.schema([("k", pa.int64()), ("t", pa.string())])).close()
    for name in ("a", "b"):
        for parts in (None, 1, 7):
            table = reader(tmp_path / f"{name}.parquet", parts=parts)
            assert read(table).frame.height == 0
            assert [source.interval("k") for source in table.sources(2)] == [None]


def test_parquet_input__nan_and_infinity_are_null(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"x": [1.0, float("nan"), None], "y": pl.Series([float("nan"), 2, float("inf")], dtype=pl.Float32), "k": [1, 2, 3]}
    )
    frame.write_parquet(tmp_path / "x.parquet")
    expected = frame.with_columns(pl.Series("x", [1.0, None, None]), pl.Series("y", [None, 2.0, None], dtype=pl.Float32))
    assert_frame_equal(read(reader(tmp_path / "x.parquet")).frame, expected)


def test_parquet_input__intervals_are_exact_or_none(tmp_path: Path) -> None:
    frame = pl.DataFrame({"k": [5, -2, 9, 30, 31, 40], "d": [date(2020, 1, 1) + timedelta(i) for i in range(6)]}).with_columns(
        x=pl.col("k").cast(pl.Float64),
        t=pl.col("k").cast(pl.String),
        gaps=pl.when(pl.col("k") != 9).then("k"),
        small=pl.col("k").cast(pl.Int8),
        ok=pl.col("k") > 5,
    )
    frame.write_parquet(tmp_path / "x.parquet", row_group_size=3)
    first, second = reader(tmp_path / "x.parquet", parts=2).sources(2)
    assert [source.interval("k") for source in (first, second)] == [(-2, 9), (30, 40)]
    assert second.interval("small") == (30, 40)
    assert first.interval("d") == (date(2020, 1, 1), date(2020, 1, 3))
    assert (first.interval("gaps"), second.interval("gaps")) == (None, (30, 40))
    for column in ("x", "t", "ok", "nowhere"):
        assert first.interval(column) is None


def test_parquet_input__has_no_interval_where_the_writer_left_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "x.parquet", write_statistics=False)
    assert reader(tmp_path / "x.parquet").sources(1)[0].interval("k") is None


def test_parquet_input__sees_that_a_file_was_written_again(tmp_path: Path) -> None:
    path = numbered(tmp_path / "x.parquet", 0, 3)
    assert reader(path).rows() == 3
    assert read(reader(numbered(path, 0, 11), parts=2)).frame["k"].to_list() == list(range(11))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            pl.DataFrame({"k": [1.5], "t": ["x"]}),
            r"b\.parquet: column 'k' is Float64, and Int64 in .*a\.parquet\. Give files of one schema",
        ),
        (
            pl.DataFrame({"k": [1], "t": ["x"], "more": [2]}),
            r"b\.parquet: has a column 'more', which .*a\.parquet has not\. .*missing: nulls",
        ),
        (pl.DataFrame({"k": [1]}), r"b\.parquet: has no column 't', which .*a\.parquet has\. .*Say missing: nulls"),
    ],
)
def test_parquet_input__refuses_files_of_different_columns(tmp_path: Path, other: pl.DataFrame, message: str) -> None:
    numbered(tmp_path / "a.parquet", 0, 3)
    other.write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match=message):
        reader(tmp_path).table_schema()


def test_parquet_input__refuses_torn_empty_and_foreign_files(tmp_path: Path) -> None:
    whole = numbered(tmp_path / "a.parquet", 0, 300).read_bytes()
    for what in (whole[:-20], whole[: len(whole) // 2], b"k,t\n1,x\n" * 9):
        (tmp_path / "b.parquet").write_bytes(what)
        with pytest.raises(InputError, match=r"b\.parquet: not a whole Parquet file .* Was its writing interrupted\?"):
            reader(tmp_path).table_schema()
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"b\.parquet: the file is empty"):
        reader(tmp_path).table_schema()


def test_parquet__lists_and_structures_come_back_and_go_between_workers(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "k": [1, 2, None],
            "lists": [[1.5, None], [], None],
            "where": [{"town": "A", "at": [1, 2]}, {"town": None, "at": None}, None],
        }
    )
    assert_round_trip(ParquetOutput(), ParquetInput, rows, tmp_path)
    pieces = split_part(Part(rows), ["k"], 2)
    joined = join_pieces(*pieces).frame
    assert_frame_equal(read_frame(frame_bytes(joined)).sort("k", nulls_last=True), rows)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "uncompressed"])
def test_parquet_output__is_read_back_as_it_was(tmp_path: Path, compression: str) -> None:
    frame = pl.DataFrame({"t": ["a", None], "x": [0.1, None], "d": [date(2020, 1, 1), None], "i": pl.Series([1, None], dtype=pl.Int8)})
    ParquetOutput.model_validate({"compression": compression}).write(Part(frame), {}, str(tmp_path / "x.parquet"))
    assert_frame_equal(read(reader(tmp_path / "x.parquet")).frame, frame, check_exact=True)


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("parts", [None, 1, 2, 7])
def test_parquet__a_genotype_table_comes_back_whole(tmp_path: Path, files: int, parts: int | None) -> None:
    cohort = small_cohort()
    people = cohort.people.with_columns(sex=pl.Series([1, 2, None] * 13 + [1, 2], dtype=pl.Int8), é=pl.lit("ü"))
    write_cohort(Cohort(cohort.rows, people), tmp_path, files)
    table = reader(tmp_path, parts=parts)
    assert table.table_schema().arrays == {"calls": people.schema}
    assert table.axes()["calls"].equals(people)
    whole = read(table)
    assert whole.frame.equals(cohort.rows.frame)
    np.testing.assert_array_equal(whole.arrays["calls"], cohort.rows.arrays["calls"])
    if parts:
        assert len(table.sources(2)) == parts


def test_parquet__the_calls_are_one_binary_column_of_two_bits_a_call(tmp_path: Path) -> None:
    cohort = small_cohort()
    write_cohort(cohort, tmp_path, 1)
    column = pq.read_table(tmp_path / "0.parquet").column("calls").combine_chunks()
    assert column.type == pa.binary(11)
    assert column[7].as_py() == cohort.rows.arrays["calls"][7].tobytes()


def test_parquet__a_genotype_table_of_no_variants_comes_back(tmp_path: Path) -> None:
    cohort = small_cohort()
    none = Cohort(Part(cohort.rows.frame[:0], {"calls": cohort.rows.arrays["calls"][:0]}), cohort.people)
    write_cohort(none, tmp_path, 1)
    whole = read(reader(tmp_path))
    assert whole.frame.schema == cohort.rows.frame.schema
    assert whole.arrays["calls"].shape == (0, 11)
    assert reader(tmp_path).axes()["calls"].equals(cohort.people)


def test_parquet__an_empty_file_among_others_of_a_genotype_table_changes_nothing(tmp_path: Path) -> None:
    cohort = small_cohort()
    write_cohort(cohort, tmp_path, 2)
    none = Part(cohort.rows.frame[:0], {"calls": cohort.rows.arrays["calls"][:0]})
    ParquetOutput(calls=True).write(none, {"calls": cohort.people}, str(tmp_path / "00.parquet"))
    for parts in (None, 2, 7):
        np.testing.assert_array_equal(read(reader(tmp_path, parts=parts)).arrays["calls"], cohort.rows.arrays["calls"])


def test_parquet__without_calls_a_genotype_table_is_its_variants_rows(tmp_path: Path) -> None:
    cohort = small_cohort()
    ParquetOutput().write(cohort.rows, {"calls": cohort.people}, str(tmp_path / "x.parquet"))
    table = reader(tmp_path / "x.parquet")
    assert table.table_schema().arrays == {}
    assert read(table).frame.equals(cohort.rows.frame)


def test_parquet_input__refuses_calls_of_different_samples(tmp_path: Path) -> None:
    cohort = small_cohort()
    write_cohort(cohort, tmp_path, 1)
    others = cohort.people.reverse()
    ParquetOutput(calls=True).write(cohort.rows, {"calls": others}, str(tmp_path / "1.parquet"))
    with pytest.raises(InputError, match=r"1\.parquet: the files' genotypes are of different samples; read them as tables of their own"):
        reader(tmp_path).table_schema()


def dosage_rows(variants: int = 41, samples: int = 7) -> tuple[Part, pl.DataFrame]:
    """A genotype table of dosages, a tenth of them missing, and its samples."""
    random = np.random.default_rng(5)
    dosages = random.uniform(0, 2, (variants, samples)).astype(np.float32)
    dosages[random.random(dosages.shape) < 0.1] = np.nan
    frame = pl.DataFrame({"variant_id": [f"v{i}" for i in range(variants)], "alt_frequency": random.random(variants)})
    return Part(frame, {"alt_dosages": dosages}), pl.DataFrame({"sample_id": [f"s{i}" for i in range(samples)]})


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("compression", ["auto", "uncompressed"])
def test_parquet_output__dosages_come_back_with_their_samples(tmp_path: Path, parts: int, compression: str) -> None:
    rows, samples = dosage_rows()
    ParquetOutput.model_validate({"calls": True, "compression": compression}).write(
        rows, {"alt_dosages": samples}, str(tmp_path / "d.parquet")
    )
    table = reader(tmp_path / "d.parquet", parts=parts)
    assert dict(table.table_schema().arrays) == {"alt_dosages": samples.schema}
    assert table.axes()["alt_dosages"].equals(samples)
    assert len(table.sources(2)) == parts
    again = read(table)
    assert again.frame.equals(rows.frame)
    np.testing.assert_array_equal(again.arrays["alt_dosages"], rows.arrays["alt_dosages"])
    assert again.arrays["alt_dosages"].dtype == np.float32


def test_parquet_output__leaves_dosages_out_where_calls_is_false(tmp_path: Path) -> None:
    rows, samples = dosage_rows()
    ParquetOutput().write(rows, {"alt_dosages": samples}, str(tmp_path / "d.parquet"))
    assert pl.read_parquet(tmp_path / "d.parquet").equals(rows.frame)
    assert not reader(tmp_path / "d.parquet").table_schema().arrays


def test_parquet_output__genotypes_are_cut_into_row_groups_of_equal_size(tmp_path: Path) -> None:
    calls = np.zeros((20_001, 625), np.uint8)
    samples = pl.DataFrame({"sample_id": [f"s{i}" for i in range(2500)]})
    part = Part(pl.DataFrame({"variant_id": [str(i) for i in range(len(calls))]}), {"calls": calls})
    ParquetOutput(calls=True).write(part, {"calls": samples}, str(tmp_path / "c.parquet"))
    meta = pq.read_metadata(tmp_path / "c.parquet")
    assert [meta.row_group(group).num_rows for group in range(meta.num_row_groups)] == [6667, 6667, 6667]
    assert {meta.row_group(0).column(0).compression, meta.row_group(0).column(1).compression} == {"ZSTD", "LZ4"}


def test_parquet_input__takes_the_build_that_the_job_states(tmp_path: Path) -> None:
    numbered(tmp_path / "a.parquet", 0, 3)
    assert reader(tmp_path / "a.parquet").genome_build() is None
    assert reader(tmp_path / "a.parquet", build="hg19").genome_build() == "GRCh37"
    assert reader(tmp_path / "a.parquet", build=38).genome_build() == "GRCh38"
    with pytest.raises(ValidationError, match=r"'hg17' is no genome build that is known here: NCBI36 \(hg18, b36\); GRCh37"):
        reader(tmp_path / "a.parquet", build="hg17")


@pytest.mark.parametrize("column", ["k", "t"])
def test_parquet_input__names_a_file_whose_pages_are_damaged(tmp_path: Path, column: str) -> None:
    for name in ("a", "b"):
        pl.DataFrame({"k": range(5000), "t": [f"text {i}" for i in range(5000)]}).write_parquet(tmp_path / f"{name}.parquet")
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    chunk = pq.read_metadata(tmp_path / "b.parquet").row_group(0).column(["k", "t"].index(column))
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(255 for _ in range(chunk.total_compressed_size))
    (tmp_path / "b.parquet").write_bytes(data)
    with pytest.raises(RunError, match=r"b\.parquet: cannot be read, though its footer can \(.*\)\. It is damaged"):
        read(reader(tmp_path))
