"""variant_qc."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.session import ClusterSession
from pipeline.stage import StageError
from pipeline.stages.genomics.variant_qc import VariantQc
from tests.harness import plan_stage
from tests.kernels.plink_files import assert_printed, needs_data, read_columns
from tests.stages.genomics.cohorts import AUTOSOMES, HAPMAP3, Found, hapmap3, run, same_for_any_parts, small_cohort

MEASURES = ["call_rate", "alt_frequency", "minor_allele_frequency", "hwe_p_value"]


def qc(**given: float) -> VariantQc:
    return VariantQc.model_validate(given)


def small(**given: float) -> Found:
    return run(qc(**given), {"genotypes": small_cohort()}, 3)[""]


@needs_data
def test_variant_qc__is_what_plink_printed_for_hapmap3() -> None:
    found = run(qc(), {"genotypes": hapmap3()}, 4)[""].frame
    missing, frequencies, hardy = (read_columns(HAPMAP3 / name) for name in ("qc.vmiss", "qc.afreq", "qc.hardy"))
    assert found["variant_id"].to_list() == missing["ID"].tolist() == frequencies["ID"].tolist()
    np.testing.assert_allclose(found["call_rate"], 1 - missing["MISSING_CT"].astype(int) / 957, rtol=1e-15)
    # Beyond the autosomes PLINK halves the calls of men.
    diploid = found["chromosome"].is_in([*AUTOSOMES, "XY"]).to_numpy()
    assert diploid.sum() == 14305
    assert_printed(found["alt_frequency"].to_numpy()[diploid], frequencies["ALT_FREQS"][diploid], 1e-12)
    frequency = found["alt_frequency"].to_numpy()
    np.testing.assert_allclose(found["minor_allele_frequency"], np.minimum(frequency, 1 - frequency), rtol=1e-12)
    autosomal, printed = found["chromosome"].is_in(AUTOSOMES), np.isin(hardy["CHROM"], AUTOSOMES)
    assert_printed(found.filter(autosomal)["hwe_p_value"], hardy["P"][printed], 5e-6)
    assert found.filter(~autosomal)["hwe_p_value"].null_count() == 75 + 39 + 9


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
    with pytest.raises(StageError, match=r"given as 'genotypes' has no calls \(a genotype table comes from a vcf or plink input\)"):
        plan_stage(qc(), {"genotypes": small_cohort().rows.frame})
