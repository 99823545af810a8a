"""plink_sheet: what PLINK reads as phenotypes, covariates and lists of people."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from pipeline.errors import InputError
from pipeline.formats.plink_sheet import PlinkSheetInput
from pipeline.testing.formats import assert_reads, read_table
from tests.kernels.plink_files import DATA, needs_data, read_columns

TEXT = """FID IID  height\tcentre site ldl
f1 p1 170.5 north 1 -9
f1   p2 NA south 02 3.5
f2 p3 1.6e2 NA 3 nan
"""


def sheet(folder: Path, lines: str = TEXT, name: str = "traits.pheno", **given: object) -> PlinkSheetInput:
    (folder / name).write_text(lines)
    return PlinkSheetInput.model_validate({"path": str(folder / name), **given})


def test_plink_sheet__has_ids_numbers_and_categories(tmp_path: Path) -> None:
    expected = pl.DataFrame(
        {
            "sample_id": ["p1", "p2", "p3"],
            "family_id": ["f1", "f1", "f2"],
            "height": [170.5, None, 160.0],
            "centre": ["north", "south", None],
            "site": ["1", "02", "3"],
            "ldl": [None, 3.5, None],
        }
    )
    assert_reads(sheet(tmp_path, text=("site",)), expected)


def test_plink_sheet__knows_a_missing_number_however_it_is_written(tmp_path: Path) -> None:
    """As PLINK 2, for which -9.0 is -9; a text that is no number is as it stands."""
    text = "FID IID a b c\nf p1 -9.0 -9.000 -9.0\nf p2 NaN -09 x\nf p3 1.5 -8.9 -9\n"
    found = read_table(sheet(tmp_path, text)).frame
    assert found["a"].to_list() == [None, None, 1.5]
    assert found["b"].to_list() == [None, None, -8.9]
    assert found["c"].to_list() == ["-9.0", "x", None]
    assert read_table(sheet(tmp_path, text, missing=("NA", "NaN"))).frame["a"].to_list() == [-9, None, 1.5]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("p1\np2\n", ["sample_id"]),
        ("f1 p1\nf1 p2\n", ["sample_id", "family_id"]),
        ("f1 p1 2.5 1\nf1 p2 NA 2\n", ["sample_id", "family_id", "pheno1", "pheno2"]),
        ("#IID y\np1 1\np2 2\n", ["sample_id", "y"]),
        ("#FID\tIID\ty\nf1\tp1\t1\nf1\tp2\t2\n", ["sample_id", "family_id", "y"]),
    ],
)
def test_plink_sheet__is_read_with_a_header_and_without(text: str, columns: list[str], tmp_path: Path) -> None:
    found = read_table(sheet(tmp_path, text)).frame
    assert found.columns == columns
    assert found["sample_id"].to_list() == ["p1", "p2"]


def test_plink_sheet__makes_ids_of_families_and_reads_gzip_and_several_files(tmp_path: Path) -> None:
    (tmp_path / "b.pheno.gz").write_bytes(gzip.compress(TEXT.replace("p1", "p7").encode()))
    given = sheet(tmp_path, TEXT, "a.pheno", ids="fid_iid")
    both = given.model_copy(update={"path": (*given.path, str(tmp_path / "b.pheno.gz"))})
    assert read_table(both).frame["sample_id"].to_list() == ["f1_p1", "f1_p2", "f2_p3", "f1_p7", "f1_p2", "f2_p3"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FID IID y\nf p1 1\nf p2\n", "line 3 has 2 fields, and FID, IID, y ... are 3"),
        ("FID y\nf 1\n", "the header has FID and no IID"),
        ("IID y y\np 1 2\n", "the header has 'y' twice"),
        ("f1 p1 1\nf2 p1 2\n", "the sample 'p1' is there more than once. Tell people apart by their families: ids: fid_iid"),
        ("f1 p1 1\nf1 p1 2\n", "the sample 'p1' is there more than once. Keep one of the lines"),
        ("\n\n", "has no line"),
    ],
)
def test_plink_sheet__says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        sheet(tmp_path, text).table_schema()


def test_plink_sheet__refuses_a_column_that_is_not_there_and_files_of_other_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no column 'town', which `text` names. It has FID, IID, height"):
        sheet(tmp_path, text=("town",)).table_schema()
    other = sheet(tmp_path, "IID y\np 1\n", "other.pheno")
    with pytest.raises(InputError, match="Give an input each"):
        other.model_copy(update={"path": (*sheet(tmp_path).path, *other.path)}).table_schema()


@needs_data
def test_plink_sheet__reads_the_files_that_plink_was_given() -> None:
    path = DATA / "regenie_example" / "phenotype.txt"
    found, expected = read_table(PlinkSheetInput(path=str(path))).frame, read_columns(path)
    assert found["sample_id"].to_list() == expected["IID"].tolist()
    assert found["Y1"].to_list() == [None if value == "NA" else float(value) for value in expected["Y1"]]
