"""The plink format: a fileset to a genotype table, in any parts, with its people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import InputError, JobError
from pipeline.formats._plink.bed_files import write_plink
from pipeline.formats.plink import PlinkInput, PlinkOutput
from pipeline.genome.columns import VOCABULARY, dtypes_of
from pipeline.tables.part import Part, Schema
from tests.formats.reading import read
from tests.kernels.plink_files import DATA, needs_data, read_bed
from tests.outputs import write_output
from tests.stages.genomics.cohorts import small_cohort

VARIANT = ("chromosome", "base_pair_location", "variant_id", "ref", "alt", "centimorgan")
PERSON = ("sample_id", "family_id", "father_id", "mother_id", "sex", "phenotype")


def reader(path: Path | list[str], **given: Any) -> PlinkInput:
    return PlinkInput.model_validate({"path": path if isinstance(path, list) else str(path), **given})


def write_small(folder: Path, variants: int = 60) -> Path:
    cohort = small_cohort()
    write_plink(folder / "x", cohort.rows.frame[:variants], cohort.people, [cohort.rows.arrays["calls"][:variants]])
    return folder / "x.bed"


@needs_data
def test_plink_input__hapmap3_is_the_bytes_of_its_bed() -> None:
    table = reader(DATA / "hapmap3" / "data.bed", parts=7)
    whole, (calls, people) = read(table), read_bed(DATA / "hapmap3" / "data")
    np.testing.assert_array_equal(whole.arrays["calls"], calls)
    lines = [line.split() for line in (DATA / "hapmap3" / "data.bim").read_text().splitlines()]
    assert whole.frame["variant_id"].to_list() == [line[1] for line in lines]
    assert whole.frame["alt"].to_list() == [line[4] for line in lines]
    fam = [line.split() for line in (DATA / "hapmap3" / "data.fam").read_text().splitlines()]
    axis = table.axes()["calls"]
    assert axis.select("family_id", "sample_id").rows() == [(line[0], line[1]) for line in fam]
    assert axis["sex"].to_list() == [int(line[4]) for line in fam]
    assert axis.height == people


@pytest.mark.parametrize("parts", [None, 1, 2, 7, 80])
def test_plink_input__parts_keep_every_row_once_and_in_order(tmp_path: Path, parts: int | None) -> None:
    cohort = small_cohort()
    table = reader(write_small(tmp_path), parts=parts)
    assert len(table.sources(2)) == (parts or 1)
    whole = read(table)
    assert whole.frame.drop("chromosome", "centimorgan").equals(cohort.rows.frame.drop("chromosome"))
    np.testing.assert_array_equal(whole.arrays["calls"], cohort.rows.arrays["calls"])


def test_plink_input__states_its_schema_with_the_people_of_the_fam(tmp_path: Path) -> None:
    table = reader(write_small(tmp_path))
    schema = table.table_schema()
    assert list(schema.columns.items()) == [(name, VOCABULARY[name].dtype) for name in VARIANT]
    assert dict(schema.arrays["calls"]) == dtypes_of(PERSON)
    assert table.axes()["calls"].schema == schema.arrays["calls"]
    assert table.axes()["calls"]["sample_id"].to_list() == small_cohort().people["sample_id"].to_list()


def test_plink_input__a_folder_stands_for_the_one_bed_in_it(tmp_path: Path) -> None:
    write_small(tmp_path)
    assert reader(tmp_path).rows() == 60


def test_plink_input__sees_that_a_fileset_was_written_again(tmp_path: Path) -> None:
    assert reader(write_small(tmp_path)).rows() == 60
    assert read(reader(write_small(tmp_path, 13))).frame.height == 13


def test_plink_input__sees_that_the_people_alone_were_written_again(tmp_path: Path) -> None:
    bed = write_small(tmp_path)
    assert reader(bed).axes()["calls"]["sex"].null_count() == 41
    fam = bed.with_suffix(".fam")
    rows = [line.split() for line in fam.read_text().splitlines()]
    fam.write_text("".join(" ".join([*row[:4], "2", *row[5:]]) + "\n" for row in rows))
    assert reader(bed).axes()["calls"]["sex"].to_list() == [2] * 41


def test_plink_input__refuses_two_filesets_and_files_that_do_not_belong_together(tmp_path: Path) -> None:
    bed = write_small(tmp_path)
    with pytest.raises(InputError, match=r"x\.bed: one \.bed is one input; name .* as inputs of their own"):
        reader([str(bed), str(bed)]).table_schema()
    bim = bed.with_suffix(".bim")
    bim.write_text("".join(bim.read_text().splitlines(keepends=True)[:50]))
    with pytest.raises(InputError, match=r"x\.bed: has 663 bytes where 553 are expected for 50 variants and 41 people"):
        reader(bed).table_schema()
    bim.unlink()
    with pytest.raises(InputError, match=r"x\.bim: no such file; a plink input is three files"):
        reader(bed).table_schema()


def test_plink_input__refuses_a_path_that_is_no_bed_and_one_that_is_not_there(tmp_path: Path) -> None:
    bed = write_small(tmp_path)
    with pytest.raises(InputError, match=r"x\.bim: the path of a plink input names the \.bed"):
        reader(bed.with_suffix(".bim")).table_schema()
    with pytest.raises(InputError, match=r"y\.bed: no such file\. Did you mean 'x\.bed'"):
        reader(tmp_path / "y.bed").table_schema()
    bed.write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.bed: the file is empty"):
        reader(bed).table_schema()


def test_plink_input__refuses_people_of_one_name(tmp_path: Path) -> None:
    cohort = small_cohort()
    people = pl.DataFrame({"sample_id": ["p0", *cohort.people["sample_id"][1:-1], "p0"]})
    write_plink(tmp_path / "x", cohort.rows.frame, people, [cohort.rows.arrays["calls"]])
    with pytest.raises(InputError, match=r"x\.fam: 1 sample id\(s\) .* such as p0"):
        reader(tmp_path / "x.bed").table_schema()


@needs_data
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_plink_output__hapmap3_is_the_same_fileset_whatever_the_parts(tmp_path: Path, parts: int) -> None:
    table = reader(DATA / "hapmap3" / "data.bed", parts=3)
    (written,) = write_output(PlinkOutput(), read(table), table.axes(), parts, tmp_path)
    assert written.files == [(f"{tmp_path}/out/out.bed", 14_389), (f"{tmp_path}/out/out.bim", None), (f"{tmp_path}/out/out.fam", None)]
    assert (written.measured.rows, written.measured.parts) == (14_389, parts)
    assert (tmp_path / "out" / "out.bed").read_bytes() == (DATA / "hapmap3" / "data.bed").read_bytes()
    again = reader(tmp_path / "out" / "out.bed")
    assert read(again).frame.equals(read(table).frame)
    assert again.axes()["calls"].equals(table.axes()["calls"])


def test_plink_output__writes_to_a_url_as_to_a_folder(tmp_path: Path) -> None:
    import fsspec

    cohort = small_cohort()
    write_output(PlinkOutput(), cohort.rows, {"calls": cohort.people}, 2, tmp_path)
    write_output(PlinkOutput(), cohort.rows, {"calls": cohort.people}, 3, "memory://plink-output")
    there = fsspec.filesystem("memory")
    for ending in ("bed", "bim", "fam"):
        assert there.cat(f"/plink-output/out/out.{ending}") == (tmp_path / "out" / f"out.{ending}").read_bytes()


def test_plink_output__is_written_twice_without_harm(tmp_path: Path) -> None:
    cohort = small_cohort()
    for _ in range(2):
        write_output(PlinkOutput(), cohort.rows, {"calls": cohort.people}, 2, tmp_path)
    assert read(reader(tmp_path / "out" / "out.bed")).frame.height == cohort.rows.frame.height


def test_plink_output__keeps_a_table_without_rows(tmp_path: Path) -> None:
    cohort = small_cohort()
    empty = Part(cohort.rows.frame[:0], {"calls": cohort.rows.arrays["calls"][:0]})
    write_output(PlinkOutput(), empty, {"calls": cohort.people}, 2, tmp_path)
    assert (tmp_path / "out" / "out.bed").read_bytes() == bytes.fromhex("6c1b01")


def test_plink_output__refuses_a_table_without_calls_or_without_a_column_of_the_bim() -> None:
    columns = dtypes_of(VARIANT)
    people = pl.Schema({"sample_id": pl.String()})
    with pytest.raises(JobError, match=r"holds hard calls, and this table has none \(it has dosages; read it with field: calls\)"):
        PlinkOutput().check(Schema(pl.Schema(columns), {"alt_dosages": people}), list(columns))
    with pytest.raises(JobError, match=r"this table has none \(calls come from a genotype input\)"):
        PlinkOutput().check(Schema(pl.Schema(columns)), list(columns))
    with pytest.raises(JobError, match="needs the column 'ref', which is not written here"):
        PlinkOutput().check(Schema(pl.Schema(columns), {"calls": people}), ["chromosome", "base_pair_location", "variant_id", "alt"])
