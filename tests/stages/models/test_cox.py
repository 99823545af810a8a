"""cox: the results of R's survival, the partial likelihood by its definition, any parts, and new rows get what training gave."""

from __future__ import annotations

from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.optimize import minimize

import pipeline
from pipeline.errors import DataError, PlaceError, StageError
from pipeline.stages.models import _classical
from pipeline.stages.models.cox import Cox
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import cut, even_sizes, plan_stage, run_parts, run_stage, shuffled
from tests.kernels.test_concordance import by_definition
from tests.small import inside
from tests.stages.models.points import Result, learn

FEATURES = ["x", "y"]


def patients(rows: int = 160, seed: int = 20261122) -> pl.DataFrame:
    """Whole days until an event or the end, so that there are ties; late entries, strata and splits."""
    random = np.random.default_rng(seed)
    x, y, site = random.normal(size=rows), random.integers(0, 3, rows), np.array(["a", "b", "c"])[random.integers(0, 3, rows)]
    until, seen = random.exponential(20 * np.exp(-0.8 * x + 0.4 * y - (site == "b"))), random.exponential(25, rows)
    days = np.ceil(np.minimum(until, seen)).astype(np.int64)
    return pl.DataFrame(
        {
            "id": [f"p{number:03d}" for number in range(rows)],
            "days": days,
            "died": (until <= seen).astype(np.int64),
            "from": np.floor(days * random.random(rows) * 0.6),
            "site": site,
            "x": x * 1000 + 5,
            "y": y,
            "split": random.choice(["train", "validation", "test"], size=rows, p=[0.6, 0.2, 0.2]),
        }
    )


PATIENTS = patients()


def stage_for(**more: Any) -> Cox:
    return Cox.model_validate({"key": "id", "duration": "days", "event": "died", "features": FEATURES, **more})


EXAMPLES = [
    StageExample(stage_for(split="split", strata="site", entry="from"), {"rows": PATIENTS}, needs="statsmodels"),
    StageExample(stage_for(ties="breslow", missing="mean"), {"rows": PATIENTS}, needs="statsmodels"),
]


def coefficient(found: Result, name: str = "x") -> dict[str, Any]:
    """The line of a feature."""
    return found.tables["coefficients"].filter(pl.col("feature") == name).row(0, named=True)


VALIDATION = pl.DataFrame({"id": range(6), "days": [1, 1, 6, 6, 8, 9], "died": [1, 0, 1, 1, 0, 1], "x": [1, 1, 1, 0, 0, 0]})
"""The first data set by which R's survival is validated (Therneau & Grambsch 2000, appendix E; the package's vignette "Validation")."""


@pytest.mark.parametrize(("ties", "expected", "null"), [("breslow", log((3 + sqrt(33)) / 2), -4.564348), ("efron", 1.676857, -4.276666)])
def test_cox__has_the_published_values_of_rs_survival(ties: str, expected: float, null: float) -> None:
    found = learn(stage_for(features=["x"], ties=ties), VALIDATION)
    assert coefficient(found)["coefficient"] == pytest.approx(expected, abs=5e-7)
    assert found.metrics["null_log_likelihood"] == pytest.approx(null, abs=5e-7)
    r = np.exp(coefficient(found)["coefficient"])
    last = r + 3 if ties == "breslow" else (r + 5) / 2
    assert found.metrics["log_likelihood"] == pytest.approx(log(r * r / (3 * r + 3) / (r + 3) / last), abs=1e-12)


