"""keep_regions: the variants that PLINK 2's --extract bed0 and bed1 keep, whatever the parts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.keep_regions import KeepRegions
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts

PLACES = [*(("1", at) for at in (10, 11, 20, 21, 30, 31)), *(("chr2", at) for at in (5, 6, 7)), ("3", 7), ("3", 8), ("X", 1), ("X", 100),
          ("X", 101), ("4", 3)]  # fmt: skip
REGIONS = pl.DataFrame(
    {"chromosome": ["1", "chr1", "2", "23", "3"], "start": [10, 15, 5, 0, 7], "end": [20, 30, 6, 100, 7]},
    schema={"chromosome": pl.String, "start": pl.Int64, "end": pl.Int64},
)
# What plink 2.00a3.5 keeps by --extract; bed0 without the last region, which is empty there.
KEPT = {
    "bed": "1_11 1_20 1_21 1_30 chr2_6 X_1 X_100",
    "inclusive": "1_10 1_11 1_20 1_21 1_30 chr2_5 chr2_6 3_7 X_1 X_100",
}
EXAMPLES = [
    StageExample(
        KeepRegions(leave_out=leave_out),
        {"genotypes": examples.GENOTYPES, "regions": REGIONS.with_columns(chromosome=pl.lit("1"), end=pl.col("end") * 40)},
        examples.AXES,
    )
    for leave_out in (False, True)
]


def cohort() -> Cohort:
    calls = (np.arange(3 * len(PLACES)).reshape(-1, 3) % 4).astype(np.uint8)
    names = [f"{name}_{at}" for name, at in PLACES]
    frame = pl.DataFrame({"chromosome": [name for name, _ in PLACES], "base_pair_location": [at for _, at in PLACES], "variant_id": names})
    return Cohort(Part(frame, {"calls": pack(calls)}), pl.DataFrame({"sample_id": ["a", "b", "c"]}))


@pytest.mark.parametrize("coordinates", ["bed", "inclusive"])
@pytest.mark.parametrize("leave_out", [False, True])
def test_keep_regions__keeps_what_plink_keeps(workers: ClusterSession, coordinates: str, leave_out: bool) -> None:
    stage = KeepRegions.model_validate({"coordinates": coordinates, "leave_out": leave_out})
    whole, named = cohort(), KEPT[coordinates].split()
    found = same_for_any_parts(stage, {"genotypes": whole, "regions": REGIONS}, workers)[""]
    rows = [at for at, name in enumerate(whole.rows.frame["variant_id"]) if (name in named) != leave_out]
    assert found.frame["variant_id"].to_list() == whole.rows.frame["variant_id"][rows].to_list()
    np.testing.assert_array_equal(found.part.arrays["calls"], whole.rows.arrays["calls"][rows])
    assert found.counts == {"variants_in": len(PLACES), "variants_out": len(rows)}


@pytest.mark.parametrize("region", [("1", 9, 3), ("1", None, 3), (None, 1, 3), ("1", 1, None)])
def test_keep_regions__refuses_what_is_no_region(region: tuple[str | None, int | None, int | None]) -> None:
    regions = pl.DataFrame([region], ["chromosome", "start", "end"], orient="row").cast(REGIONS.schema)
    with pytest.raises(DataError, match="both must be there, the end not before the start"):
        run(KeepRegions(), {"genotypes": cohort(), "regions": regions})


def test_keep_regions__needs_the_three_columns() -> None:
    with pytest.raises(StageError, match="the table given as 'regions' has no column 'end'"):
        plan_stage(KeepRegions(), {"genotypes": cohort().rows, "regions": REGIONS.drop("end")}, {"calls": cohort().people})
    with pytest.raises(StageError, match="column 'start' of the regions is Float64, and whole numbers are needed"):
        plan_stage(KeepRegions(), {"genotypes": cohort().rows, "regions": REGIONS.cast({"start": pl.Float64})}, {"calls": cohort().people})
