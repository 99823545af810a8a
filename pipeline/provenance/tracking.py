"""A run in MLflow: an experiment named like the job, with metrics by model and split, parameters, and the run's own id as a tag."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pipeline.errors import RunError
from pipeline.provenance.told import Told, library
from pipeline.urls import hidden

EXTRA = "mlflow"
LONGEST = 6000  # characters of a parameter that MLflow keeps
TAG = "pipeline.run"
_STATUS = {"done": "FINISHED", "interrupted": "KILLED", "running": "RUNNING"}


def track(told: Told, uri: str) -> str:
    """Put the run into the MLflow at a URI, unless it is there; returns its id there. Raises RunError where MLflow does not take it."""
    tracking, refused = library("mlflow.tracking", EXTRA), library("mlflow.exceptions", EXTRA).MlflowException
    try:
        client = tracking.MlflowClient(uri)
        experiment = client.get_experiment_by_name(told.name)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(told.name)
        if there := client.search_runs([experiment_id], f"tags.`{TAG}` = '{told.record['run']}'"):
            return str(there[0].info.run_id)
        return _put(told, client, experiment_id)
    except refused as error:
        raise RunError(f"MLflow at {hidden(uri)} does not take the run: {error}") from error


def _put(told: Told, client: Any, experiment: str) -> str:
    entities, record = library("mlflow.entities", EXTRA), told.record
    began, ended = (_milliseconds(record[key] or record["started"]) for key in ("started", "finished"))
    tags = {TAG: record["run"], "mlflow.runName": record["run"], "mlflow.source.name": told.name, "pipeline.path": told.path}
    run = client.create_run(experiment, start_time=began, tags=tags).info.run_id
    parameters = {
        f"{stage['as']}.{key}": value for stage in told.job["stages"] for key, value in stage.items() if key not in ("as", "from")
    }
    parameters |= {"seed": told.job.get("seed", 0), "backend": record["backend"], "plan": told.certificate.get("plan", "")}
    for key, value in parameters.items():
        client.log_param(run, key, (value if isinstance(value, str) else json.dumps(value))[:LONGEST])
    figures = {"seconds": float(record["seconds"])} | dict(_figures(told.metrics))
    client.log_batch(run, metrics=[entities.Metric(key, value, ended, 0) for key, value in figures.items()])
    client.set_terminated(run, _STATUS.get(record["status"], "FAILED"), ended)
    return str(run)


def _figures(metrics: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, float]]:
    """Numbers, by their way there: model.test.auc."""
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _figures(value, f"{under}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{under}{key}", float(value)


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
