"""The audit of scans: its own arithmetic beside statsmodels', and faults put into kernels, which it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import statsmodels.api as sm

from pipeline.kernels.audit import Again, linear_again, logistic_again
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.linear_regression import Association, associate
from pipeline.stages.genomics._audited import Audit
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._sheet import Sheet
from tests.small import inside, run_main, write_small_job

PEOPLE = 300


def people() -> tuple[Any, Any, Any]:
    """A genotype with missing calls, two covariates, and a trait with missing values."""
    random = np.random.default_rng(20261122)
    covariates = np.column_stack([random.normal(50, 10, PEOPLE), random.integers(0, 2, PEOPLE)]).astype(float)
    genotype = random.binomial(2, 0.3, PEOPLE).astype(float)
    trait = 0.02 * covariates[:, 0] + 0.3 * genotype + random.normal(0, 1, PEOPLE)
    genotype[::17], trait[5::31], covariates[7, 0] = np.nan, np.nan, np.nan
    return genotype, covariates, trait


def complete(genotype: Any, covariates: Any, trait: Any) -> tuple[Any, Any]:
    """The columns and the trait of the people who have all."""
    columns = np.column_stack([np.ones(PEOPLE), covariates, genotype])
    known = ~(np.isnan(columns).any(axis=1) | np.isnan(trait))
    return columns[known], trait[known]


def assert_fitted(found: Again, fit: Any, people: int) -> None:
    """What was found is statsmodels' last coefficient, of so many people."""
    assert [found.beta, found.standard_error] == pytest.approx([fit.params[-1], fit.bse[-1]])
    assert found.n == people


def test_linear_again__is_statsmodels_of_the_people_who_have_all() -> None:
    genotype, covariates, trait = people()
    columns, values = complete(genotype, covariates, trait)
    assert_fitted(linear_again(genotype, covariates, trait), sm.OLS(values, columns).fit(), len(values))


def test_linear_again__with_means_is_statsmodels_of_filled_genotypes() -> None:
    genotype, covariates, trait = people()
    known = ~(np.isnan(covariates).any(axis=1) | np.isnan(trait))
    filled = np.where(np.isnan(genotype), np.nanmean(genotype[known]), genotype)
    columns, values = complete(filled, covariates, trait)
    assert_fitted(linear_again(genotype, covariates, trait, mean=True), sm.OLS(values, columns).fit(), len(values))


def test_logistic_again__is_statsmodels_wald_test() -> None:
    genotype, covariates, trait = people()
    case = np.where(np.isnan(trait), trait, trait > 1.3)
    columns, values = complete(genotype, covariates, case)
    assert_fitted(logistic_again(genotype, covariates, case, "wald"), sm.Logit(values, columns).fit(disp=0), len(values))


def test_logistic_again__score_is_statsmodels_score_test() -> None:
    genotype, covariates, trait = people()
    genotype = np.nan_to_num(genotype)
    case = np.where(np.isnan(trait), trait, trait > 1.3)
    columns, values = complete(genotype, covariates, case)
    null = sm.GLM(values, columns[:, :-1], family=sm.families.Binomial()).fit(tol=1e-14)
    chi_square = null.score_test(exog_extra=columns[:, -1:])[0]
    found = logistic_again(genotype, covariates, case, "score")
    assert (found.beta / found.standard_error) ** 2 == pytest.approx(float(np.squeeze(chi_square)))


@pytest.mark.parametrize(
    ("beta", "others", "found"),
    [
        (1.0, (), {"audited": 1}),
        (2.0, (1.0,), {"audited": 1}),  # what is audited is another maximum of the same likelihood
        (2.0, (), {"audited": 1, "audited_beyond_1e_8": 1, "audited_off": 1}),
        (2.0, (2.0,), {"audited": 1, "audited_beyond_1e_8": 1, "audited_off": 1}),
        (2.0, (3.0,), {}),  # and there may be one more
        (np.nan, (), {}),
    ],
)
def test_an_audit__of_several_maxima_takes_the_nearest_and_says_nothing_where_none_is(
    beta: float, others: tuple[float, ...], found: dict[str, int]
) -> None:
    one, name = np.zeros(1, np.int64), "neg_log_10_p_value"
    rows = ScanRows(one, one, {"beta": np.ones(1), "standard_error": np.ones(1), name: np.ones(1)}, np.full(1, 4), one, one, one)
    block, sheet = GenotypeBlock(pack(np.array([[0, 1, 2, 1]], np.uint8)), None, 4), SimpleNamespace(trait_names=("trait",))
    once = Again(beta, 1.0, 4, tuple(Again(other, 1.0, 4) for other in others))
    assert Audit(1, 1.0).counts(block, cast(Sheet, sheet), rows, ("wald",), lambda *_: once) == found


def test_logistic_again__of_separated_people_has_a_firth_estimate_alone() -> None:
    case = np.repeat([0.0, 1.0], 10)
    genotype, nobody = case * 2, np.empty((20, 0))
    assert np.isnan(logistic_again(genotype, nobody, case, "wald").beta)
    # Two by two with halves added to every cell, which is what Firth's penalty comes to there.
    assert logistic_again(genotype, nobody, case, "firth").beta * 2 == pytest.approx(2 * np.log(10.5 / 0.5))


@pytest.mark.parametrize("genotype", [np.zeros(PEOPLE), np.full(PEOPLE, np.nan), 1 + people()[1][:, 1]], ids=["constant", "none", "tied"])
def test_again__of_what_tells_nothing_is_nothing(genotype: Any) -> None:
    _, covariates, trait = people()
    assert np.isnan(linear_again(genotype, covariates, trait).beta)
    assert np.isnan(logistic_again(genotype, covariates, (trait > 0).astype(float), "wald").beta)


def of_the_run() -> tuple[dict[str, int], list[str]]:
    record = json.loads(Path("results/current/run.json").read_text())
    return record["stages"]["gwas"]["counts"], record["warnings"]


def test_scan__says_how_many_results_were_computed_again_and_that_they_agree(tmp_path: Path) -> None:
    write_small_job(tmp_path)
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet").code == 0
        counts, warnings = of_the_run()
    assert 4 <= counts["audited"] <= 22  # so many of a scan of one part, less what is drawn and among the strongest
    assert "audited_off" not in counts
    assert warnings == []


FAULTS: dict[str, Callable[[Association], Association]] = {
    "effects a thousandth too large": lambda found: replace(found, beta=found.beta * 1.001),
    "a degree of freedom lost": lambda found: replace(found, standard_error=found.standard_error * (59 / 60) ** 0.5),
    "the next variant's results": lambda found: replace(found, beta=np.roll(found.beta, 1, axis=0)),
    "people who were not called counted": lambda found: replace(found, n=found.n + 1),
    "alleles swapped": lambda found: replace(found, beta=-found.beta),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_scan__with_a_fault_in_its_kernel_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    write_small_job(tmp_path)
    monkeypatch.setattr("pipeline.stages.genomics.linear_gwas.associate", lambda *given: FAULTS[fault](associate(*given)))
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet").code == 0
        counts, warnings = of_the_run()
    assert counts["audited_off"] >= counts["audited"] // 2
    assert warnings[0].startswith(f"gwas: {counts['audited_off']} of {counts['audited']} results that were computed again")
