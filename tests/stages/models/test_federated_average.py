"""federated_average: the model after a round, what it refuses, and rounds of jobs over three folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pipeline
from pipeline.errors import DataError, StageError
from pipeline.registry import stage_class
from pipeline.stages.models._federated.messages import BITS, message
from pipeline.stages.models._federated.shared_model import SharedModel, columns_of
from pipeline.stages.models._pooled.masks import Agreed
from pipeline.stages.models.federated_average import FederatedAverage
from pipeline.stages.models.score import Score
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests.small import inside
from tests.stages.models.federation import SITES, shared
from tests.stages.models.rounds import KEPT, Study, frame_of, kept_stage, rows_of, training_rows

pytestmark = pytest.mark.long  # JAX compiles its programs


SENT = {
    "rows": np.ones(1), "loss": np.full(1, 0.375), "embeddings_0/embedding": np.zeros(4), "layers_0/bias": np.full(2, 0.25),
    "layers_0/kernel": np.zeros((2, 2)), "layers_1/bias": np.ones(1), "layers_1/kernel": np.zeros((2, 1)),
}  # fmt: skip


def _updates() -> pl.DataFrame:
    """What three sites might give of the kept model; no network is needed for it."""
    sizes = {name: values.size for name, values in SENT.items()}
    agreed = Agreed(SharedModel.of(kept_stage("oslo").published).study("kept"), SITES, tuple(columns_of(sizes)), BITS)
    return pl.concat([message(agreed, site, kept_stage(site).pads(agreed), SENT, 40, None).frame for site in SITES])


UPDATES = _updates()
KEPT_AVERAGE = FederatedAverage(model=KEPT, study="kept").opened(stage_class)
EXAMPLES = [StageExample(KEPT_AVERAGE, {"rows": UPDATES}, ordered=True, needs="jax")]


def test_federated_average__publishes_a_model_that_score_takes_and_that_knows_its_rounds(tmp_path: Path) -> None:
    study = Study(tmp_path, "regression", {"layers": (3,), "categorical": {"region": 3}})
    study.rounds(2)
    told = json.loads((tmp_path / "risk.json").read_text())
    assert told["use"] == "network"
    assert told["federated"]["round"] == 2
    assert [past["rows"] for past in told["federated"]["history"]] == [training_rows().height] * 2
    assert study.outcome is not None
    assert study.outcome.counts == {"sites": 3, "rows_used": training_rows().height, "round": 2}
    assert study.outcome.metrics["all sites"]["round"] == 2
    rows = rows_of("oslo").cast({"region": pl.Int64})
    scored = run_stage(Score(model=study.model).opened(stage_class), {"rows": rows})[""]
    rmse = np.sqrt(np.mean((scored["prediction"].to_numpy() - rows["days"].to_numpy()) ** 2))
    assert rmse < 3 * study.losses()[-1]


def test_federated_average__refuses_what_is_not_of_this_round(tmp_path: Path) -> None:
    study = Study(tmp_path)
    tables = {site: frame_of(study.update(site)) for site in SITES}
    wrong = frame_of(study.update("oslo", secrets={**shared("oslo"), "rome": "not what rome has, by a slip of hand"}))
    whole = pl.concat(tables.values())
    for updates, text in (
        (pl.concat([tables["berlin"], wrong, tables["rome"]]), "the masks of the sites do not cancel.*under a new study"),
        (whole.filter(pl.col("site") != "rome"), "the table of site 'rome' is missing"),
        (pl.concat([whole, tables["rome"]]), "table is there twice"),
        (whole.filter((pl.col("site") != "rome") | (pl.col("name") != "loss")), "the table of site 'rome' has no loss"),
        (whole.with_columns(masked=pl.lit("zz")), "is no masked array"),
    ):
        with pytest.raises(DataError, match=text):
            study.average(updates)
    with pytest.raises(DataError, match=r"the sites have trained 'one, round 1, .*, and the model given here is that of 'two, round 1"):
        study.average(whole, study="two")
    study.publish(study.average(whole))
    with pytest.raises(DataError, match=r"round 1.*round 2.*Give the model that all sites were given"):
        study.average(whole)


def test_federated_average__refuses_other_tables_at_plan_time() -> None:
    with pytest.raises(StageError, match="no column 'masked'"):
        plan_stage(KEPT_AVERAGE, {"rows": UPDATES.drop("masked")})
    with pytest.raises(StageError, match="column 'digits' is String, and Int64"):
        plan_stage(KEPT_AVERAGE, {"rows": UPDATES.cast({"digits": pl.String})})


SUMS = """\
job: sums
results: sums
inputs: {{rows: {{format: parquet, path: rows.parquet}}}}
stages:
  - {{use: filter, from: rows, as: train, where: split = 'train'}}
  - {{use: site_sums, from: train, as: sums, site: {site}, sites: [berlin, oslo, rome], target: ill, features: [age, dose], study: "7",
     secrets: {{{secrets}}}}}
