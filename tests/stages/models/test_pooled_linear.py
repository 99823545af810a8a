"""pooled_linear: statsmodels' answer on the pooled rows, from tables that say nothing one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import pipeline
from pipeline.errors import DataError, StageError
from pipeline.stage import Context
from pipeline.stages.models._pooled.masks import MODULUS
from pipeline.stages.models.pooled_linear import PooledLinear
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests.small import inside
from tests.stages.models.federation import SITES, complete, leaving, shared, site_rows

ALL = pl.concat([leaving(site) for site in SITES])
EXAMPLES = [StageExample(PooledLinear(), {"rows": ALL}, ordered=True)]
FEATURES = ["year", "small", "count", "flag"]
WRONG = {**shared("oslo"), "rome": "not what rome has, by a slip of hand"}


def pooled(tables: pl.DataFrame) -> pl.DataFrame:
    """What the stage gives."""
    return run_stage(PooledLinear(), {"rows": tables}, 2)[""]


def metrics(tables: pl.DataFrame) -> Any:
    """The stage's metrics and counts."""
    given = {"rows": Table.of(Session(), "rows", [Part(tables)], schema=Schema(tables.schema))}
    outcome = PooledLinear().run(given, Context("effects", 1, Session()))
    return outcome.metrics, outcome.counts


def oracle(rows: pl.DataFrame, features: list[str]) -> Any:
    """statsmodels' least squares of rows; features are centred first, which changes the intercept alone, and keeps its digits."""
    from statsmodels.api import OLS, add_constant

    values = rows.select(pl.col(features).cast(pl.Float64)).to_numpy()
    return OLS(rows["y"].to_numpy(), add_constant(values - values.mean(axis=0))).fit()


def assert_is_oracle(found: pl.DataFrame, told: Any, expected: Any) -> None:
    """Coefficients, errors, statistics and p-values but the intercept's, and metrics, to 1e-9."""
    for column, values in {"coefficient": "params", "standard_error": "bse", "statistic": "tvalues", "p_value": "pvalues"}.items():
        np.testing.assert_allclose(found[column].to_numpy()[1:], getattr(expected, values)[1:], rtol=1e-9)
    assert told["r_squared"] == pytest.approx(expected.rsquared, rel=1e-9)
    assert told["residual_variance"] == pytest.approx(expected.mse_resid, rel=1e-9)
    assert told["rows"] == expected.nobs
    assert told["degrees_of_freedom"] == expected.df_resid


def test_pooled_linear__has_statsmodels_answer_on_the_pooled_rows() -> None:
    found, (told, counts) = pooled(ALL), metrics(ALL)
    assert found["feature"].to_list() == ["(intercept)", *FEATURES]
    assert_is_oracle(found, told, oracle(complete(), FEATURES))
    assert counts == {"sites": 3, "rows_used": complete().height, "features": 4}


def test_pooled_linear__has_statsmodels_intercept() -> None:
    from statsmodels.api import OLS, add_constant

    tables = pl.concat([leaving(site, features=("small", "count")) for site in SITES])
    rows = complete()
    expected = OLS(rows["y"].to_numpy(), add_constant(rows.select("small", "count").to_numpy())).fit()
    line = pooled(tables).row(0, named=True)
    values = [line[name] for name in ("coefficient", "standard_error", "statistic", "p_value")]
    np.testing.assert_allclose(values, [each[0] for each in (expected.params, expected.bse, expected.tvalues, expected.pvalues)], rtol=1e-9)


def test_pooled_linear__loses_no_digits_where_sums_of_squares_do() -> None:
    far = [site_rows(site).with_columns(pl.col("year") * 1e-3 + 2.0**40) for site in SITES]
    tables = pl.concat([leaving(site, rows, features=("year", "count")) for site, rows in zip(SITES, far, strict=True)])
    rows = pl.concat(far).fill_nan(None).drop_nulls(["year", "count", "y"])
    near = rows.with_columns(pl.col("year") - 2.0**40)
    assert_is_oracle(pooled(tables), metrics(tables)[0], oracle(near, ["year", "count"]))