COUNTING = pl.DataFrame(
    {
        "id": range(10),
        "from": [1, 2, 5, 2, 1, 7, 3, 4, 8, 8],
        "days": [2, 3, 6, 7, 8, 9, 9, 9, 14, 17],
        "died": [1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
        "x": [1, 0, 0, 1, 0, 1, 1, 1, 0, 0],
    }
)
"""The second one, of rows that enter late."""


@pytest.mark.parametrize(("ties", "expected", "null", "reached"), [("breslow", -0.084526, -9.392662, -9.387015)])
def test_cox__takes_late_entries_as_rs_survival_does(ties: str, expected: float, null: float, reached: float) -> None:
    found = learn(stage_for(features=["x"], ties=ties, entry="from"), COUNTING)
    assert coefficient(found)["coefficient"] == pytest.approx(expected, abs=5e-7)
    assert found.metrics["null_log_likelihood"] == pytest.approx(null, abs=5e-7)
    assert found.metrics["log_likelihood"] == pytest.approx(reached, abs=5e-7)


TREATED = "6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+"
PLACEBO = "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23"


@pytest.mark.parametrize(("ties", "value", "error"), [("efron", 1.5721, 0.4124), ("breslow", 1.5092, 0.4096)])
def test_cox__of_remission_under_mercaptopurine_is_rs(ties: str, value: float, error: float) -> None:
    """Weeks of remission (Freireich 1963, Blood 21:699-716; MASS::gehan), + where it lasted; R's coxph(Surv(time, cens) ~ treat)."""
    lines = [(week, 0) for week in TREATED.split()] + [(week, 1) for week in PLACEBO.split()]
    rows = [{"id": n, "days": int(week.rstrip("+")), "died": "+" not in week, "x": x} for n, (week, x) in enumerate(lines)]
    told = coefficient(learn(stage_for(features=["x"], ties=ties), pl.DataFrame(rows), 3))
    assert (round(told["coefficient"], 4), round(told["standard_error"], 4)) == (value, error)
    assert told["hazard_ratio"] == pytest.approx(np.exp(told["coefficient"]))
    assert told["hazard_ratio_lower"] == pytest.approx(np.exp(told["coefficient"] - 1.959964 * told["standard_error"]), rel=1e-6)


def partial_likelihood(frame: pl.DataFrame, beta: Any, *, ties: str, entry: str | None, strata: str | None) -> float:
    """Cox's partial log likelihood, event by event."""
    total = 0.0
    for _, group in frame.group_by(strata) if strata else [((), frame)]:
        days, died, risk = group["days"].to_numpy(), group["died"].to_numpy() == 1, np.exp(group.select(FEATURES).to_numpy() @ beta)
        since = group[entry].to_numpy() if entry else np.full(len(days), -1.0)
        for day in np.unique(days[died]):
            dying, there = died & (days == day), (since < day) & (days >= day)
            total += np.log(risk[dying]).sum()
            for number in range(dying.sum()):
                share = number / dying.sum() if ties == "efron" else 0.0
                total -= np.log(risk[there].sum() - share * risk[dying].sum())
    return float(total)


@pytest.mark.parametrize("entry", [None, "from"])
@pytest.mark.parametrize("strata", [None, "site"])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_cox__is_the_maximum_of_the_partial_likelihood(ties: str, strata: str | None, entry: str | None) -> None:
    found = learn(stage_for(ties=ties, strata=strata, entry=entry), PATIENTS, 2)
    scale = np.array([1000.0, 1.0])
    told = found.tables["coefficients"]["coefficient"].to_numpy() * scale
    ready = PATIENTS.with_columns(pl.col("x") / 1000)

    def loss(beta: Any) -> float:
        return -partial_likelihood(ready, beta, ties=ties, entry=entry, strata=strata)

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(told, best.x, atol=2e-5)
    assert found.metrics["log_likelihood"] == pytest.approx(-best.fun, abs=1e-7)
    assert found.metrics["null_log_likelihood"] == pytest.approx(-loss(np.zeros(2)), abs=1e-7)
    steps = 1e-4 * np.eye(2)
    curve = [[(loss(told + a + b) - loss(told + a - b) - loss(told - a + b) + loss(told - a - b)) / 4e-8 for a in steps] for b in steps]
    errors = np.sqrt(np.diag(np.linalg.inv(np.array(curve))))
    np.testing.assert_allclose(found.tables["coefficients"]["standard_error"].to_numpy() * scale, errors, rtol=1e-4)


@pytest.mark.parametrize("entry", [None, "from"])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_cox__adds_up_the_baseline_hazard_by_its_definition(ties: str, entry: str | None) -> None:
    found = learn(stage_for(ties=ties, strata="site", entry=entry), PATIENTS, 2)
    rows = found.rows.with_columns(**({} if entry else {"from": pl.lit(-1.0)}))
    for (site,), lines in found.tables["baseline"].group_by("site"):
        group, total = rows.filter(pl.col("site") == site), 0.0
        assert lines["time"].to_list() == sorted(group.filter(pl.col("died") == 1)["days"].unique())
        steps: list[tuple[float, float, float]] = lines.select("time", "cumulative_hazard", "survival").rows()
        for day, cumulative, survival in steps:
            there = group.filter((pl.col("days") >= day) & (pl.col("from") < day))
            dying = there.filter((pl.col("days") == day) & (pl.col("died") == 1))
            shares = [number / dying.height if ties == "efron" else 0.0 for number in range(dying.height)]
            risk, ending = (float(np.sum(rows_of["partial_hazard"].to_numpy())) for rows_of in (there, dying))
            total += sum(1 / (risk - share * ending) for share in shares)
            assert cumulative == pytest.approx(total, rel=1e-9)
            assert survival == pytest.approx(np.exp(-total), rel=1e-9)


def test_cox__measures_harrells_concordance_split_by_split_within_strata() -> None:
    found = learn(stage_for(split="split", strata="site", entry="from"), PATIENTS, 3)
    for split in ("train", "validation", "test"):
        pairs = []
        for _, group in found.rows.filter(pl.col("split") == split).group_by("site"):
            columns = [group[name].to_numpy() for name in ("days", "died", "linear_predictor", "from")]
            pairs.append(by_definition(columns[0], columns[1] == 1, columns[2], columns[3]))
        right, every = np.sum(pairs, axis=0)
        assert found.metrics[split]["concordance"] == pytest.approx(right / every, rel=1e-12)
    train = PATIENTS.filter(pl.col("split") == "train")
    alone = learn(stage_for(strata="site", entry="from"), train)
    np.testing.assert_allclose(alone.tables["coefficients"]["coefficient"], found.tables["coefficients"]["coefficient"], rtol=1e-9)
    assert found.counts == {**alone.counts, "rows_learned": train.height, "events": train["died"].sum(), "strata": 3}


def test_cox__predicts_against_a_row_of_mean_features() -> None:
    found = learn(stage_for(), PATIENTS)
    assert found.rows["linear_predictor"].mean() == pytest.approx(0, abs=1e-12)
    beta = found.tables["coefficients"]["coefficient"].to_numpy()
    features = PATIENTS.select(FEATURES).to_numpy()
    np.testing.assert_allclose(found.tables["coefficients"]["scale"], features.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.rows["linear_predictor"], (features - features.mean(axis=0)) @ beta, atol=1e-12)
    np.testing.assert_allclose(found.rows["partial_hazard"], np.exp(found.rows["linear_predictor"]), rtol=1e-12)


def test_cox__does_not_depend_on_parts_nor_on_the_order_of_rows() -> None:
    stage = stage_for(split="split", strata="site", entry="from")
    whole = learn(stage, PATIENTS)
    for frame, parts in ((PATIENTS, 2), (PATIENTS, 7), (shuffled(PATIENTS), 3), (PATIENTS, [0, 60, 100, 0])):
        assert isinstance(frame, pl.DataFrame)
        found = learn(stage, frame, parts)
        assert found.model == whole.model
        for name, table in whole.tables.items():
            assert_frame_equal(found.tables[name].sort(table.columns[:2]), table.sort(table.columns[:2]), check_exact=True)


def test_cox__over_two_workers_is_that_of_one(workers: ClusterSession) -> None:
    whole, found = learn(stage_for(), PATIENTS), learn(stage_for(), PATIENTS, 4, workers)
    assert found.model == whole.model
    assert_frame_equal(found.rows, whole.rows, check_exact=True)


@pytest.mark.parametrize("missing", ["refuse", "mean"])
def test_score__says_of_the_rows_of_training_what_training_did(missing: str, tmp_path: Path) -> None:
    rows = PATIENTS.with_columns(y=pl.when(pl.col("x") > -500).then("y")) if missing == "mean" else PATIENTS
    found = learn(stage_for(missing=missing, split="split"), rows, 3)
    for parts in (1, 7):
        scored = found.scored(rows.select("id", *FEATURES), tmp_path, parts)
        assert_frame_equal(scored, found.rows.select(scored.columns), check_exact=True)


TRAINING = """\
job: train
results: trained
inputs: {rows: {format: parquet, path: rows.parquet, parts: 3}}
stages:
  - {use: fill_missing, from: rows, as: filled, columns: [x], method: mean, fit_where: "split = 'train'"}
  - {use: standardize, from: filled, as: scaled, columns: [x, y], fit_where: "split = 'train'"}
  - {use: cox, from: scaled, as: model, key: id, duration: days, event: died, features: [x, y], split: split, strata: site}
outputs: {risks: {from: model, sort_by: id}, effects: {from: model.coefficients}, baseline: {from: model.baseline}}
"""
SCORING = """\
job: score
results: scored
inputs: {rows: {format: parquet, path: new.parquet, parts: 2}}
stages:
  - {use: score, from: rows, as: scores, model: trained/current/models/model.json}
outputs: {scores: {from: scores, sort_by: id}}
"""


def test_a_job_of_hazards__is_published_shown_and_scored_behind_what_it_was_learned_behind(tmp_path: Path) -> None:
    rows = PATIENTS.with_columns(x=pl.when(pl.col("y") < 2).then("x"))
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=50)
    rows.select("id", *FEATURES).write_parquet(tmp_path / "new.parquet", row_group_size=70)
    (tmp_path / "train.yaml").write_text(TRAINING)
    (tmp_path / "score.yaml").write_text(SCORING)
    with inside(tmp_path):
        run = pipeline.load("train.yaml").run()
        trained = run.table("risks").to_polars()
        found = pipeline.load("score.yaml").run().table("scores").to_polars()
    assert_frame_equal(found, trained.select(found.columns), check_exact=True)
    assert found.columns == ["id", "linear_predictor", "partial_hazard"]
    assert set(run.metrics["model"]) == {"train", "validation", "test"}
    assert run.record["stages"]["model"]["counts"]["strata"] == 3
    page = (tmp_path / "trained" / "current" / "report.html").read_text()
    assert "Hazard ratios" in page
    assert "Baseline survival" in page


