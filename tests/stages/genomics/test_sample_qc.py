"""sample_qc."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.sample_qc import SampleQc
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import assert_printed, floats, needs_data, read_columns
from tests.stages.genomics.cohorts import HAPMAP3, Cohort, hapmap3, run, same_for_any_parts, small_cohort, with_calls
from tests.stages.genomics.sexed import PEOPLE, sexed_cohort

EXAMPLES = [
    StageExample(SampleQc(min_call_rate=0.95), {"genotypes": examples.GENOTYPES}, examples.AXES),
    StageExample(SampleQc(min_call_rate=0.9), {"genotypes": examples.IMPUTED}, examples.IMPUTED_AXES),
]


def qc(min_call_rate: float = 0.0, max_abs_inbreeding: float | None = None) -> SampleQc:
    return SampleQc(min_call_rate=min_call_rate, max_abs_inbreeding=max_abs_inbreeding)


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
    assert people.columns == [*hapmap3().people.columns, "call_rate", "heterozygosity", "inbreeding"]
    assert people.drop("call_rate", "heterozygosity", "inbreeding").equals(hapmap3().people.filter(pl.Series(kept)))
    codes = Cohort(found[""].part, people).codes
    np.testing.assert_array_equal(codes[::50], hapmap3().codes[::50, kept])


@needs_data
def test_sample_qc__heterozygosity_and_inbreeding_of_hapmap3_are_plinks() -> None:
    measured = run(qc(), {"genotypes": hapmap3()}, 2)["measured"].frame
    printed = read_columns(HAPMAP3 / "qc.het")
    homozygous, called, expected = floats(printed["O(HOM)"]), floats(printed["OBS_CT"]), floats(printed["E(HOM)"])
    np.testing.assert_allclose(measured["heterozygosity"], 1 - homozygous / called, rtol=1e-12)
    assert_printed(measured["inbreeding"], printed["F"], 1e-6)
    found = called - (called - homozygous) / (1 - measured["inbreeding"].to_numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("families", [False, True])
def test_sample_qc__counts_sexes_and_founders_as_plink(families: bool) -> None:
    measured = run(qc(), {"genotypes": sexed_cohort(families=families)}, 2)["measured"].frame
    for person, everyone, founders, missing, possible in PEOPLE:
        row = measured.row(person, named=True)
        assert row["inbreeding"] == pytest.approx(founders if families else everyone, rel=1e-5)
        assert row["call_rate"] == pytest.approx(1 - missing / possible, rel=1e-12)


def test_sample_qc__drops_people_far_from_the_expected_heterozygosity() -> None:
    found = run(qc(0.9, 0.2), {"genotypes": small_cohort()}, 2)
    measured = found["measured"].frame
    called, near = measured["call_rate"] >= 0.9, measured["inbreeding"].abs() <= 0.2
    assert measured["kept"].to_list() == (called & near).to_list()
    assert found[""].counts["extreme_inbreeding"] == (called & ~near).sum() > 0
    with pytest.raises(
        DataError, match=r"stage tested: the least \|inbreeding\| of those with enough calls is .* Raise max_abs_inbreeding"
    ):
        run(qc(0.9, 0.0), {"genotypes": small_cohort()})


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
    autosomal = cohort.rows.frame["chromosome"].is_in(["1", "chr2"]).to_numpy()
    het, diploid = (cohort.codes == 1)[autosomal].sum(axis=0), called[autosomal].sum(axis=0)
    np.testing.assert_allclose(measured["heterozygosity"], het / diploid)
    assert measured["kept"].to_list() == kept.tolist()
    measures = dict.fromkeys(["call_rate", "heterozygosity", "inbreeding"], pl.Float64())
    assert measured.schema == pl.Schema({"sample_id": pl.String(), **measures, "kept": pl.Boolean()})
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
    assert people.columns == ["sample_id", "sex", "family_id", "call_rate", "heterozygosity", "inbreeding"]
    np.testing.assert_allclose(people["call_rate"], (cohort.codes != 3).mean(axis=0))


def test_sample_qc__a_person_with_no_call_has_no_heterozygosity_and_no_inbreeding() -> None:
    rows = Part(small_cohort().rows.frame[:2], {"calls": np.array([[0b1100], [0b1101]], np.uint8)})
    cohort = Cohort(rows, pl.DataFrame({"sample_id": ["a", "b"]}))
    measured = run(qc(), {"genotypes": cohort})["measured"].frame
    assert measured.rows() == [("a", 1.0, 0.5, -1.0, True), ("b", 0.0, None, None, True)]


def test_sample_qc__inbreeding_is_unknown_where_no_variant_that_varies_is_called() -> None:
    cohort = small_cohort(500, 40)
    called = cohort.codes.copy()
    called[:, 3] = 3
    called[:, 4] = np.where(np.arange(500) < 5, 0, 3)
    called[:5][called[:5] != 3] = 0
    measured = run(qc(), {"genotypes": with_calls(cohort, called)}, 3)["measured"].frame
    assert measured["inbreeding"].is_null().arg_true().to_list() == [3, 4]
    assert measured["heterozygosity"][3:5].to_list() == [None, 0.0]


def test_sample_qc__refuses_to_keep_nobody() -> None:
    best = float((small_cohort().codes != 3).mean(axis=0).max())
    with pytest.raises(DataError, match=rf"stage tested: no person .* the best has {best}\. Lower min_call_rate\."):
        run(qc(1.0), {"genotypes": small_cohort()})


def test_sample_qc__refuses_a_table_without_calls() -> None:
    with pytest.raises(StageError, match="the table given as 'genotypes' has no calls"):
        plan_stage(qc(), {"genotypes": small_cohort().rows.frame})
