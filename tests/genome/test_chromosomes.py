"""chromosomes."""

from __future__ import annotations

import polars as pl

from pipeline.genome.chromosomes import chromosome_kind, natural_order, on_autosome


def test_chromosome_kind__reads_every_way_to_write_a_chromosome() -> None:
    names: dict[str | None, list[str | None]] = {
        "autosome": ["1", "22", "chr2", "CHR10", "01", "chr02"],  # the last two are 1 and 2 to plink2 as well
        "x": ["X", "chrX", "x", "23", "0X"],
        "y": ["Y", "chrY", "24"],
        "par": ["XY", "25", "PAR1", "chrPAR2"],
        "mt": ["MT", "M", "chrM", "26"],
        None: ["0", "27", "chr", "GL000192.1", "chr1_random", "00", None],
    }
    frame = pl.DataFrame({"chromosome": [name for written in names.values() for name in written]}, schema={"chromosome": pl.String})
    found = frame.select(kind=chromosome_kind(), on=on_autosome())
    assert found["kind"].to_list() == [kind for kind, written in names.items() for _ in written]
    assert (found["kind"] == "autosome").fill_null(value=False).to_list() == found["on"].to_list()


def test_natural_order__is_that_of_people() -> None:
    names = ["MT", "10", "chr2", "X", "1", "HLA-A", "Y"]
    assert sorted(names, key=natural_order) == ["1", "chr2", "10", "X", "Y", "MT", "HLA-A"]