def test_pooled_linear__is_the_same_for_any_parts_and_order() -> None:
    assert_same_for_any_parts(PooledLinear(), {"rows": ALL}, ["feature"])


def test_pooled_linear__of_an_exact_relation_has_no_errors() -> None:
    tables = pl.concat([leaving(site, site_rows(site).with_columns(y=pl.col("year") * 2 + 1.0), features=("count",)) for site in SITES])
    assert pooled(tables)["standard_error"].null_count() == 0
    exact = [pl.DataFrame({"a": pl.int_range(30, eager=True), "y": pl.int_range(30, eager=True) * 3 + 1}) for _ in SITES]
    found = pooled(pl.concat([leaving(site, rows, features=("a",)) for site, rows in zip(SITES, exact, strict=True)]))
    assert found["coefficient"].to_list() == [1.0, 3.0]
    assert found["standard_error"].to_list() == [0.0, 0.0]
    assert found["p_value"].null_count() == 2


def test_pooled_linear__says_that_masks_do_not_cancel() -> None:
    tables = pl.concat([leaving(site, secrets=WRONG if site == "oslo" else shared(site)) for site in SITES])
    with pytest.raises(DataError, match=r"the masks of the sites do not cancel.*different\s+secrets.*run site_sums at every site again"):
        pooled(tables)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (ALL.filter(pl.col("site") != "rome"), "the table of site 'rome' is missing. The sums stay masked until all are there"),
        (pl.concat([ALL, ALL.filter(site="oslo")]), "the table of site 'oslo' is there 2 times"),
        (ALL.filter((pl.col("site") != "oslo") | (pl.col("second") != "flag")), r"site 'oslo' has no entry \(intercept\) x flag"),
        (pl.concat([ALL, ALL[:1].with_columns(second=pl.lit("z"))]), r"site 'berlin' has entry \(intercept\) x z, which is none"),
        (pl.concat([ALL, ALL[:1].with_columns(site=pl.lit("paris"))]), "there is a table of site 'paris', and the study is of berlin"),
        (
            pl.concat([ALL.filter(pl.col("site") != "oslo"), leaving("oslo", study="two")]),
            r"agreed on study: 'one' \(berlin, rome\); 'two'",
        ),
        (pl.concat([ALL.filter(pl.col("site") != "oslo"), leaving("oslo", digits=80)]), r"agreed on digits: 80 \(oslo\); 96"),
        (pl.concat([ALL.filter(pl.col("site") != "oslo"), leaving("oslo", features=("year",))]), "have not agreed on columns"),
        (ALL.with_columns(masked=pl.lit("zz")), "has 'zz' for entry .* no masked sum"),
        (ALL.with_columns(masked=pl.lit(None, pl.String)), "has None for entry"),
        (ALL.with_columns(sites=pl.lit("berlin")), "must be lists in JSON"),
        (ALL.with_columns(digits=pl.lit(1000, pl.Int64)), "no tables of site_sums: .* digits 1000"),
        (ALL[:0], "there is no row"),
    ],
)
def test_pooled_linear__names_what_is_missing_double_or_not_agreed(tables: pl.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pooled(tables)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"flag": pl.col("year") / 3 - pl.col("count") * 0.7}, "feature 'flag' is a weighted sum of 'year', 'small', 'count': they are"),
        ({"small": pl.col("year") * 2}, "feature 'small' is a weighted sum of 'year': they are collinear. Leave one out"),
        ({"small": pl.lit(0.1)}, "feature 'small' has one value in all rows of all sites"),
        ({"y": pl.lit(7)}, "target 'y' has one value in all rows"),
    ],
)
def test_pooled_linear__names_columns_that_cannot_be_learned(columns: dict[str, pl.Expr], message: str) -> None:
    tables = [leaving(site, site_rows(site).with_columns(**columns)) for site in SITES]
    with pytest.raises(DataError, match=message):
        pooled(pl.concat(tables))


def test_pooled_linear__refuses_sums_that_no_rows_have() -> None:
    less = pl.when((pl.col("first") == "year") & (pl.col("second") == "year") & (pl.col("site") == "oslo"))
    text = ALL.filter(site="oslo", first="year", second="year")["masked"][0]
    changed = f"{(int(text, 16) - (1 << 240)) % MODULUS:0128x}"
    with pytest.raises(DataError, match="no rows have such sums of feature 'year': a site's table was changed"):
        pooled(ALL.with_columns(masked=less.then(pl.lit(changed)).otherwise("masked")))


