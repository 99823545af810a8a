"""Joint and conditional effects from effects alone: those of regressions on individual data, with statsmodels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels.joint_effects import Marginal, conditional_effects, joint_effects, selected

PEOPLE, VARIANTS = 700, 25


@cache
def data() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Linked calls, and a trait of variants 5 and 9 (which hide one another) and 20."""
    rng = np.random.default_rng(8)
    state = rng.random((2, PEOPLE))
    calls = np.zeros((VARIANTS, PEOPLE))
    for row in range(VARIANTS):
        state = np.where(rng.random((2, PEOPLE)) < 0.15, rng.random((2, PEOPLE)), state)
        calls[row] = (state < 0.2 + 0.5 * (row % 5) / 5).sum(axis=0)
    return calls, 0.7 * calls[5] - 0.6 * calls[9] + 0.5 * calls[20] + rng.normal(size=PEOPLE)


def fitted(chosen: list[int]) -> Any:
    sm = pytest.importorskip("statsmodels.api")
    calls, y = data()
    return sm.OLS(y, sm.add_constant(calls[chosen].T)).fit()


@cache
def marginal() -> tuple[Marginal, NDArray[np.float64], NDArray[np.float64]]:
    alone = [fitted([row]) for row in range(VARIANTS)]
    beta, error = (np.array([getattr(one, name)[1] for one in alone]) for name in ("params", "bse"))
    return Marginal(beta / error, np.full(VARIANTS, float(PEOPLE)), np.corrcoef(data()[0]).astype(np.float64)), beta, error


def unit() -> NDArray[np.float64]:
    """What a correlation's effect is in units of the trait an allele."""
    locus, _, error = marginal()
    return np.asarray(error * np.sqrt(locus.t**2 + PEOPLE - 2))


def test_joint_effects__are_the_regression_on_all_of_them() -> None:
    chosen = np.array([5, 9, 12, 20])
    found, expected = joint_effects(marginal()[0], chosen), fitted(chosen.tolist())
    np.testing.assert_allclose(found.effect * unit()[chosen], expected.params[1:], rtol=1e-9)
    np.testing.assert_allclose(found.error * unit()[chosen], expected.bse[1:], rtol=1e-9)
    np.testing.assert_allclose(found.t, expected.tvalues[1:], rtol=1e-9)
    np.testing.assert_allclose(found.p_value, expected.pvalues[1:], rtol=1e-7)


def test_conditional_effects__are_each_variants_regression_beside_the_chosen() -> None:
    found = conditional_effects(marginal()[0], np.array([5, 20]))
    assert np.flatnonzero(np.isnan(found.t)).tolist() == [5, 20]
    for row in (0, 9, 24):
        expected = fitted([row, 5, 20])
        assert found.effect[row] * unit()[row] == pytest.approx(expected.params[1], rel=1e-9)
        assert found.error[row] * unit()[row] == pytest.approx(expected.bse[1], rel=1e-9)
        assert found.p_value[row] == pytest.approx(expected.pvalues[1], rel=1e-7)
    alone = conditional_effects(marginal()[0], np.empty(0, np.int64))
    np.testing.assert_allclose(alone.t, marginal()[0].t, rtol=1e-9)


def slowly_selected(max_p: float) -> list[int]:
    chosen: list[int] = []
    while True:
        rest = [row for row in range(VARIANTS) if row not in chosen]
        p = {row: fitted([row, *chosen]).pvalues[1] for row in rest}
        best = min(p, key=lambda row: float(p[row]))
        if p[best] > max_p:
            return sorted(chosen)
        chosen.append(best)
        while (values := fitted(chosen).pvalues[1:]).max() > max_p:
            chosen.pop(int(values.argmax()))


def test_selected__are_those_of_stepwise_regressions() -> None:
    for max_p in (5e-8, 1e-4):
        found = selected(marginal()[0], max_p, 0.99).tolist()
        assert found == slowly_selected(max_p)
    assert set(found) >= {5, 9, 20}
    assert selected(marginal()[0], 1e-300, 0.9).tolist() == []


def test_selected__leaves_out_what_is_collinear() -> None:
    locus = marginal()[0]
    twice = Marginal(
        np.append(locus.t, locus.t[5]), np.append(locus.n, PEOPLE), np.corrcoef(np.vstack([data()[0], data()[0][5]])).astype(np.float64)
    )
    found = selected(twice, 5e-8, 0.9)
    assert np.isnan(conditional_effects(twice, np.array([5])).t[-1])
    with pytest.raises(np.linalg.LinAlgError):
        joint_effects(twice, np.array([5, 25]))
    assert len({5, 25} & set(found.tolist())) == 1
