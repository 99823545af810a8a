"""linear where rows are hard: ill-conditioned, collinear, separated, many columns, refused targets; and what it stops and says."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, InputError, StageError
from pipeline.kernels import coordinate_descent
from pipeline.stages.models._linear import setting as _linear_setting
from pipeline.stages.models._linear.model import LinearModel
from pipeline.stages.models.linear import Linear
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.stages import even_sizes, plan_stage
from tests.stages.models.fitting import PEOPLE, fit, stage_for

# Longley (1967), with the certified values of NIST's Statistical Reference Datasets.
LONGLEY = """
60323 83.0 234289 2356 1590 107608 1947
61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949
61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951
63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""
CERTIFIED = [-3482258.63459582, 15.0618722713733, -0.0358191792925910, -2.02022980381683, -1.03322686717359, -0.0511041056535807]
CERTIFIED += [1829.15146461355]
ERRORS = [890420.383607373, 84.9149257747669, 0.0334910077722432, 0.488399681651699, 0.214274163161675, 0.226073200069370, 455.478499142212]


def regression(**more: Any) -> Linear:
    return Linear.model_validate({"key": "id", "target": "y", "objective": "regression", "split": None, **more})


def frame(y: Any, **columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"id": np.arange(len(y)), **columns, "y": y})


def wide(rows: int, columns: int) -> tuple[pl.DataFrame, Any]:
    """More columns than rows, and the columns standardized."""
    random = np.random.default_rng(3)
    values = random.normal(size=(rows, columns))
    y = values[:, :3].sum(axis=1) + random.normal(size=rows)
    table = frame(y, **{f"x{number}": values[:, number] for number in range(columns)})
    return table, (values - values.mean(axis=0)) / values.std(axis=0)


@pytest.mark.parametrize("parts", [1, 7])
def test_least_squares__of_longleys_columns_have_the_digits_that_nist_certifies(parts: int) -> None:
    values = np.array(LONGLEY.split(), float).reshape(-1, 7)
    table = frame(values[:, 0], **{f"x{number}": values[:, number] for number in range(1, 7)})
    found = fit(regression(), table, even_sizes(16, parts))
    np.testing.assert_allclose(found.column("coefficient"), CERTIFIED, rtol=1e-9)
    np.testing.assert_allclose(found.column("standard_error"), ERRORS, rtol=1e-9)


@pytest.mark.parametrize("parts", [1, 7])
def test_least_squares__of_the_powers_of_whole_numbers_are_nearly_exact(parts: int) -> None:
    x = np.arange(21.0)
    powers = {f"x{power}": x**power for power in range(1, 6)}
    found = fit(regression(), frame(1 + sum(powers.values()), **powers), even_sizes(21, parts))
    np.testing.assert_allclose(found.column("coefficient"), np.ones(6), rtol=1e-7)
    assert found.warnings == []


