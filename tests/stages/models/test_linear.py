"""linear: what it gives is what scikit-learn and statsmodels give of the same columns, for any parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.stage import Context
from pipeline.stages.features.categorify import Categorify
from pipeline.stages.models.linear import Linear
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, even_sizes
from tests import example_tables as examples
from tests.stages.models.fitting import PEOPLE, fit, stage_for, standardized

LEARNED = {"key": "id", "features": ["x", "y", "code"], "categorical": ["code"]}
CLASSES = ["low", "middle", "high"]
SOLVED = 1e-6
"""Solvers end where the slope is flat to 1e-9; the sums that lead there differ in their last digits by the parts."""
LOOSE = dict.fromkeys(
    (
        "prediction",
        *(f"prediction_{name}" for name in CLASSES),
        "coefficient",
        "standard_error",
        "statistic",
        "p_value",
        "influence",
        "value",
    ),
    SOLVED,
)


def _example(**parameters: Any) -> StageExample:
    return StageExample(Linear(**{**LEARNED, **parameters}), {"rows": examples.modelled_rows()}, tolerances=LOOSE | {"scale": 1e-10})


EXAMPLES = [
    _example(target="value", objective="regression"),
    _example(target="value", objective="regression", l1=0.1, l2=0.1),
    _example(target="label", objective="binary", l2=0.01, early_stopping_rounds=5, class_weight="balanced"),
    _example(target="group", objective="multiclass", classes=CLASSES, l2=0.01),
]


def matches(found: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("l1", "l2"), [(0, 0), (0, 0.3), (0.1, 0), (0.1, 0.2)])
def test_least_squares__with_any_penalty_predict_what_scikit_learn_does(l1: float, l2: float) -> None:
    from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge

    columns, train, known, _ = standardized(PEOPLE, "normal")
    exact = {"tol": 1e-14, "max_iter": 100_000}
    models = {
        (0, 0): LinearRegression(),
        (0, 0.3): Ridge(0.3 * len(known)),
        (0.1, 0): Lasso(0.1, **exact),
        (0.1, 0.2): ElasticNet(0.1 + 0.2, l1_ratio=0.1 / 0.3, **exact),
    }
    model = models[l1, l2].fit(columns[train], known)
    found = fit(stage_for("normal", l1=l1, l2=l2), PEOPLE)
    matches(found.predicted, model.predict(columns), 1e-9)
    matches((found.column("coefficient") * found.column("scale"))[1:], model.coef_, 1e-9)
    assert found.description["ended"] == "solved"


@pytest.mark.parametrize("weight", ["none", "balanced"])
@pytest.mark.parametrize(("l1", "l2"), [(0, 0.01), (0.02, 0), (0.01, 0.02)])
@pytest.mark.parametrize("target", ["binary", "multiclass"])
def test_logistic__with_any_penalty_predicts_what_scikit_learn_does(target: str, l1: float, l2: float, weight: str) -> None:
    from sklearn.linear_model import LogisticRegression

    columns, train, known, _ = standardized(PEOPLE, target)
    ratio = l1 / (l1 + l2)
    model = LogisticRegression(
        C=1 / ((l1 + l2) * len(known)),
        l1_ratio=ratio,
        solver="saga" if l1 else "lbfgs",
        tol=1e-11,
        max_iter=100_000,
        class_weight=None if weight == "none" else weight,
        random_state=0,
    ).fit(columns[train], known)
    expected = model.predict_proba(columns)
    found = fit(stage_for(target, l1=l1, l2=l2, class_weight=weight), PEOPLE)
    matches(found.predicted, expected[:, 1] if target == "binary" else expected, 1e-6)
    assert found.description["ended"] == "converged"
    assert found.coefficients["standard_error"].null_count() == found.coefficients.height


@pytest.mark.parametrize("alpha", [0, 0.1])
@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_poisson_and_gamma__predict_what_scikit_learn_does(family: str, alpha: float) -> None:
    from sklearn.linear_model import GammaRegressor, PoissonRegressor

    columns, train, known, _ = standardized(PEOPLE, family)
    kind = {"poisson": PoissonRegressor, "gamma": GammaRegressor}[family]
    model = kind(alpha=alpha, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(columns[train], known)
    found = fit(stage_for(family, l2=alpha), PEOPLE)
    matches(found.predicted, model.predict(columns), 1e-8)
    assert found.description["family"] == family


@pytest.mark.parametrize("target", ["normal", "binary", "poisson", "gamma", "multiclass"])
def test_without_a_penalty__coefficients_and_their_errors_are_those_of_statsmodels(target: str) -> None:
    import statsmodels.api as sm

    _, train, known, plain = standardized(PEOPLE, target)
    plain[:, 2] -= 1e6  # statsmodels loses digits where a column is far from 0
    design = sm.add_constant(plain)[train]
    families = {"poisson": sm.families.Poisson(), "gamma": sm.families.Gamma(sm.families.links.Log())}
    if target == "normal":
        model = sm.OLS(known, design).fit()
    elif target == "binary":
        model = sm.Logit(known, design).fit(disp=0, tol=1e-14)
    elif target == "multiclass":
        model = sm.MNLogit(known, design).fit(disp=0, method="newton", tol=1e-14)
    else:
        model = sm.GLM(known, design, family=families[target]).fit(tol=1e-14)
    found = fit(stage_for(target), PEOPLE.with_columns(pl.col("far") - 1e6))
    for name, expected in (
        ("coefficient", model.params),
        ("standard_error", model.bse),
        ("statistic", model.tvalues),
        ("p_value", model.pvalues),
    ):
        matches(found.column(name), np.asarray(expected).T.ravel(), 1e-7)
    assert found.warnings == []


def test_a_feature_far_from_zero__has_the_same_coefficient_and_predictions() -> None:
    near = fit(stage_for("binary"), PEOPLE.with_columns(pl.col("far") - 1e6))
    far = fit(stage_for("binary"), PEOPLE)
    matches(far.column("coefficient")[1:], near.column("coefficient")[1:], 1e-8)
    matches(far.predicted, near.predicted, 1e-9)
    assert far.warnings == []


@pytest.mark.parametrize("sizes", [[700], even_sizes(700, 2), even_sizes(700, 7), [0, 650, 0, 1, 49], [*[1] * 20, 680]])
@pytest.mark.parametrize("target", ["normal", "binary", "gamma", "multiclass"])
def test_any_parts__give_the_same_to_rounding(target: str, sizes: list[int]) -> None:
    expected, found = fit(stage_for(target), PEOPLE), fit(stage_for(target), PEOPLE, sizes)
    matches(found.predicted, expected.predicted, 1e-9)  # one feature is a million from 0
    matches(found.column("standard_error"), expected.column("standard_error"), 1e-8)
    assert found.predictions.drop(pl.selectors.starts_with("prediction")).equals(PEOPLE.select("id", "split", target))
    assert found.counts == expected.counts
    assert found.description == expected.description
    assert fit(stage_for(target), PEOPLE, sizes).model == found.model


def test_rows_without_a_target_or_a_split__are_predicted_and_not_learned_from() -> None:
    odd = PEOPLE.with_columns(pl.when(pl.col("id") % 5 == 0).then(pl.lit("holdout")).otherwise("split").alias("split"))
    found = fit(stage_for("normal"), odd)
    alone = fit(stage_for("normal"), odd.filter((pl.col("split") == "train") & pl.col("normal").is_not_null()))
    matches(found.column("coefficient"), alone.column("coefficient"), 1e-12)
    assert found.predictions["prediction"].null_count() == 0
    assert found.predictions.height == PEOPLE.height


def test_counts__say_what_was_missing_in_all_rows() -> None:
    codes = PEOPLE.with_columns(pl.when(pl.col("split") == "test").then(7).otherwise("group").cast(pl.Int32).alias("group"))
    found = fit(stage_for("normal"), codes, even_sizes(700, 3))
    unknown = codes["group"].null_count() + (codes["group"] == 7).sum()
    expected = {"features": 4, "coefficients": 7, "rounds_used": 1, "missing_values": PEOPLE["a"].null_count(), "unknown_codes": unknown}
    assert {name: found.counts[name] for name in expected} == expected
    assert found.counts["rows_train"] == (PEOPLE["split"] == "train").sum()
    assert found.description["codes"] == {"group": 7}


def test_a_code_that_is_missing_or_new__counts_as_the_base() -> None:
    found = fit(stage_for("normal", split=None, features=["group"]), PEOPLE)
    by_code = dict(zip(PEOPLE["group"], found.predictions["prediction"], strict=True))
    assert by_code[None] == by_code[2]
    base = found.coefficients.filter(pl.col("scale").is_null() & (pl.col("feature") == "group"))
    assert base.select("code", "coefficient").rows() == [(2, 0.0)]
    assert len({*by_code.values()}) == 5


def test_importance__is_the_standard_deviation_of_what_a_feature_adds() -> None:
    found = fit(stage_for("binary"), PEOPLE)
    columns, train, _, _ = standardized(PEOPLE, "binary")
    effects = (found.column("coefficient") * found.column("scale"))[1:] * columns[train]
    expected = {"a": effects[:, 0].std(), "b": effects[:, 1].std(), "far": effects[:, 2].std(), "group": effects[:, 3:].sum(axis=1).std()}
    assert dict(found.importance.iter_rows()) == pytest.approx(expected, rel=1e-9)
    assert found.importance["influence"].is_sorted(descending=True)


@pytest.mark.parametrize(
    ("target", "metric"), [("normal", "rmse"), ("binary", "log_loss"), ("multiclass", "log_loss"), ("gamma", "deviance")]
)
def test_history__ends_with_the_metric_of_the_model(target: str, metric: str) -> None:
    from sklearn.metrics import mean_gamma_deviance

    found = fit(stage_for(target), PEOPLE)
    _, train, known, _ = standardized(PEOPLE, target)
    expected = mean_gamma_deviance(known, found.predicted[train]) if target == "gamma" else found.metrics["train"][metric]
    last = found.history.row(-1, named=True)
    assert (last["split"], last["metric"], last["round"]) == ("train", metric, found.counts["rounds_used"])
    assert last["value"] == pytest.approx(expected, rel=1e-6)
    assert found.history["value"].is_sorted(descending=True)


def test_codes__have_the_values_that_categorify_says() -> None:
    towns = {0: "Aa", 1: "Bb", 2: "Cc", 3: "Dd", 4: "Ee"}
    raw = PEOPLE.with_columns(group=pl.col("group").replace_strict(towns, default=None, return_dtype=pl.String))
    table = Table.of(Session(), "raw", [Part(raw)])
    coded = Categorify(columns=["group"]).run({"rows": table}, Context("coded", SEED, Session())).tables[""]
    found = fit(stage_for("normal"), coded.futures()[0].frame, fitted=coded.fitted)
    assert dict(found.coefficients.filter(pl.col("feature") == "group").select("code", "value").iter_rows()) == towns
    assert found.coefficients.filter(pl.col("feature") != "group")["value"].null_count() == 4
    assert [step["use"] for step in found.description["fitted"]] == ["categorify"]


@pytest.mark.parametrize(("dense", "spread"), [(0, False), (0, True), (400, False)])
def test_many_columns_of_zeros__are_fitted_as_scikit_learn_fits_all_numbers(workers: ClusterSession, dense: int, *, spread: bool) -> None:
    """Words: what is not 0 alone is kept; the same columns with something added to each are kept whole, and give the same model."""
    from sklearn.linear_model import LogisticRegression

    random, rows, columns = np.random.default_rng(9), 500, 400
    numbers = random.integers(1, 4, (rows, columns)) * (random.random((rows, columns)) < 0.05)
    likes = numbers @ random.normal(size=(columns, 3)) + random.gumbel(size=(rows, 3))
    names = [f"w{at}" for at in range(columns)]
    given = pl.DataFrame((numbers + (np.arange(columns) < dense)).astype(float), schema=names, orient="row").with_columns(
        id=pl.int_range(rows), split=pl.lit("train"), kind=pl.Series([CLASSES[at] for at in likes.argmax(axis=1)])
    )
    stage = Linear(key="id", target="kind", objective="multiclass", classes=CLASSES, features=names, l2=0.05)
    found = fit(stage, given, [200, 300], workers if spread else None)
    scaled = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    model = LogisticRegression(C=1 / (0.05 * rows), tol=1e-11, max_iter=100_000).fit(scaled, given["kind"].to_numpy())
    order = [list(model.classes_).index(name) for name in CLASSES]
    matches(found.predicted, model.predict_proba(scaled)[:, order], 1e-6)
    assert found.description["ended"] == "converged"
