"""joint_analysis: joint and conditional effects are those of regressions on the individual data, of any parts and either allele."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.joint_analysis import JointAnalysis
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.tables.part import Part
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import Cohort, Found, assert_found_equal, hapmap3, hapmap3_sheet, run
from tests.stages.genomics.test_fine_map import ACTING, HITS, PEOPLE, cohort, scan

DATA: dict[str, Any] = {"associations": scan(), "genotypes": cohort(), "loci": HITS}
NUMBERS = [f"{name}_{what}" for what in ("joint", "conditional") for name in ("beta", "standard_error", "p_value", "neg_log_10_p_value")]
EXAMPLES = [
    StageExample(
        JointAnalysis(max_p=1e-4, kb=10), {"associations": scan(), "genotypes": cohort().rows, "loci": HITS}, {"calls": cohort().people},
        dict.fromkeys(NUMBERS, 1e-7), ordered=True,
    ),
]  # fmt: skip


@cache
def trait(name: str) -> NDArray[np.float64]:
    """The trait that the scan of test_fine_map is of, so that its regressions can be made here."""
    x = cohort().codes.astype(float)
    x -= x.mean(axis=1, keepdims=True)
    rows = scan().filter(trait=name)
    effects = np.where(rows["effect_allele"] == "G", 1, -1) * rows["beta"].to_numpy()
    y = np.linalg.lstsq(x[:-1], (effects * (x**2).sum(axis=1))[:-1])[0]
    variance = PEOPLE - 2
    total = float(rows["standard_error"][0] ** 2 * variance * (x[0] ** 2).sum() + effects[0] ** 2 * (x[0] ** 2).sum())
    left = np.random.default_rng(1).normal(size=PEOPLE)
    basis = np.linalg.qr(np.vstack([np.ones(PEOPLE), x[:-1]]).T)[0]
    left -= basis @ (basis.T @ left)
    return np.asarray(y + left * np.sqrt((total - y @ y) / (left @ left)))


def regression(name: str, rows: list[int]) -> Any:
    sm = pytest.importorskip("statsmodels.api")
    return sm.OLS(trait(name), sm.add_constant(cohort().codes[rows].T.astype(float))).fit()


def analysed(**given: Any) -> dict[str, Found]:
    return run(JointAnalysis(**{"kb": 40, "max_p": 1e-6, **given}), DATA)


def place(row: dict[str, Any]) -> tuple[int, int]:
    """A variant's number, and -1 where its effects are of REF."""
    return int(row["variant_id"][1:]), 1 if row["effect_allele"] == "G" else -1


def test_joint_analysis__chooses_what_acts_and_gives_the_joint_regression() -> None:
    found = analysed()
    chosen = found[""].frame
    assert chosen.select("trait", "variant_id").rows() == [("trait_a", "v12"), ("trait_a", "v41"), ("trait_b", "v12")]
    assert found[""].counts["chosen"] == 3
    for row in chosen.iter_rows(named=True):
        number, sign = place(row)
        expected = regression(row["trait"], [number])
        assert row["beta_joint"] == pytest.approx(sign * expected.params[1], rel=1e-7)
        assert row["beta_joint"] == pytest.approx(row["beta"], rel=1e-9)
        assert np.sign(sign * row["beta_joint"]) == np.sign(ACTING[row["trait"]][number])


def test_joint_analysis__others_are_beside_the_chosen() -> None:
    others = analysed()["conditional"].frame.filter(trait="trait_a", chromosome="1")
    assert others.height == 29
    for row in others[::7].iter_rows(named=True):
        number, sign = place(row)
        expected = regression("trait_a", [number, 12])
        if row["beta_conditional"] is not None:
            assert row["beta_conditional"] == pytest.approx(sign * expected.params[1], rel=1e-6)
            assert row["standard_error_conditional"] == pytest.approx(expected.bse[1], rel=1e-6)
            assert row["p_value_conditional"] == pytest.approx(expected.pvalues[1], rel=1e-5)
    assert analysed(collinearity=0.01)["conditional"].frame["beta_conditional"].null_count() > 20


def test_joint_analysis__of_given_variants_is_their_regression() -> None:
    given = {**DATA, "given": pl.DataFrame({"variant_id": ["v10", "v12", "v14", "elsewhere"]})}
    found = run(JointAnalysis(kb=40), given)[""].frame.filter(trait="trait_b")
    expected = regression("trait_b", [10, 12, 14])
    signs = [place(row)[1] for row in found.iter_rows(named=True)]
    np.testing.assert_allclose(found["beta_joint"], signs * expected.params[1:], rtol=1e-6)
    np.testing.assert_allclose(found["standard_error_joint"], expected.bse[1:], rtol=1e-6)
    np.testing.assert_allclose(found["p_value_joint"], expected.pvalues[1:], rtol=1e-5)
    codes = cohort().codes.copy()
    codes[14] = codes[10]
    twins = Cohort(cohort().rows.replaced(calls=pack(codes)), cohort().people)
    with pytest.raises(DataError, match=r"given variants of locus 1:1-54500 \(v10, v12, v14\) cannot all stand beside one another"):
        run(JointAnalysis(kb=40), {**given, "genotypes": twins})


def test_joint_analysis__is_the_same_for_any_parts() -> None:
    stage, few = JointAnalysis(kb=10, max_p=1e-4), {**DATA, "loci": HITS[:3]}
    for parts in (2, 7):
        assert_found_equal(run(stage, few, parts), run(stage, few), f"{parts} parts")
    nowhere = {**DATA, "loci": HITS[:1].with_columns(base_pair_location=pl.lit(9_000_000))}
    assert run(JointAnalysis(), nowhere)["conditional"].frame.height == 0


@needs_data
def test_joint_analysis__on_hapmap_is_the_regression_on_its_people() -> None:
    """A linear scan of HapMap 3 with no covariates; calls that are missing make the two differ by little."""
    sm = pytest.importorskip("statsmodels.api")
    here = (hapmap3().rows.frame["chromosome"] == "2").arg_true().to_numpy()[:300]
    some = Cohort(Part(hapmap3().rows.frame[here], {"calls": hapmap3().rows.arrays["calls"][here]}), hapmap3().people)
    gwas = run(LinearGwas(traits=["y_strong"], covariates=[]), {"genotypes": some, "samples": hapmap3_sheet()})[""].frame
    best = gwas.sort("p_value")["variant_id"].head(2).to_list()
    loci = gwas.filter(variant_id=best[0])
    found = run(
        JointAnalysis(kb=10_000), {"associations": gwas, "genotypes": some, "loci": loci, "given": pl.DataFrame({"variant_id": best})}
    )[""].frame
    rows = [some.rows.frame["variant_id"].to_list().index(name) for name in found["variant_id"]]
    calls = np.where(some.codes[rows] == 3, np.nan, some.codes[rows].astype(float))
    y = some.people.join(hapmap3_sheet(), on="sample_id", how="left", maintain_order="left")["y_strong"].to_numpy()
    there = ~np.isnan(calls.sum(axis=0) + y)
    expected = sm.OLS(y[there], sm.add_constant(calls[:, there].T)).fit()
    np.testing.assert_allclose(found["beta_joint"], expected.params[1:], rtol=0.01)
    np.testing.assert_allclose(found["standard_error_joint"], expected.bse[1:], rtol=0.01)


def test_joint_analysis__refuses_tables_that_lack_columns() -> None:
    lacking = {**DATA, "associations": scan().drop("standard_error"), "genotypes": cohort().rows}
    with pytest.raises(StageError, match="no column 'standard_error'"):
        plan_stage(JointAnalysis(), lacking, {"calls": cohort().people})
