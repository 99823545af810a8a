"""jobs/schema.json is what the code says, and the pages that are made from the code name every stage."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.job.describe import stage_reference
from pipeline.job.schema import job_schema

ROOT = Path(__file__).parents[2]


def test_schema__is_the_one_in_the_repository() -> None:
    stored = json.loads((ROOT / "jobs" / "schema.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(job_schema())), "jobs/schema.json is out of date: make schema"


def test_stage_reference__is_the_one_in_the_repository() -> None:
    stored = (ROOT / "docs" / "stages.md").read_text(encoding="utf-8")
    assert stored == stage_reference(), "docs/stages.md is out of date: make schema"
