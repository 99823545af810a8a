"""jobs/schema.json and docs/stages.md, which are made from the code, are what the code says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.job.describe import stage_reference
from pipeline.job.schema import job_schema

ROOT = Path(__file__).parents[2]
REMEDY = "Run `make schema`, which rewrites jobs/schema.json and docs/stages.md from the code, and commit both."


def differences(stored: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """Names of what differs between two mappings."""
    return sorted(name for name in stored.keys() | made.keys() if stored.get(name) != made.get(name))


def sections(page: str) -> dict[str, str]:
    """The page's sections, by their headings."""
    return {part.partition("\n")[0]: part for part in page.split("\n### ")}


def test_schema__is_the_one_in_the_repository() -> None:
    stored = json.loads((ROOT / "jobs" / "schema.json").read_text(encoding="utf-8"))
    made = json.loads(json.dumps(job_schema()))
    if stored != made:
        changed = differences(stored["$defs"], made["$defs"]) or differences(stored, made)
        pytest.fail(f"jobs/schema.json is not what the code says of {', '.join(changed)}. {REMEDY}", pytrace=False)


def test_stage_reference__is_the_one_in_the_repository() -> None:
    stored, made = (ROOT / "docs" / "stages.md").read_text(encoding="utf-8"), stage_reference()
    if stored != made:
        changed = differences(sections(stored), sections(made))
        pytest.fail(f"docs/stages.md is not what the code says of {', '.join(changed)}. {REMEDY}", pytrace=False)
