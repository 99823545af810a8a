"""rank_to_normal."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.features.rank_to_normal import RankToNormal
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.stages.features.learned import FRAME, TRAIN, numbers, train

EXAMPLES = [
    StageExample(RankToNormal(columns=("x", "n"), offset=0.375), {"rows": examples.MIXED}, ordered=True),
    StageExample(RankToNormal(columns=("x", "n"), quantiles=4, fit_where="id < 6"), {"rows": examples.MIXED}, ordered=True),
]


@pytest.mark.parametrize("quantiles", [2, 10, 37])
def test_rank_to_normal__equals_scikit_learn(quantiles: int) -> None:
    from sklearn.preprocessing import QuantileTransformer

    found = assert_same_for_any_parts(RankToNormal(columns=("x", "i"), quantiles=quantiles, fit_where=TRAIN), {"rows": FRAME}, ["id"])
    expected = QuantileTransformer(n_quantiles=quantiles, output_distribution="normal", subsample=None)
    wanted = expected.fit(numbers(train(), "x", "i")).transform(numbers(FRAME, "x", "i"))
    np.testing.assert_allclose(numbers(found, "x", "i"), wanted, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("offset", [0.375, 0.5, 0])
def test_rank_to_normal__by_ranks_equals_scipy(offset: float) -> None:
    from scipy import stats

    ties = FRAME.with_columns(x=pl.col("x").round(1))
    found = assert_same_for_any_parts(RankToNormal(columns=("x", "i"), offset=offset), {"rows": ties}, ["id"])
    for name in ("x", "i"):
        given = ties.select(name).cast(pl.Float64).to_series().fill_nan(None)
        ranks = stats.rankdata(given.drop_nulls())
        wanted = stats.norm.ppf((ranks - offset) / (len(ranks) - 2 * offset + 1))
        assert given.n_unique() < len(given)
        np.testing.assert_allclose(found.filter(given.is_not_null())[name], wanted, rtol=1e-12, atol=1e-12)
        assert found[name].null_count() == given.null_count()
    stage = RankToNormal(columns=("x",), offset=offset, fit_where="id < 40")
    learned = run_stage(stage, {"rows": ties}, 3)
    assert learned["fitted"]["count"].unique().to_list() == [ties.filter(pl.col("id") < 40)["x"].fill_nan(None).count()]
    order = learned[""].join(ties.select("id", given="x"), on="id").drop_nulls().sort("given")["x"]
    assert order.is_sorted()


def test_rank_to_normal__by_ranks_is_what_plink_printed() -> None:
    given = pl.DataFrame({"y": [3, 1, 4, 1, 5, 9, 2, 6, 7, 7]})
    printed = [-0.38532, -1.28155, -0.125661, -1.28155, 0.125661, 1.64485, -0.67449, 0.38532, 0.841621, 0.841621]
    found = run_stage(RankToNormal(columns=("y",), offset=0.5), {"rows": given}, 2)[""]["y"]  # plink2 --pheno-quantile-normalize
    assert found.to_list() == pytest.approx(printed, abs=5e-6)


def test_rank_to_normal__of_many_values_is_near_to_a_normal_distribution() -> None:
    frame = pl.DataFrame({"x": np.exp(np.random.default_rng(3).normal(size=5_000))})
    found = run_stage(RankToNormal(columns=("x",)), {"rows": frame}, 3)[""]["x"].to_numpy()
    np.testing.assert_allclose(np.quantile(found, [0.16, 0.5, 0.84]), [-0.994, 0, 0.994], atol=0.02)


def test_rank_to_normal__of_one_value_or_none() -> None:
    frame = pl.DataFrame({"c": [3, 3, None], "none": pl.Series([None] * 3, dtype=pl.Int8)})
    found = run_stage(RankToNormal(columns=("c", "none")), {"rows": frame}, 2)
    assert found[""]["none"].to_list() == [None] * 3
    assert found[""]["c"].to_list() == [0.0, 0.0, None]


def test_rank_to_normal__repeats_what_it_learned() -> None:
    stage = RankToNormal(columns=("x",), fit_where=TRAIN)
    found = run_stage(stage, {"rows": FRAME}, 3)
    assert stage.apply(FRAME.lazy(), found["fitted"]).collect().equals(found[""])


def test_rank_to_normal__refuses_text() -> None:
    with pytest.raises(StageError, match="'city' is String, and numbers are needed"):
        plan_stage(RankToNormal(columns=("city",)), {"rows": FRAME})
