"""Stages on imputed data: dosages give what PLINK 2 gives, and certain dosages what their calls give."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stage import Stage
from pipeline.stages.genomics import principal_components
from pipeline.stages.genomics.clump import Clump
from pipeline.stages.genomics.genotype_features import GenotypeFeatures
from pipeline.stages.genomics.ld_prune import LdPrune
from pipeline.stages.genomics.ld_scores import LdScores
from pipeline.stages.genomics.ld_table import LdTable
from pipeline.stages.genomics.polygenic_score import PolygenicScore
from pipeline.stages.genomics.principal_components import PrincipalComponents
from pipeline.stages.genomics.project_components import ProjectComponents
from pipeline.stages.genomics.relatedness import Relatedness
from pipeline.stages.genomics.sample_qc import SampleQc
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.stages.models.linear import Linear
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import plan_stage
from tests.stages.genomics import imputed
from tests.stages.genomics.cohorts import Cohort, Data, Found, run, same_for_any_parts, small_cohort
from tests.stages.genomics.imputed import VARIANTS, imputed_cohort

PRINTED = 5e-6  # of PLINK's six digits


def printed(value: float | None, relative: float = PRINTED) -> Any:
    return None if value is None else pytest.approx(value, rel=relative, abs=1e-12)


def certain(cohort: Cohort) -> Cohort:
    """The cohort with its calls as dosages."""
    dosages = np.where(cohort.codes == 3, np.nan, cohort.codes).astype(np.float32)
    return Cohort(Part(cohort.rows.frame, {"alt_dosages": dosages}), cohort.people)


def variants(found: Found) -> list[int]:
    return [int(name[1:]) for name in found.frame["variant_id"]]


@pytest.mark.parametrize("families", [False, True])
def test_variant_qc__of_dosages_is_plinks(families: bool) -> None:
    found = run(VariantQc(), {"genotypes": imputed_cohort(families=families)}, 3)[""].frame
    for row, (_, _, *both, mach_r2, (missing, possible)) in zip(found.iter_rows(named=True), VARIANTS, strict=True):
        frequency, p_value = both[families]
        assert row["alt_frequency"] == printed(frequency)
        assert row["minor_allele_frequency"] == (None if frequency is None else printed(min(frequency, 1 - frequency), 1e-5))
        assert row["hwe_p_value"] == printed(p_value)
        assert row["mach_r2"] == printed(mach_r2)
        assert row["call_rate"] == pytest.approx(1 - missing / possible, rel=1e-12, abs=1e-12)


def test_variant_qc__drops_what_is_imputed_too_badly_and_keeps_dosages(workers: ClusterSession) -> None:
    stage = VariantQc(min_mach_r2=0.8)
    found = same_for_any_parts(stage, {"genotypes": imputed_cohort(families=True)}, workers)[""]
    low = [row for row, variant in enumerate(VARIANTS) if variant[4] is not None and variant[4] < 0.8]
    assert variants(found) == [row for row in range(len(VARIANTS)) if row not in low]
    assert found.counts["low_mach_r2"] == len(low) == 4
    assert found.part.arrays["alt_dosages"].shape == (len(VARIANTS) - 4, 60)
    with pytest.raises(StageError, match=r"min_mach_r2 is of dosages, and the genotypes are calls\. Read them with field: dosages"):
        plan_stage(stage, {"genotypes": small_cohort().rows}, {"calls": small_cohort().people})


@pytest.mark.parametrize("families", [False, True])
def test_sample_qc__of_dosages_is_plinks(families: bool, workers: ClusterSession) -> None:
    found = same_for_any_parts(SampleQc(min_call_rate=0.85), {"genotypes": imputed_cohort(families=families)}, workers)
    measured = found["measured"].frame
    for person, *both, missing, possible in imputed.PEOPLE:
        row = measured.row(int(person), named=True)
        assert row["inbreeding"] == printed(both[families])
        assert row["call_rate"] == pytest.approx(1 - missing / possible, rel=1e-12)
    kept = measured["kept"].to_numpy()
    assert 0 < kept.sum() < 60
    np.testing.assert_array_equal(found[""].part.arrays["alt_dosages"], imputed_cohort().rows.arrays["alt_dosages"][:, kept])


def test_ld_prune__of_dosages_keeps_what_plink_keeps(workers: ClusterSession) -> None:
    autosomes = LdPrune(window_variants=6, step=1, r2=0.3)
    for families in (False, True):
        found = same_for_any_parts(autosomes, {"genotypes": imputed_cohort("1", "2", families=families)}, workers)[""]
        assert tuple(variants(found)) == imputed.PRUNED
    x = LdPrune(window_variants=6, step=1, r2=0.05)
    assert tuple(variants(run(x, {"genotypes": imputed_cohort("X")})[""])) == imputed.PRUNED_X
    assert tuple(variants(run(x, {"genotypes": imputed_cohort("X", families=True)})[""])) == imputed.PRUNED_X_FOUNDERS


def test_relatedness__of_dosages_is_plinks(workers: ClusterSession) -> None:
    found = same_for_any_parts(Relatedness(max_kinship=0.46, min_kinship=0.449), {"genotypes": imputed_cohort("1", "2")}, workers)
    for row, (later, earlier, shared, both, opposite, kinship) in zip(found["pairs"].frame.rows(), imputed.RELATIVES, strict=True):
        assert row[:3] == (f"I{later}", f"I{earlier}", shared)
        assert row[3:] == (printed(both), printed(opposite), printed(kinship))
    assert found[""].part.arrays["alt_dosages"].shape[1] == found[""].axes["alt_dosages"].height < 60


@pytest.mark.parametrize("tiles", [False, True])
def test_principal_components__of_dosages_are_plinks(tiles: bool) -> None:
    with patch.object(principal_components, "WHOLE", 20 if tiles else 5_000):
        found = run(PrincipalComponents(components=3), {"genotypes": imputed_cohort()}, 3)
    np.testing.assert_allclose(found["eigenvalues"].frame["eigenvalue"], imputed.EIGENVALUES, rtol=PRINTED)
    ours = found[""].frame.drop("sample_id").to_numpy()[[row[0] for row in imputed.AXES]]
    theirs = np.array(imputed.AXES)[:, 1:]
    np.testing.assert_allclose(ours * np.sign((ours * theirs).sum(axis=0)), theirs, rtol=PRINTED, atol=1e-6)


def test_principal_components__of_dosages_are_the_same_in_any_parts(workers: ClusterSession) -> None:
    for method in ("exact", "randomized"):
        stage = PrincipalComponents.model_validate({"components": 2, "method": method, "passes": 20})
        same_for_any_parts(stage, {"genotypes": imputed_cohort()}, workers)


def test_project_components__puts_the_imputed_where_they_were() -> None:
    """Without missing dosages Z u / (m value) and back is the axis itself."""
    cohort = imputed_cohort("1", "2", "XY")
    whole = Part(cohort.rows.frame, {"alt_dosages": np.nan_to_num(cohort.rows.arrays["alt_dosages"], nan=0.5)})
    axes = run(PrincipalComponents(components=2), {"genotypes": Cohort(whole, cohort.people)})
    data: dict[str, Data] = {"genotypes": Cohort(whole, cohort.people), "loadings": axes["loadings"].frame}
    placed = run(ProjectComponents(), data, 2)[""].frame
    for name in ("pc1", "pc2"):
        np.testing.assert_allclose(placed[name], axes[""].frame[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("missing", ["mean", "ignore"])
def test_polygenic_score__of_dosages_is_plinks(missing: str) -> None:
    stage = PolygenicScore.model_validate({"missing": missing})
    found = run(stage, {"genotypes": imputed_cohort("1", "2", "MT"), "weights": imputed.weights()}, 3)[""].frame
    for person, imputing, ignoring, average in imputed.SCORES:
        row = found.row(int(person), named=True)
        assert row["score_sum"] == printed(imputing if missing == "mean" else ignoring)
        assert missing == "mean" or row["score_average"] == printed(average)


def test_model__refuses_dosages_as_features() -> None:
    cohort = imputed_cohort("1")
    stage = Linear(objective="regression", target="base_pair_location", key="variant_id", split=None, exclude=("chromosome", "ref", "alt"))
    with pytest.raises(StageError, match=r"dosages with a row a variant, which are no features\. Use genotype_features"):
        plan_stage(stage, {"rows": cohort.rows}, {"alt_dosages": cohort.people})


def associations(cohort: Cohort) -> pl.DataFrame:
    p_value = pl.Series(np.random.default_rng(4).uniform(1e-9, 0.02, cohort.rows.frame.height))
    return cohort.rows.frame.with_columns(effect_allele="alt", other_allele="ref", p_value=p_value).drop("ref", "alt")


def test_stages__of_certain_dosages_give_what_calls_give() -> None:
    """Nothing is uncertain, so hard calls and dosages are one."""
    rows = small_cohort().rows
    order = rows.frame.select(pl.arg_sort_by("chromosome", "base_pair_location")).to_series().to_numpy()
    people = small_cohort().people.with_columns(sex=pl.Series(np.arange(41) % 3, dtype=pl.Int8))
    calls = Cohort(Part(rows.frame[order], {"calls": rows.arrays["calls"][order]}), people)
    loadings = run(PrincipalComponents(components=2), {"genotypes": calls})["loadings"].frame
    wanted = calls.rows.frame.select("variant_id")[[3, 17, 40]]
    given: list[tuple[Stage, dict[str, Data]]] = [
        (VariantQc(min_call_rate=0.9, min_maf=0.01), {}),
        (SampleQc(min_call_rate=0.9), {}),
        (Relatedness(max_kinship=0.1), {}),
        (PrincipalComponents(components=2, all_chromosomes=True), {}),
        (ProjectComponents(), {"loadings": loadings}),
        (Clump(p1=1e-2, p2=0.02, r2=0.02, kb=1), {"associations": associations(calls)}),
        (GenotypeFeatures(), {"variants": wanted}),
        (LdPrune(window_kb=1, r2=0.05), {}),
        (LdTable(r2=0.01), {}),
        (LdScores(kb=1000), {}),
    ]
    for stage, tables in given:
        of_calls = run(stage, {"genotypes": calls, **tables}, 2)
        of_dosages = run(stage, {"genotypes": certain(calls), **tables}, 2)
        for name, table in of_calls.items():
            theirs = of_dosages[name].frame
            pl.testing.assert_frame_equal(theirs.drop("mach_r2", strict=False), table.frame, rel_tol=1e-9, abs_tol=1e-9)
            if "dosages" in table.part.arrays:
                np.testing.assert_array_equal(of_dosages[name].part.arrays["dosages"], table.part.arrays["dosages"])