outputs: {{sums: {{from: sums}}}}
"""
UPDATE = """\
job: update
results: update
inputs: {{rows: {{format: parquet, path: rows.parquet}}}}
stages:
  - {{use: site_update, from: rows, as: update, model: ../pool/rounds/current/models/risk.json, site: {site}, sites: [berlin, oslo, rome],
     study: "7", learning_rate: 0.5, secrets: {{{secrets}}}}}
outputs: {{update: {{from: update}}}}
"""
START = """\
job: start
results: rounds
inputs:
  berlin: {format: parquet, path: ../berlin/sums/current/sums/*.parquet}
  oslo: {format: parquet, path: ../oslo/sums/current/sums/*.parquet}
  rome: {format: parquet, path: ../rome/sums/current/sums/*.parquet}
stages:
  - {use: union, from: [berlin, oslo, rome], as: all_sums}
  - {use: federated_start, from: all_sums, as: risk, key: id, objective: binary}
outputs: {scales: {from: risk}}
"""
AVERAGE = """\
job: average
results: rounds
inputs:
  berlin: {format: parquet, path: ../berlin/update/current/update/*.parquet}
  oslo: {format: parquet, path: ../oslo/update/current/update/*.parquet}
  rome: {format: parquet, path: ../rome/update/current/update/*.parquet}
stages:
  - {use: union, from: [berlin, oslo, rome], as: updates}
  - {use: federated_average, from: updates, as: risk, model: rounds/current/models/risk.json, study: "7"}
outputs: {losses: {from: risk}}
"""


def test_federated_average__of_jobs_in_three_folders_is_that_of_their_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for site in SITES:
        (tmp_path / site).mkdir()
        rows_of(site).cast({"region": pl.Int64}).write_parquet(tmp_path / site / "rows.parquet")
        secrets = ", ".join(f'{other}: "${{{other.upper()}_SECRET}}"' for other in shared(site))
        for name, text in {"sums": SUMS, "update": UPDATE}.items():
            (tmp_path / site / f"{name}.yaml").write_text(text.format(site=site, secrets=secrets))
    (tmp_path / "pool").mkdir()
    for name, text in {"start": START, "average": AVERAGE}.items():
        (tmp_path / "pool" / f"{name}.yaml").write_text(text)

    def run(job: str, folder: str) -> None:
        """Run a job in a folder, with the secrets of that site."""
        for other, secret in (shared(folder) if folder in SITES else {}).items():
            monkeypatch.setenv(f"{other.upper()}_SECRET", secret)
        with inside(tmp_path / folder):
            pipeline.load(f"{job}.yaml").run()

    for site in SITES:
        run("sums", site)
    run("start", "pool")
    for _ in range(2):
        for site in SITES:
            run("update", site)
        run("average", "pool")
    models = tmp_path / "pool" / "rounds" / "current" / "models"
    told = json.loads((models / "risk.json").read_text())
    assert (told["federated"]["round"], [past["rows"] for past in told["federated"]["history"]]) == (2, [training_rows().height] * 2)
    losses = pl.read_parquet(tmp_path / "pool" / "rounds" / "current" / "losses" / "*.parquet")
    assert losses["round"].to_list() == [0, 1]
    assert losses["value"].is_sorted(descending=True)
