"""People whose families have IIDs alike: refused by the IID, told apart by FID_IID, in every format that knows families."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.errors import InputError
from pipeline.format import InputFormat, OutputFormat
from pipeline.formats.bgen import BgenInput, BgenOutput
from pipeline.formats.pgen import PgenInput, PgenOutput
from pipeline.formats.plink import PlinkInput, PlinkOutput
from pipeline.formats.plink_sheet import PlinkSheetInput
from pipeline.testing.formats import read_table, write_table
from tests.formats.test_genotypes_written import PEOPLE, table

FORMATS: dict[str, tuple[OutputFormat, type[InputFormat], str, str]] = {
    "plink": (PlinkOutput(), PlinkInput, ".fam", "f{family} {person} {parent} 0 1 -9"),
    "pgen": (PgenOutput(), PgenInput, ".psam", "f{family}\t{person}\t{parent}\t0\t1"),
    "bgen": (BgenOutput(), BgenInput, ".sample", "f{family} {person} 0 1"),
}
HEADS = {"plink": "", "pgen": "#FID\tIID\tPAT\tMAT\tSEX\n", "bgen": "ID_1 ID_2 missing sex\n0 0 0 D\n"}


@pytest.mark.parametrize("name", FORMATS)
def test_people_of_families__are_told_apart_by_both_ids(name: str, tmp_path: Path) -> None:
    writer, reader, ending, line = FORMATS[name]
    part, axes = table("calls")
    file = write_table(writer, part, tmp_path / "x", 1, axes)[0]
    lines = [line.format(family=at // 3, person=at % 3, parent=1 if at % 3 == 2 else 0) for at in range(PEOPLE)]
    beside = file.with_suffix(ending)
    beside.write_text(HEADS[name] + "\n".join(lines) + "\n")
    keys = {"path": str(file)} | ({"samples": str(beside)} if name == "bgen" else {})
    with pytest.raises(
        InputError, match=r"sample id\(s\) \(IID\) stand more than once.* tell people apart by their families, ids: fid_iid"
    ):
        reader.model_validate(keys).table_schema()
    told = reader.model_validate({**keys, "ids": "fid_iid"})
    (people,) = told.axes().values()
    assert people["sample_id"].to_list() == [f"f{at // 3}_{at % 3}" for at in range(PEOPLE)]
    if "father_id" in people.columns:
        assert people["father_id"].to_list() == [f"f{at // 3}_1" if at % 3 == 2 else "0" for at in range(PEOPLE)]
    found = read_table(told)
    assert np.allclose(found.arrays["calls"], part.arrays["calls"]) if "calls" in found.arrays else found.rows == part.rows
    (tmp_path / "x.pheno").write_text("FID IID y\n" + "".join(f"f{at // 3} {at % 3} {at}\n" for at in range(PEOPLE)))
    sheet = read_table(PlinkSheetInput(path=(str(tmp_path / "x.pheno"),), ids="fid_iid")).frame
    assert people.join(sheet, on="sample_id", how="inner").select(pl.col("y")).height == PEOPLE
