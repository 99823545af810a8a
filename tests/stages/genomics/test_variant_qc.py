"""variant_qc."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.sample_qc import SampleQc
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import assert_printed, floats, needs_data, read_columns
from tests.stages.genomics.cohorts import AUTOSOMES, HAPMAP3, Cohort, Found, hapmap3, run, same_for_any_parts, small_cohort
from tests.stages.genomics.sexed import VARIANTS, sexed_cohort

SEXED = {"calls": examples.PEOPLE.with_columns(sex=pl.Series(np.arange(examples.SAMPLES) % 3, dtype=pl.Int8))}
EXACT_TEST = {"hwe_p_value": examples.P_VALUES}
EXAMPLES = [
    StageExample(VariantQc(min_call_rate=0.9, min_maf=0.01, min_hwe_p=1e-4), {"genotypes": examples.GENOTYPES}, examples.AXES, EXACT_TEST),
    StageExample(VariantQc(hwe="midp"), {"genotypes": examples.GENOTYPES}, SEXED, EXACT_TEST),
    StageExample(VariantQc(min_mach_r2=0.5), {"genotypes": examples.IMPUTED}, {"alt_dosages": SEXED["calls"]}, EXACT_TEST),
]

MEASURES = ["call_rate", "alt_frequency", "minor_allele_frequency", "hwe_p_value"]


def qc(**given: Any) -> VariantQc:
    return VariantQc.model_validate(given)


def small(**given: float) -> Found:
    return run(qc(**given), {"genotypes": small_cohort()}, 3)[""]


@needs_data
@pytest.mark.parametrize(("hwe", "hardy", "column"), [("exact", "qc.hardy", "P"), ("midp", "qc_midp.hardy", "MIDP")])
def test_variant_qc__is_what_plink_printed_for_hapmap3(hwe: str, hardy: str, column: str) -> None:
    found = run(qc(hwe=hwe), {"genotypes": hapmap3()}, 4)[""].frame
    missing, frequencies, counted = (read_columns(HAPMAP3 / name) for name in ("qc.vmiss", "qc.afreq", "qc.acount"))
    assert found["variant_id"].to_list() == missing["ID"].tolist() == frequencies["ID"].tolist()
    np.testing.assert_allclose(found["call_rate"], 1 - missing["MISSING_CT"].astype(int) / missing["OBS_CT"].astype(int), rtol=1e-15)
    frequency = found["alt_frequency"].to_numpy()
    assert_printed(frequency, frequencies["ALT_FREQS"], 1e-12)
    np.testing.assert_allclose(frequency, floats(counted["ALT_CTS"]) / floats(counted["OBS_CT"]), rtol=1e-14)
    np.testing.assert_allclose(found["minor_allele_frequency"], np.minimum(frequency, 1 - frequency), rtol=1e-12)
    for name, chromosomes in ((hardy, [*AUTOSOMES, "XY"]), (f"{hardy}.x", ["X"])):
        printed, tested = read_columns(HAPMAP3 / name), found.filter(pl.col("chromosome").is_in(chromosomes))
        assert tested["variant_id"].to_list() == printed["ID"].tolist()
        assert_printed(tested["hwe_p_value"], printed[column], 5e-6)
    assert found.filter(pl.col("hwe_p_value").is_null())["chromosome"].to_list() == ["MT"] * 9


@needs_data
def test_qc__keeps_the_people_and_variants_of_hapmap3_that_plink_keeps() -> None:
    # plink2 --autosome --mind 0.01 --geno 0.005 --maf 0.05 --hwe 1e-4 --write-samples --write-snplist
    cohort = hapmap3()
    autosomal = cohort.rows.frame["chromosome"].is_in(AUTOSOMES).arg_true().to_numpy()
    rows = Part(cohort.rows.frame[autosomal], {"calls": cohort.rows.arrays["calls"][autosomal]})
    people = run(SampleQc(min_call_rate=0.99), {"genotypes": Cohort(rows, cohort.people)}, 2)[""]
    kept = Cohort(people.part, people.axes["calls"])
    found = run(qc(min_call_rate=0.995, min_maf=0.05, min_hwe_p=1e-4), {"genotypes": kept}, 3)[""]
    assert kept.people["sample_id"].to_list() == [line.split()[1] for line in (HAPMAP3 / "filtered.id").read_text().splitlines()]
    assert set(cohort.people["sample_id"]) - set(kept.people["sample_id"]) == {(HAPMAP3 / "filtered.mindrem.id").read_text().split()[1]}
    assert found.frame["variant_id"].to_list() == (HAPMAP3 / "filtered.snplist").read_text().split()


@pytest.mark.parametrize("families", [False, True])
@pytest.mark.parametrize(("hwe", "place"), [("exact", 2), ("midp", 3)])
def test_variant_qc__counts_sexes_and_founders_as_plink(families: bool, hwe: str, place: int) -> None:
    found = run(qc(hwe=hwe), {"genotypes": sexed_cohort(families=families)}, 2)[""].frame
    for row, variant in zip(found.iter_rows(named=True), VARIANTS, strict=True):
        printed, (missing, possible) = variant[2 + families], variant[4]
        assert row["call_rate"] == pytest.approx(1 - missing / possible, rel=1e-12)
        assert row["alt_frequency"] == pytest.approx(float(printed[0]) / printed[1], rel=1e-12)
        assert row["hwe_p_value"] == (None if printed[place] is None else pytest.approx(printed[place], rel=5e-6))


def test_variant_qc__counts_everyone_where_told() -> None:
    every = run(qc(founders_only=False), {"genotypes": sexed_cohort(families=True)})[""].frame
    assert every.equals(run(qc(), {"genotypes": sexed_cohort()})[""].frame)


def test_variant_qc__a_cohort_with_sexes_is_the_same_in_any_parts_and_processes(workers: ClusterSession) -> None:
    found = same_for_any_parts(qc(min_hwe_p=0.02), {"genotypes": sexed_cohort(families=True)}, workers)[""]
    assert found.frame["variant_id"].to_list() == ["v0", *(f"v{row}" for row in range(2, 9))]


def test_variant_qc__without_a_man_has_no_frequency_on_y() -> None:
    cohort = sexed_cohort()
    women = Cohort(cohort.rows, cohort.people.with_columns(sex=pl.lit(2, pl.Int8)))
    found = run(qc(), {"genotypes": women})[""].frame.filter(chromosome="Y")
    assert found.select("call_rate", "alt_frequency", "hwe_p_value").rows() == [(None, None, None)] * 2


def test_variant_qc__refuses_people_without_founders_and_sexes_that_are_none() -> None:
    cohort = sexed_cohort(families=True)
    children = Cohort(cohort.rows, cohort.people.with_columns(mother_id=pl.lit("I2")))
    with pytest.raises(DataError, match=r"stage tested: everyone has a parent named .*; set founders_only: false"):
        run(qc(), {"genotypes": children})
    with pytest.raises(DataError, match=r"the sex of 'I0' is 3; it must be 1 \(male\), 2 \(female\), 0 or null"):
        run(qc(), {"genotypes": Cohort(cohort.rows, cohort.people.with_columns(sex=pl.lit(3, pl.Int8)))})
    with pytest.raises(StageError, match="the people's column 'sex' is String; it must be whole numbers"):
        run(qc(), {"genotypes": Cohort(cohort.rows, cohort.people.with_columns(sex=pl.lit("male")))})


def test_variant_qc__keeps_the_same_variant_twice() -> None:
    cohort = sexed_cohort()
    twice = Cohort(concat_parts([cohort.rows, cohort.rows]), cohort.people)
    found = run(qc(), {"genotypes": twice}, 2)[""].frame
    assert found[:9].equals(found[9:])


@needs_data
def test_variant_qc__keeps_of_hapmap3_what_plinks_numbers_say() -> None:
    found = run(qc(min_call_rate=0.995, min_maf=0.1, min_hwe_p=1e-4), {"genotypes": hapmap3()}, 2)[""]
    missing, frequencies, hardy = (read_columns(HAPMAP3 / name) for name in ("qc.vmiss", "qc.afreq", "qc.hardy"))
    frequency = dict(zip(frequencies["ID"], frequencies["ALT_FREQS"].astype(float), strict=True))
    p = dict(zip(hardy["ID"], hardy["P"].astype(float), strict=True))
    rates = dict(zip(missing["ID"], 1 - missing["MISSING_CT"].astype(int) / 957, strict=True))
    tested = [name for name, chromosome in zip(missing["ID"], missing["CHROM"], strict=True) if chromosome in AUTOSOMES]
    low_rate = {name for name in tested if rates[name] < 0.995}
    low_maf = {name for name in tested if min(frequency[name], 1 - frequency[name]) < 0.1} - low_rate
    unbalanced = {name for name in tested if p[name] < 1e-4} - low_rate - low_maf
    assert min(len(low_rate), len(low_maf), len(unbalanced)) > 50
    kept = found.frame.filter(pl.col("chromosome").is_in(AUTOSOMES))["variant_id"].to_list()
    assert kept == [name for name in tested if name not in low_rate | low_maf | unbalanced]
    assert found.counts["variants_in"] - sum(found.counts[name] for name in ("low_call_rate", "low_maf", "out_of_hardy_weinberg")) == len(
        found.frame
    )
    whole = hapmap3()
    rows = whole.rows.frame.with_row_index().join(found.frame, on="variant_id", how="semi")["index"].to_numpy()
    np.testing.assert_array_equal(found.part.arrays["calls"], whole.rows.arrays["calls"][rows])


@pytest.mark.parametrize("given", [{}, {"min_call_rate": 0.95, "min_maf": 0.2, "min_hwe_p": 0.1}])
def test_variant_qc__is_the_same_in_any_parts_and_processes(given: dict[str, float], workers: ClusterSession) -> None:
    found = same_for_any_parts(qc(**given), {"genotypes": small_cohort()}, workers)[""]
    assert found.frame.schema == pl.Schema({**small_cohort().rows.frame.schema, **dict.fromkeys(MEASURES, pl.Float64())})
    assert found.axes["calls"].equals(small_cohort().people)


def test_variant_qc__measures_by_hand() -> None:
    found, codes = small().frame, small_cohort().codes
    called = codes != 3
    np.testing.assert_allclose(found["call_rate"], called.mean(axis=1))
    with np.errstate(invalid="ignore"):
        frequency = np.where(called, codes, 0).sum(axis=1) / (2 * called.sum(axis=1))
    np.testing.assert_allclose(found["alt_frequency"].fill_null(float("nan")), frequency)
    assert found.row(59)[5:] == (0.0, None, None, None)
    assert found.row(57)[6:] == (0.0, 0.0, 1.0)


def test_variant_qc__drops_a_variant_nobody_is_called_for_only_where_its_measures_are_asked_for() -> None:
    assert "rs59" in set(small(min_hwe_p=1e-3).frame["variant_id"])
    assert "rs59" not in set(small(min_call_rate=0.01).frame["variant_id"])
    assert "rs59" not in set(small(min_maf=1e-9).frame["variant_id"])


def test_variant_qc__a_limit_is_kept_by_what_equals_it() -> None:
    measures = small().frame
    rate, maf, p = measures["call_rate"][7], measures["minor_allele_frequency"][7], measures["hwe_p_value"][8]
    assert "rs7" in set(small(min_call_rate=rate).frame["variant_id"])
    assert "rs7" in set(small(min_maf=maf).frame["variant_id"])
    assert "rs8" in set(small(min_hwe_p=p).frame["variant_id"])
    assert "rs7" not in set(small(min_maf=np.nextafter(maf, 1)).frame["variant_id"])


def test_variant_qc__tests_other_chromosomes_when_told() -> None:
    narrow, wide = small().frame, small(all_chromosomes=True).frame
    autosomal = narrow["chromosome"].is_in(["1", "chr2"])
    assert narrow["hwe_p_value"].is_not_null().to_list() == (autosomal & (narrow["call_rate"] > 0)).to_list()
    assert wide["hwe_p_value"].null_count() == 1
    assert wide.filter(autosomal).equals(narrow.filter(autosomal))


def test_variant_qc__measures_again_what_was_measured_before() -> None:
    once = run(qc(), {"genotypes": small_cohort()})[""]
    cohort = small_cohort()
    again = run(qc(), {"genotypes": type(cohort)(once.part, cohort.people)})[""]
    assert again.frame.equals(once.frame)


def test_variant_qc__gives_an_empty_table_where_nothing_passes() -> None:
    found = small(min_call_rate=1.0, min_maf=0.5)
    assert found.frame.height == 0
    assert found.part.arrays["calls"].shape == (0, 11)
    assert found.counts["variants_in"] == 60


@pytest.mark.parametrize(
    ("given", "message"),
    [({"min_maf": 0.6}, "less than or equal to 0.5"), ({"min_call_rate": 98}, "less than or equal to 1"), ({"min_mfa": 0.1}, "min_mfa")],
)
def test_variant_qc__refuses_parameters(given: dict[str, float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        qc(**given)


def test_variant_qc__refuses_a_table_without_calls() -> None:
    with pytest.raises(
        StageError, match=r"given as 'genotypes' has no calls \(a genotype table comes from a vcf, plink, pgen or bgen input\)"
    ):
        plan_stage(qc(), {"genotypes": small_cohort().rows.frame})


@pytest.mark.parametrize(
    ("counts", "warned"),
    [
        ({"variants_in": 2519, "low_call_rate": 100, "low_maf": 0, "out_of_hardy_weinberg": 2379}, True),
        ({"variants_in": 2519, "low_call_rate": 100, "low_maf": 2000, "out_of_hardy_weinberg": 150}, False),
        ({"variants_in": 30, "out_of_hardy_weinberg": 19}, False),
        ({}, False),
    ],
)
def test_variant_qc__warns_where_hardy_weinberg_drops_most_variants(counts: dict[str, int], warned: bool) -> None:
    told = VariantQc(min_hwe_p=1e-6).noticed(counts)
    assert len(told) == warned
    assert not warned or "drops 2,379 of 2,419 variants, as it does where people are inbred" in told[0]
