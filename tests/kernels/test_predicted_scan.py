"""Tests of variants with predictions taken off, against sums written out person by person."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.kernels.genotype_block import CODES, GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.linear_regression import COLLINEAR, FINE, MONOMORPHIC, TOO_FEW
from pipeline.kernels.p_values import scan_p_values, significant_z
from pipeline.kernels.predicted_scan import PredictedDesign, associate_predicted

Numbers = NDArray[np.float64]
PEOPLE, VARIANTS = 131, 40


def data() -> tuple[NDArray[np.uint8], Numbers, Numbers, Numbers]:
    """Calls with gaps, covariates and traits (known for all, all but four, two thirds) with gaps, and predictions `[t, n]`."""
    rng = np.random.default_rng(9)
    calls = rng.binomial(2, rng.uniform(0.05, 0.95, (VARIANTS, 1)), (VARIANTS, PEOPLE)).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.04] = 3
    calls[:, 0], calls[:, 1] = 1, 0  # everything varies
    covariates, traits = rng.normal(40, 7, (PEOPLE, 2)), rng.normal(20, 3, (PEOPLE, 3))
    covariates[5, 0], traits[10:14, 1], traits[rng.random(PEOPLE) < 0.3, 2] = np.nan, np.nan, np.nan
    return calls, covariates, traits, rng.normal(0, 0.4, (3, PEOPLE))


def plain(genotype: Numbers, covariates: Numbers, traits: Numbers, predictions: Numbers, place: int) -> tuple[float, float]:
    """beta and its standard error of one variant and trait, whose values are centred, with S as it is."""
    used = ~np.isnan(covariates).any(axis=1) & ~np.isnan(traits).all(axis=1)
    columns = np.column_stack([np.ones(used.sum()), covariates[used]])
    hat = columns @ np.linalg.inv(columns.T @ columns) @ columns.T
    known = ~np.isnan(traits[used, place])
    own = genotype[used]
    own = np.where(np.isnan(own), np.nanmean(own), own)
    own = own - hat @ own
    trait = np.where(known, traits[used, place] - np.nanmean(traits[used, place]), 0)
    trait = (trait - hat @ trait) * known
    freedom = known.sum() - 3
    left = trait - np.sqrt(trait @ trait / freedom) * predictions[place, used] * known
    size = own[known] @ own[known]
    return float(own @ left / size), float(np.sqrt(left @ left / freedom / size))


@pytest.mark.parametrize("dosages", [False, True])
@pytest.mark.parametrize("coding", ["additive", "dominant"])
def test_associate_predicted__is_what_sums_over_people_give(dosages: bool, coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.kernels.predicted_scan._FEW", 0)  # regenie's shortcuts are held to what it printed
    monkeypatch.setattr("pipeline.kernels.predicted_scan._SHIFT", 0)
    monkeypatch.setattr("pipeline.kernels.predicted_scan.BLOCK_BYTES", 20_000)  # some variants at a time
    calls, covariates, traits, predictions = data()
    floats = np.where(calls == 3, np.nan, calls)
    codes = CODES["dominant" if coding == "dominant" else "additive"]
    block = GenotypeBlock(None if dosages else pack(calls), floats.astype(np.float32) if dosages else None, PEOPLE, codes)
    design = PredictedDesign.build(covariates, traits).less(predictions)
    found = associate_predicted(block, design)
    assert design.people.tolist() == (~np.isnan(traits[~np.isnan(covariates).any(axis=1)])).sum(axis=0).tolist()
    assert (found.reason == FINE).all()
    counted = np.where(np.isnan(floats), np.nan, np.array([0.0, *codes])[np.nan_to_num(floats).astype(int)])
    for variant in range(VARIANTS):
        for place in range(3):
            beta, error = plain(counted[variant], covariates, traits, predictions, place)
            assert found.beta[variant, place] == pytest.approx(beta, rel=1e-9)
            assert found.standard_error[variant, place] == pytest.approx(error, rel=1e-9)
    there = ~np.isnan(covariates).any(axis=1) & ~np.isnan(traits[:, 2])
    np.testing.assert_allclose(found.effect_allele_frequency[:, 2], np.nanmean(floats[:, there], axis=1) / 2, rtol=1e-6)


def test_associate_predicted__says_why_there_is_no_result() -> None:
    calls, covariates, traits, predictions = data()
    calls[0], calls[1], calls[2] = 2, 3, np.nan_to_num(covariates[:, 0]) > 40
    covariates[:, 1] = np.where(np.isnan(covariates[:, 0]), np.nan, calls[2])
    found = associate_predicted(GenotypeBlock(pack(calls), None, PEOPLE), PredictedDesign.build(covariates, traits).less(predictions))
    assert found.reason[:4, 0].tolist() == [MONOMORPHIC, TOO_FEW, COLLINEAR, FINE]
    assert np.isnan(found.beta[:3]).all()
    nothing = associate_predicted(GenotypeBlock(pack(calls[:0]), None, PEOPLE), PredictedDesign.build(covariates, traits))
    assert nothing.beta.shape == (0, 3)


def test_predicted_design__refuses_too_few_and_other_people() -> None:
    calls, covariates, traits, _ = data()
    with pytest.raises(ValueError, match="The design is of 131 people, the genotypes are of 130"):
        associate_predicted(GenotypeBlock(pack(calls[:, 1:]), None, PEOPLE - 1), PredictedDesign.build(covariates, traits))
    traits[4:, 1] = np.nan
    with pytest.raises(DataError, match="Only 4 people have 'trait 2', a prediction of it and all covariates; 5 are needed"):
        PredictedDesign.build(covariates, traits)


def test_significant_z__gives_the_rows_below_a_limit_or_all() -> None:
    z = np.array([[0.1, -3.0], [np.nan, 40.0]])
    row, column, p_value, logarithm = significant_z(z, 0.01)
    assert (row.tolist(), column.tolist()) == ([0, 1], [1, 1])
    every = scan_p_values(z)
    np.testing.assert_array_equal(p_value, every[0][[0, 1], [1, 1]])
    np.testing.assert_array_equal(logarithm, every[1][[0, 1], [1, 1]])
    assert len(significant_z(z, 1.0)[0]) == 4