def test_pooled_linear__refuses_too_few_rows() -> None:
    tables = pl.concat([leaving(site, site_rows(site, 1), least=1) for site in SITES])
    with pytest.raises(DataError, match="3 rows of all sites for 5 coefficients; at least 6 are needed"):
        pooled(tables)


def test_pooled_linear__refuses_other_tables_at_plan_time() -> None:
    with pytest.raises(StageError, match="no column 'masked'"):
        plan_stage(PooledLinear(), {"rows": ALL.drop("masked")})
    with pytest.raises(StageError, match="column 'digits' is String, and Int64"):
        plan_stage(PooledLinear(), {"rows": ALL.cast({"digits": pl.String})})


SITE = """\
job: site
results: results
inputs: {{rows: {{format: parquet, path: rows.parquet, parts: 2}}}}
stages:
  - {{use: site_sums, from: rows, as: sums, site: {site}, sites: [berlin, oslo, rome], target: y, features: [year, small, count, flag],
     study: "trial 7", secrets: {{{secrets}}}}}
outputs: {{sums: {{from: sums, format: {format}}}}}
"""
POOL = """\
job: pool
results: results
inputs:
  berlin: {format: parquet, path: ../berlin/results/current/sums/*.parquet}
  oslo: {format: csv, path: ../oslo/results/current/sums/*.csv, columns: COLUMNS}
  rome: {format: parquet, path: ../rome/results/current/sums/*.parquet}
stages:
  - {use: union, from: [berlin, oslo, rome], as: all_sums}
  - {use: pooled_linear, from: all_sums, as: effects, key: id}
outputs: {effects: {from: effects}}
"""
SCORE = """\
job: score
results: scored
inputs: {rows: {format: parquet, path: new.parquet}}
stages: [{use: score, from: rows, as: scores, model: results/current/models/effects.json}]
outputs: {scores: {from: scores, sort_by: id}}
"""


def test_pooled_linear__pools_what_three_sites_published_and_its_model_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for site in SITES:
        (tmp_path / site).mkdir()
        site_rows(site).write_parquet(tmp_path / site / "rows.parquet")
        for other, secret in shared(site).items():
            monkeypatch.setenv(f"{other.upper()}_SECRET", secret)
        secrets = ", ".join(f'{other}: "${{{other.upper()}_SECRET}}"' for other in shared(site))
        text = SITE.format(site=site, secrets=secrets, format="csv" if site == "oslo" else "parquet")
        (tmp_path / site / "job.yaml").write_text(text)
        with inside(tmp_path / site):
            pipeline.load("job.yaml").run()
        (tmp_path / site / "rows.parquet").unlink()
    (tmp_path / "pool").mkdir()
    types = ", ".join(f"{name}: {'int64' if name == 'digits' else 'string'}" for name in ALL.columns)
    (tmp_path / "pool" / "job.yaml").write_text(POOL.replace("COLUMNS", f"{{{types}}}"))
    new = complete().select(pl.col(FEATURES).cast(pl.Float64)).with_row_index("id")
    new.write_parquet(tmp_path / "pool" / "new.parquet")
    (tmp_path / "pool" / "score.yaml").write_text(SCORE)
    with inside(tmp_path / "pool"):
        run = pipeline.load("job.yaml").run()
        pipeline.load("score.yaml").run()
    found = pl.read_parquet(tmp_path / "pool" / "results" / "current" / "effects" / "*.parquet")
    np.testing.assert_allclose(found["coefficient"].to_numpy()[1:], oracle(complete(), FEATURES).params[1:], rtol=1e-9)
    scores = pl.read_parquet(tmp_path / "pool" / "scored" / "current" / "scores" / "*.parquet").sort("id")
    np.testing.assert_allclose(scores["prediction"].to_numpy(), oracle(complete(), FEATURES).fittedvalues, rtol=1e-9)
    assert run.record["stages"]["effects"]["counts"]["sites"] == 3