@pytest.mark.parametrize("target", ["normal", "binary", "poisson", "gamma", "multiclass"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_collinear_feature__has_no_coefficient_and_is_named(target: str, parts: int) -> None:
    doubled = PEOPLE.with_columns(sum=2 * pl.col("b") - pl.col("far") * 3 + 5, flat=pl.lit(4))
    stage = stage_for(target, features=["b", "far", "flat", "sum", "group"])
    found, expected = fit(stage, doubled, even_sizes(700, parts)), fit(stage_for(target, features=["b", "far", "group"]), doubled)
    assert len(found.warnings) == 2
    assert "feature 'flat' does not vary in the training rows" in found.warnings[0]
    assert "feature 'sum' is a sum of features before it" in found.warnings[1]
    without = found.coefficients.filter(pl.col("feature").is_in(["sum", "flat"]))
    assert without["coefficient"].null_count() == without.height == 2 * (2 if target == "multiclass" else 1)
    np.testing.assert_allclose(found.predicted, expected.predicted, rtol=1e-7, atol=1e-8)
    kept = found.coefficients.filter(~pl.col("feature").is_in(["sum", "flat", "(intercept)"]))
    others = expected.coefficients.filter(pl.col("feature") != "(intercept)")
    np.testing.assert_allclose(kept["standard_error"].to_numpy(), others["standard_error"].to_numpy(), rtol=1e-6)


def test_collinear_features__share_a_ridge_and_need_no_warning() -> None:
    from sklearn.linear_model import Ridge

    x = np.random.default_rng(1).normal(size=(50, 2))
    y = x[:, 0] + x[:, 1] ** 2
    found = fit(regression(l2=1e-9), frame(y, a=x[:, 0], b=2 * x[:, 0], c=x[:, 1]))
    columns = np.column_stack([x[:, 0], 2 * x[:, 0], x[:, 1]])
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    model = Ridge(1e-9 * 50, solver="svd").fit(columns, y)
    np.testing.assert_allclose(found.predicted, model.predict(columns), rtol=1e-7)
    np.testing.assert_allclose((found.column("coefficient") * found.column("scale"))[1:], model.coef_, rtol=1e-5)
    assert found.warnings == []


def test_one_feature__and_a_perfect_fit() -> None:
    found = fit(regression(), frame([1.0, 3.0, 5.0, 7.0], x=[0, 1, 2, 3]), [2, 2])
    np.testing.assert_allclose(found.column("coefficient"), [1, 2], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.predicted, [1, 3, 5, 7], rtol=1e-12)


def test_thousands_of_columns_of_few_rows__are_fitted_with_a_penalty() -> None:
    from sklearn.linear_model import Lasso, LogisticRegression, Ridge

    table, columns = wide(60, 2_000)
    y = table["y"].to_numpy()
    sizes = even_sizes(60, 3)
    ridge = fit(regression(l2=0.5), table, sizes)
    np.testing.assert_allclose(ridge.predicted, Ridge(0.5 * 60).fit(columns, y).predict(columns), rtol=1e-8)
    lasso = fit(regression(l1=0.3), table, sizes)
    model = Lasso(0.3, tol=1e-13, max_iter=100_000).fit(columns, y)
    np.testing.assert_allclose((lasso.column("coefficient") * lasso.column("scale"))[1:], model.coef_, atol=1e-8)
    binary = table.with_columns(pl.col("y") > 0)
    logistic = fit(regression(objective="binary", l2=0.1), binary, sizes)  # 2,001 coefficients: L-BFGS
    other = LogisticRegression(C=1 / (0.1 * 60), tol=1e-12, max_iter=10_000).fit(columns, y > 0)
    np.testing.assert_allclose(logistic.predicted, other.predict_proba(columns)[:, 1], atol=1e-7)
    assert logistic.description["ended"] == "converged"


def test_more_columns_than_rows__are_refused_without_a_penalty() -> None:
    with pytest.raises(DataError, match=r"80 columns .* of 60 training rows have no one answer without a penalty. Set l2 or l1"):
        fit(regression(), wide(60, 80)[0])


def test_more_coefficients_than_a_hessian_holds__are_refused_or_taken_by_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fit(stage_for("normal", l2=0.1), PEOPLE)
    monkeypatch.setattr(_linear_setting, "MOST_COEFFICIENTS", 5)
    monkeypatch.setattr(_linear_setting, "NEWTON_UP_TO", 5)
    with pytest.raises(DataError, match=r"8 coefficients, and with l1, or without a penalty, at most 5 are fitted. Set l2 alone"):
        fit(stage_for("normal"), PEOPLE)
    np.testing.assert_allclose(fit(stage_for("normal", l2=0.1), PEOPLE, [300, 400]).predicted, expected.predicted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("target", ["normal", "binary"])
def test_a_penalty_that_leaves_no_minimum__is_refused_with_the_remedy(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinate_descent, "MOST_SWEEPS", 0)
    with pytest.raises(
        DataError, match=r"did not converge in 0 sweeps: with l1 = 0.1 the coefficients of 7 columns .* Raise l1, or set l2"
    ):
        fit(stage_for(target, l1=0.1), PEOPLE)


SEPARATED = {
    "a number": (stage_for("binary", features=["b"], categorical=[]), {"binary": pl.col("b") > 0.2}, "'b'"),
    "a code": (stage_for("binary"), {"binary": pl.col("binary") | (pl.col("group") == 3)}, r"'group' \(code 3\)"),
    "a class": (
        stage_for("multiclass"),
        {"multiclass": pl.when(pl.col("group") == 3).then(pl.lit("mid")).otherwise("multiclass")},
        r"'group' \(code 3\)",
    ),
    "counts": (stage_for("poisson"), {"poisson": pl.when(pl.col("group") != 3).then("poisson").otherwise(0)}, r"'group' \(code 3\)"),
}


@pytest.mark.parametrize("what", SEPARATED)
def test_what_is_separated__is_refused_with_the_feature_and_fitted_with_a_penalty(what: str) -> None:
    stage, changed, name = SEPARATED[what]
    rows = PEOPLE.with_columns(pl.col("binary").cast(pl.Boolean)).with_columns(**changed)
    with pytest.raises(DataError, match=f"is separated: the further the coefficient of {name} goes, the better the fit"):
        fit(stage, rows, [300, 400])
    penalized = fit(stage.model_copy(update={"l2": 0.001}), rows, [300, 400])
    assert penalized.description["ended"] == "converged"
    assert np.isfinite(penalized.predicted).all()


@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_early_stopping__keeps_the_best_round_of_validation(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linear_setting, "NEWTON_UP_TO", 1)  # gradients: many rounds
    random = np.random.default_rng(5)
    noise = {f"n{number}": random.normal(size=PEOPLE.height) for number in range(150)}
    rows, more = PEOPLE.with_columns(**noise), {"features": [*noise, "b"], "categorical": [], "l2": 1e-6}
    found = fit(stage_for(objective, **more, early_stopping_rounds=2), rows, [300, 400])
    whole = fit(stage_for(objective, **more), rows)
    assert found.description["ended"] == "stopped early"
    assert found.counts["rounds_used"] < whole.counts["rounds_used"]
    watched = found.history.filter(pl.col("split") == "validation")["value"].to_numpy()
    assert watched.min() == pytest.approx(found.metrics["validation"]["log_loss"], rel=1e-6)
    assert watched.min() < watched[-1]
    assert found.history.filter(pl.col("split") == "train")["value"].to_numpy().min() > whole.history["value"].to_numpy().min()


def test_early_stopping__of_a_solver_that_converges_first_changes_nothing() -> None:
    stage = stage_for("binary", early_stopping_rounds=20)
    found, expected = fit(stage, PEOPLE), fit(stage_for("binary"), PEOPLE)
    assert found.model == expected.model
    assert found.coefficients.equals(expected.coefficients)
    assert {*found.history["split"]} == {"train", "validation"}


def test_rounds_that_are_too_few__are_said() -> None:
    found = fit(stage_for("binary", rounds=2), PEOPLE)
    assert found.description["ended"] == "rounds used up"
    assert found.warnings == [
        "the solver of 'binary' had not converged after 2 rounds (rounds used up). Raise rounds, or tolerance from 1e-09."
    ]
    assert found.coefficients["p_value"].null_count() == found.coefficients.height


def test_arrays_beside_the_rows__are_features_named_by_their_axis() -> None:
    dosages = np.random.default_rng(2).integers(0, 3, (PEOPLE.height, 3)).astype(np.float32)
    dosages[::9, 1] = np.nan
    axes = {"dosages": Table.of(Session(), "axis", [Part(pl.DataFrame({"variant_id": ["rs1", "rs2", "rs3"]}))])}
    found = fit(stage_for("normal", features=["b"], categorical=[]), Part(PEOPLE, {"dosages": dosages}), [300, 400], axes=axes)
    beside = PEOPLE.with_columns(pl.Series(f"rs{at + 1}", dosages[:, at]).fill_nan(None) for at in range(3))
    expected = fit(stage_for("normal", features=["b", "rs1", "rs2", "rs3"], categorical=[]), beside)
    assert found.coefficients["feature"].to_list() == ["(intercept)", "b", "rs1", "rs2", "rs3"]
    np.testing.assert_allclose(found.column("coefficient"), expected.column("coefficient"), rtol=1e-9, atol=1e-12)
    assert found.description["arrays"] == ["dosages"]


@pytest.mark.parametrize(
    ("change", "stage", "said"),
    [
        (
            {"poisson": pl.col("poisson") - 1},
            stage_for("poisson"),
            "'poisson' has the value -1; the poisson family needs numbers from 0 on",
        ),
        ({"gamma": pl.lit(0.0)}, stage_for("gamma", split=None), "'gamma' is 0 in every training row"),
        ({"gamma": pl.col("gamma").clip(0.5) - 0.5}, stage_for("gamma"), "'gamma' has the value 0; the gamma family needs numbers above 0"),
        ({"group": pl.col("group") - 1}, stage_for("normal"), "'group' has the code -1, and codes begin with 0"),
        ({"b": pl.col("b") / 0}, stage_for("normal"), "feature 'b' has infinite values"),
        ({"normal": pl.col("normal") / 0}, stage_for("normal"), "'normal' has infinite values"),
        ({"binary": pl.col("binary") * 2}, stage_for("binary"), r"'binary' is not binary, it has values \[0\.0, 2\.0\]"),
        ({"multiclass": pl.lit("odd")}, stage_for("multiclass"), "'multiclass' has the value 'odd', which classes does not list"),
        ({"b": pl.lit(1)}, stage_for("normal", features=["b"], categorical=[]), "no feature varies in the 395 training rows"),
        (
            {"multiclass": pl.when(pl.col("multiclass") != "mid").then("multiclass")},
            stage_for("multiclass"),
            "no training row has the multiclass 'mid'. Leave it out of classes",
        ),
        ({"split": pl.lit("train")}, stage_for("binary", early_stopping_rounds=2), "early stopping needs validation rows"),
    ],
)
def test_rows_that_cannot_be_learned_from__are_refused(change: dict[str, pl.Expr], stage: Linear, said: str) -> None:
    with pytest.raises(DataError, match=said):
        fit(stage, PEOPLE.with_columns(**change), even_sizes(700, 3))


def test_a_family__is_of_regressions() -> None:
    with pytest.raises(StageError, match="gamma is a family of regression, and the objective is binary"):
        plan_stage(stage_for("binary", family="gamma"), {"rows": PEOPLE})


def test_a_file_that_is_no_model__is_refused() -> None:
    with pytest.raises(InputError, match="this is no linear model"):
        LinearModel.read(b"PK")


@pytest.mark.parametrize("target", ["normal", "binary"])
def test_on_workers__it_gives_the_same(target: str, workers: ClusterSession) -> None:
    here, there = fit(stage_for(target), PEOPLE), fit(stage_for(target), PEOPLE, even_sizes(700, 5), session=workers)
    np.testing.assert_allclose(there.predicted, here.predicted, rtol=1e-9, atol=1e-9)
    assert there.metrics["test"] == pytest.approx(here.metrics["test"], rel=1e-8)
    assert there.description == here.description


def test_on_workers__an_error_is_raised_where_it_is_waited_for(workers: ClusterSession) -> None:
    with pytest.raises(DataError, match="no feature varies"):
        fit(stage_for("binary", features=["b"], categorical=[]), PEOPLE.with_columns(b=pl.lit(1)), [300, 400], session=workers)


def is_separated(columns: Any, known: Any) -> bool:
    """Whether some direction puts no case below and no control above, and some not at zero (Konis 2007), by a linear program."""
    from scipy.optimize import linprog

    signed = np.column_stack([np.ones(len(known)), columns]) * np.where(known, 1.0, -1.0)[:, None]
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(known)), bounds=(-1, 1))
    return bool(found.fun < -1e-7)


def test_classes_are_refused__exactly_where_a_linear_program_separates_them() -> None:
    random, found, expected = np.random.default_rng(8), list[str](), list[bool]()
    for _ in range(120):
        rows, columns = int(random.integers(8, 40)), int(random.integers(1, 4))
        values = random.normal(size=(rows, columns)).round(int(random.integers(0, 3)))
        known = random.random(rows) < 1 / (1 + np.exp(-3 * values.sum(axis=1)))
        if known.all() or not known.any() or np.linalg.matrix_rank(np.column_stack([np.ones(rows), values])) <= columns:
            continue
        table = frame(known, **{f"x{number}": values[:, number] for number in range(columns)})
        expected.append(is_separated(values, known))
        try:
            found.append(fit(regression(objective="binary"), table).description["ended"])
        except DataError as error:
            found.append(str(error).partition(":")[2].partition(":")[0])
    assert found == [" the training rows' 'y' is separated" if refused else "converged" for refused in expected]
    assert 20 < sum(expected) < len(expected) - 20
