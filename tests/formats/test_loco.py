"""loco: regenie's predictions read and written."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, InputError, JobError
from pipeline.formats.loco import LocoInput, LocoOutput
from pipeline.tables.part import Part
from pipeline.testing.formats import assert_reads, assert_round_trip, read_table, write_table
from tests.kernels.plink_files import needs_data
from tests.kernels.regenie_files import REGENIE, read_loco
from tests.outputs import write_output

CHROMOSOMES = [*map(str, range(1, 23)), "X"]
FRAME = (
    pl.DataFrame({"trait": ["ldl", "height"]})
    .join(pl.DataFrame({"chromosome": CHROMOSOMES}), how="cross")
    .join(pl.DataFrame({"sample_id": ["p1", "p_2", "p3"]}), how="cross")
    .select("trait", "sample_id", "chromosome", pl.int_range(pl.len()).cast(pl.Float64).sin().alias("prediction"))
)


def written(folder: Path, lines: str, listed: str = "ldl fit_1.loco\n") -> LocoInput:
    (folder / "fit_pred.list").write_text(listed)
    (folder / "fit_1.loco").write_text(lines)
    return LocoInput(path=str(folder / "fit_pred.list"))


def test_loco__comes_back_as_it_was(tmp_path: Path) -> None:
    assert_round_trip(LocoOutput(), LocoInput, FRAME, tmp_path)


@needs_data
def test_loco__is_what_regenie_wrote() -> None:
    folder = REGENIE / "hapmap3"
    found = read_table(LocoInput(path=str(folder / "s1_qt_pred.list"))).frame
    assert found["trait"].unique(maintain_order=True).to_list() == ["y_lin", "y_null"]
    for place, trait in enumerate(("y_lin", "y_null"), 1):
        ids, rows = read_loco(folder / f"s1_qt_{place}.loco.gz")
        own = found.filter(trait=trait)
        assert own["sample_id"].head(len(ids)).to_list() == [name.partition("_")[2] for name in ids]
        assert own["chromosome"].unique(maintain_order=True).to_list() == CHROMOSOMES
        np.testing.assert_array_equal(own["prediction"], np.concatenate(list(rows.values())))


def test_loco__is_regenies_text(tmp_path: Path) -> None:
    frame = FRAME.filter(pl.col("trait") == "ldl").with_columns(family_id=pl.lit("0"))
    paths = write_table(LocoOutput(), frame, tmp_path / "out", 3)
    assert [path.name for path in paths] == ["whole.ldl.loco", "whole_pred.list"]
    assert (tmp_path / "out" / "whole_pred.list").read_text() == "ldl whole.ldl.loco\n"
    (run,) = write_output(LocoOutput(), Part(frame), {}, 2, tmp_path / "run")
    assert [(path.rpartition("/")[2], rows) for path, rows in run.files] == [("out.ldl.loco", 69), ("out_pred.list", None)]
    lines = (tmp_path / "out" / "whole.ldl.loco").read_text().splitlines()
    assert lines[0] == "FID_IID 0_p1 0_p_2 0_p3"
    assert [line.split()[0] for line in lines[1:]] == [*map(str, range(1, 24))]
    assert lines[1].split()[1:] == [repr(value) for value in frame["prediction"].head(3)]
    assert_reads(LocoInput(path=str(tmp_path / "out")), frame.drop("family_id"))


def test_loco__of_people_named_by_fid_and_iid_has_them_as_they_are(tmp_path: Path) -> None:
    frame = FRAME.with_columns(sample_id="f_1_" + pl.col("sample_id"))
    (path, *_) = write_table(LocoOutput(ids="fid_iid"), frame, tmp_path / "out", 2)
    assert path.read_text().splitlines()[0] == "FID_IID f_1_p1 f_1_p_2 f_1_p3"
    assert_reads(LocoInput(path=str(tmp_path / "out"), ids="fid_iid"), frame)
    with pytest.raises(DataError, match="ids are fid_iid, and the sample_id 'p1' has no _ in it"):
        write_table(LocoOutput(ids="fid_iid"), FRAME, tmp_path / "other")


def test_loco__finds_packed_files_beside_the_list(tmp_path: Path) -> None:
    reader = written(tmp_path, "FID_IID a_b 0_c_d e_e\n1 0.5 1 -2e-3\n", "ldl /gone/fit_1.loco\n")
    expected = read_table(reader).frame
    assert expected["sample_id"].to_list() == ["b", "c_d", "e"]
    assert expected["prediction"].to_list() == [0.5, 1.0, -0.002]
    (tmp_path / "fit_1.loco.gz").write_bytes(gzip.compress((tmp_path / "fit_1.loco").read_bytes()))
    (tmp_path / "fit_1.loco").unlink()
    assert read_table(reader).frame.equals(expected)
    assert [Path(path).name for path in reader.content()] == ["fit_pred.list", "fit_1.loco.gz"]


@pytest.mark.parametrize(
    ("lines", "listed", "text"),
    [
        ("1 2 3\n", "ldl fit_1.loco\n", "its first line does not begin with FID_IID"),
        ("FID_IID a_a b_b\n1 2\n", "ldl fit_1.loco\n", "line 2 has 1 predictions of 2 people"),
        ("FID_IID a_a b_b\n1 2 x\n", "ldl fit_1.loco\n", "line 2 has 'x' where a number must be"),
        ("FID_IID a_b_c\n1 2\n", "ldl fit_1.loco\n", "where the FID of 'a_b_c' ends cannot be told"),
        ("", "ldl\n", "the line 'ldl' must have a trait and its file"),
        ("", "ldl fit_2.loco\n", "the file 'fit_2.loco', which it names, is neither there nor beside the list"),
    ],
)
def test_loco__refuses_what_is_no_such_file(tmp_path: Path, lines: str, listed: str, text: str) -> None:
    reader = written(tmp_path, lines, listed)
    with pytest.raises(InputError, match=text):
        read_table(reader)


def test_loco__leaves_out_who_lacks_a_binary_trait(tmp_path: Path) -> None:
    found = read_table(written(tmp_path, "FID_IID 1_1 2_2 3_3\n1 0.5 NA -1\n2 NA NA 2\n")).frame
    assert found.select("chromosome", "sample_id", "prediction").rows() == [("1", "1", 0.5), ("1", "3", -1.0), ("2", "3", 2.0)]


def test_loco__refuses_a_table_that_it_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="loco needs the column prediction"):
        write_table(LocoOutput(), FRAME.drop("prediction"), tmp_path / "1")
    with pytest.raises(DataError, match="chromosome 1 of 'ldl' has not one prediction of each of the 3 people"):
        write_table(LocoOutput(), FRAME[1:], tmp_path / "2")
    with pytest.raises(DataError, match="cannot hold the trait 'l d l'"):
        write_table(LocoOutput(), FRAME.with_columns(trait=pl.lit("l d l")), tmp_path / "3")
