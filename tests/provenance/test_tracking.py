"""What MLflow is told of a run, by a client that keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.errors import RunError
from pipeline.provenance import tracking
from pipeline.provenance.told import Told

RECORD = {
    "run": "20261122T100000Z-abcdef",
    "status": "done",
    "started": "2026-11-22T10:00:00+00:00",
    "finished": "2026-11-22T10:00:02+00:00",
    "seconds": 2.0,
    "backend": "cpu",
    "job": {"job": "loans", "seed": 3, "stages": [{"use": "xgboost", "from": "rows", "as": "model", "model": {"rounds": 9}}]},
}
METRICS = {"model": {"test": {"auc": 0.75, "rows": 4, "best": True}}}
TOLD = Told("results/runs/1", RECORD, {"plan": "1234"}, METRICS, ())


class RefusedError(Exception):
    """What the client raises."""


@dataclass
class Client:
    """MLflow's client, as far as it is used; what it is given it keeps."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: bool = False

    def get_experiment_by_name(self, name: str) -> Any:
        if self.refuses:
            raise RefusedError("no such service")
        return None

    def create_experiment(self, name: str) -> str:
        return name

    def search_runs(self, experiments: list[str], asked: str) -> list[Any]:
        found = [key for key, run in self.runs.items() if f"'{run['tags'][tracking.TAG]}'" in asked]
        return [SimpleNamespace(info=SimpleNamespace(run_id=key)) for key in found]

    def create_run(self, experiment: str, start_time: int, tags: dict[str, str]) -> Any:
        self.runs["one"] = {"experiment": experiment, "start": start_time, "tags": tags, "parameters": {}}
        return SimpleNamespace(info=SimpleNamespace(run_id="one"))

    def log_param(self, run: str, key: str, value: str) -> None:
        self.runs[run]["parameters"][key] = value

    def log_batch(self, run: str, metrics: list[tuple[str, float, int, int]]) -> None:
        self.runs[run]["metrics"] = {key: value for key, value, _, _ in metrics}

    def set_terminated(self, run: str, status: str, ended: int) -> None:
        self.runs[run] |= {"status": status, "seconds": (ended - self.runs[run]["start"]) / 1000}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """The client that MLflow would give."""
    client = Client()
    modules = {
        "mlflow.tracking": SimpleNamespace(MlflowClient={"http://mlflow": client}.__getitem__),
        "mlflow.exceptions": SimpleNamespace(MlflowException=RefusedError),
        "mlflow.entities": SimpleNamespace(Metric=lambda *given: given),
    }
    monkeypatch.setattr(tracking, "library", lambda module, _: modules[module])
    return client


def test_track__tells_metrics_parameters_and_times(client: Client) -> None:
    tracking.track(TOLD, "http://mlflow")
    run = client.runs["one"]
    assert run["metrics"] == {"seconds": 2.0, "model.test.auc": 0.75, "model.test.rows": 4.0}
    assert run["parameters"] == {"model.use": "xgboost", "model.model": '{"rounds": 9}', "seed": "3", "backend": "cpu", "plan": "1234"}
    assert (run["experiment"], run["status"], run["seconds"]) == ("loans", "FINISHED", 2.0)


def test_track__of_the_same_run_again_finds_it(client: Client) -> None:
    first = tracking.track(TOLD, "http://mlflow")
    client.runs["one"]["metrics"] = {}
    assert (tracking.track(TOLD, "http://mlflow"), client.runs["one"]["metrics"]) == (first, {})


def test_track__says_which_service_refuses(client: Client) -> None:
    client.refuses = True
    with pytest.raises(RunError, match="MLflow at http://mlflow does not take the run: no such service"):
        tracking.track(TOLD, "http://mlflow")