def test_cox__takes_features_that_ride_along_as_arrays() -> None:
    dosages = np.random.default_rng(1).binomial(2, 0.3, (PATIENTS.height, 4)).astype(np.float32)
    names = [f"rs{number}" for number in range(4)]
    stage = stage_for(features=(), exclude=("x", "y", "site", "from", "split"))
    beside = PATIENTS.hstack([pl.Series(name, dosages[:, at]) for at, name in enumerate(names)])
    expected = run_stage(stage, {"rows": beside})
    for parts in (1, 3):
        pieces = cut(Part(PATIENTS, {"dosages": dosages}), even_sizes(PATIENTS.height, parts))
        found = run_parts(stage, {"rows": pieces}, axes={"dosages": pl.DataFrame({"variant_id": names})})
        for name, table in expected.items():
            assert_frame_equal(concat_parts(found[name]).frame, table, rel_tol=1e-9, abs_tol=1e-9)


def test_cox__predicts_rows_whose_end_is_not_known_and_learns_from_the_others() -> None:
    gaps = PATIENTS.with_columns(days=pl.when(pl.col("y") < 2).then("days"))
    found, known = learn(stage_for(features=["x"]), gaps, 2), learn(stage_for(features=["x"]), gaps.drop_nulls())
    assert coefficient(found) == coefficient(known)
    assert found.rows["linear_predictor"].null_count() == 0
    assert found.counts["rows_learned"] == known.rows.height < found.rows.height


