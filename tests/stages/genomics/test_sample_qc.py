"""sample_qc."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.part import Part
from pipeline.session import ClusterSession
from pipeline.stage import StageError
from pipeline.stages.genomics.sample_qc import SampleQc
from tests.harness import plan_stage
from tests.kernels.plink_files import floats, needs_data, read_columns
from tests.stages.genomics.cohorts import AUTOSOMES, HAPMAP3, Cohort, hapmap3, run, same_for_any_parts, small_cohort


def qc(min_call_rate: float = 0.0) -> SampleQc:
    return SampleQc(min_call_rate=min_call_rate)


@needs_data
def test_sample_qc__is_what_plink_printed_for_hapmap3() -> None:
    found = run(qc(0.998), {"genotypes": hapmap3()}, 3)
    printed = read_columns(HAPMAP3 / "qc.smiss")
    measured = found["measured"].frame
    assert measured["sample_id"].to_list() == printed["IID"].tolist()
    missing = printed["MISSING_CT"].astype(int) / printed["OBS_CT"].astype(int)
    np.testing.assert_allclose(measured["call_rate"], 1 - missing, rtol=1e-14)
    kept = missing <= 0.002
    assert 10 < kept.sum() < 947
    people = found[""].axes["calls"]
    assert people["sample_id"].to_list() == printed["IID"][kept].tolist()
    assert people.columns == [*hapmap3().people.columns, "call_rate", "heterozygosity"]
    assert people.drop("call_rate", "heterozygosity").equals(hapmap3().people.filter(pl.Series(kept)))
    codes = Cohort(found[""].part, people).codes
    np.testing.assert_array_equal(codes[::50], hapmap3().codes[::50, kept])


@needs_data
def test_sample_qc__heterozygosity_of_hapmap3_is_plinks() -> None:
    cohort = hapmap3()
    diploid = cohort.rows.frame["chromosome"].is_in([*AUTOSOMES, "XY"]).arg_true().to_numpy()
    part = Part(cohort.rows.frame[diploid], {"calls": cohort.rows.arrays["calls"][diploid]})
    measured = run(qc(), {"genotypes": Cohort(part, cohort.people)}, 2)["measured"].frame
    printed = read_columns(HAPMAP3 / "qc.het")
    homozygous, called = floats(printed["O(HOM)"]), floats(printed["OBS_CT"])
    np.testing.assert_allclose(measured["heterozygosity"], 1 - homozygous / called, rtol=1e-12)


@pytest.mark.parametrize("least", [0.0, 0.95])
def test_sample_qc__is_the_same_in_any_parts_and_processes(least: float, workers: ClusterSession) -> None:
    cohort = small_cohort()
    found = same_for_any_parts(qc(least), {"genotypes": cohort}, workers)
    called = cohort.codes != 3
    kept = called.mean(axis=0) >= least
    assert found[""].frame.equals(cohort.rows.frame)
    people, measured = found[""].axes["calls"], found["measured"].frame
    assert people["sample_id"].to_list() == cohort.people.filter(pl.Series(kept))["sample_id"].to_list()
    np.testing.assert_array_equal(Cohort(found[""].part, people).codes, cohort.codes[:, kept])
    np.testing.assert_allclose(measured["heterozygosity"], (cohort.codes == 1).sum(axis=0) / called.sum(axis=0))
    assert measured["kept"].to_list() == kept.tolist()
    assert measured.schema == pl.Schema(
        {"sample_id": pl.String(), "call_rate": pl.Float64(), "heterozygosity": pl.Float64(), "kept": pl.Boolean()}
    )
    counts = {"people_in": 41, "low_call_rate": int((~kept).sum()), "people_out": int(kept.sum())}
    assert found[""].counts.items() >= counts.items()


def test_sample_qc__padding_bits_stay_zero() -> None:
    found = run(qc(0.95), {"genotypes": small_cohort()})[""]
    people = found.axes["calls"].height
    assert people % 4
    assert not np.any(found.part.arrays["calls"][:, -1] >> 2 * (people % 4))


def test_sample_qc__keeps_what_else_is_known_of_people_and_measures_again() -> None:
    cohort = small_cohort()
    known = cohort.people.with_columns(sex=pl.lit(1, pl.Int8), call_rate=pl.lit(0.5), family_id=pl.lit("f"))
    people = run(qc(), {"genotypes": Cohort(cohort.rows, known)})[""].axes["calls"]
    assert people.columns == ["sample_id", "sex", "family_id", "call_rate", "heterozygosity"]
    np.testing.assert_allclose(people["call_rate"], (cohort.codes != 3).mean(axis=0))


def test_sample_qc__a_person_with_no_call_has_no_heterozygosity() -> None:
    rows = Part(small_cohort().rows.frame[:2], {"calls": np.array([[0b1100], [0b1101]], np.uint8)})
    cohort = Cohort(rows, pl.DataFrame({"sample_id": ["a", "b"]}))
    measured = run(qc(), {"genotypes": cohort})["measured"].frame
    assert measured.rows() == [("a", 1.0, 0.5, True), ("b", 0.0, None, True)]


def test_sample_qc__refuses_to_keep_nobody() -> None:
    best = float((small_cohort().codes != 3).mean(axis=0).max())
    with pytest.raises(DataError, match=rf"stage tested: no person .* the best has {best}\. Lower min_call_rate\."):
        run(qc(1.0), {"genotypes": small_cohort()})


def test_sample_qc__refuses_a_table_without_calls() -> None:
    with pytest.raises(StageError, match="the table given as 'genotypes' has no calls"):
        plan_stage(qc(), {"genotypes": small_cohort().rows.frame})
