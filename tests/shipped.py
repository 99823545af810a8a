"""The jobs that are shipped, and what those read that read what another one published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline import api
from pipeline.job.spec import Job

ROOT = Path(__file__).parents[1]
JOBS = ("genomics", "groups", "market", "recommend", "score", "search", "text", "tpch", "traffic")
"""All but loans, whose features and model some of them read."""

OF_LOANS = {
    "score": ("stages.scores.model", "current/models/lateness.json"),
    "search": ("inputs.features.path", "current/features"),
}


def job_file(job: str) -> Path:
    """Where a job is."""
    return ROOT / "jobs" / f"{job}.yaml"


def from_loans(job: str, published: str) -> dict[str, str]:
    """What a job that reads results of loans is told, by its path in the job, where these are at `published`."""
    return {key: f"{published}/{path}" for of, (key, path) in OF_LOANS.items() if of == job}


def planned(job: str, **options: Any) -> Job:
    """A shipped job with its inputs' files found; options are those of `api.load`, or paths in the job."""
    return api.load(job_file(job), **_given(options)).plan().job


def ran(job: str, results: str, **options: Any) -> api.Run:
    """A shipped job's run, by one process of this machine unless told otherwise."""
    return api.load(job_file(job), results=results, cluster__dashboard=False, **_given(options)).run()


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {key.replace(".", "__"): value for key, value in options.items()}