BAD: list[tuple[dict[str, Any], pl.DataFrame, str]] = [
    ({}, PATIENTS.with_columns(died=pl.lit(0)), "no row to learn from has an event: 'died' is 0 in all of 160"),
    ({}, PATIENTS.with_columns(pl.col("died") + 1), "'died' has the value 2; it must be 1"),
    ({}, PATIENTS.with_columns(pl.col("days") - 5), "'days' has the value -[0-9]; a duration is 0 or more"),
    ({"entry": "from"}, PATIENTS.with_columns(pl.col("days").alias("from")), "a row enters at 0 or later, and before it ends"),
    ({"max_rows": 100}, PATIENTS, r"160 rows to learn from, and at most 100 are gathered\. Take a share of them \(sample\), or raise it"),
    ({}, PATIENTS.with_columns(y=pl.lit(3)), "feature 'y' is constant in the rows to learn from"),
    ({"strata": "y"}, PATIENTS.with_columns(x=pl.col("y") * 2), "feature 'x' is constant within every stratum"),
    ({}, PATIENTS.with_columns(y=pl.col("x") * 2 + 1), "feature 'y' follows from those before it"),
    (
        {},
        PATIENTS.with_columns(y=pl.col("died")),
        "the likelihood has no maximum that 50 rounds reach. Does 'y'",
    ),
]


@pytest.mark.parametrize(("more", "rows", "said"), BAD, ids=range(len(BAD)))
def test_cox__refuses_rows_that_cannot_be_learned_from(more: dict[str, Any], rows: pl.DataFrame, said: str) -> None:
    features = ["x"] if more.get("strata") == "y" else FEATURES
    with pytest.raises(DataError, match=said):
        learn(stage_for(**{"features": features, **more}), rows, 2)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"duration": "site"}, "column 'site' is String, and numbers are needed"),
        ({"event": "dead"}, r"no column 'dead'"),
        ({"strata": "from"}, "a fraction is no key"),
        ({"entry": "days"}, "column 'days' is named twice among key, split, duration"),
        ({"features": ["x", "days"]}, "features names 'days'"),
    ],
)
def test_cox__refuses_columns_before_a_run(more: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(stage_for(**more), {"rows": PATIENTS})


def test_cox__without_statsmodels_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_classical, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"statsmodels is not installed\. Install it with: pip install '\.\[classical\]'"):
        plan_stage(stage_for(), {"rows": PATIENTS})
