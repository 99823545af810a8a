"""A page shows what data say and runs none of it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.report.pages import Page, page_of, predictions_of, record_of, scan_of
from tests.report.test_expectations import RULES

ATTACKS = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</title></svg></style><script>alert(1)</script>",
    "{{ 7 * 7 }}",
]


def renamed(rows: pl.DataFrame, attack: str) -> pl.DataFrame:
    """The rows, with columns of such names and values beside them."""
    texts = {f"{attack}{number}": pl.lit(f"{attack}{number}") for number in range(2)}
    return rows.with_columns(**texts, **{f"n{attack}": pl.int_range(pl.len())})


@pytest.mark.parametrize("attack", ATTACKS)
def test_page__runs_nothing_that_a_table_a_metric_or_a_job_says(attack: str, tmp_path: Path) -> None:
    people = pl.DataFrame({"sample_id": [f"{attack}{number}" for number in range(60)], "population": [attack, f"b{attack}"] * 30})
    outputs = {
        "gwas": renamed(scan_of(400, trait=attack).with_columns(chromosome=pl.lit(attack), variant_id=pl.lit(attack)), attack),
        "scan": scan_of(400, trait=attack).with_columns(variant_id=pl.lit(attack), reason=pl.lit(attack)),
        "predictions": renamed(predictions_of(200).rename({"disease": attack}), attack),
        "ancestry": people.with_columns(pc1=pl.int_range(60) / 7.0, pc2=pl.int_range(60) % 5 / 3.0),
        "table": renamed(people, attack),
        "importance": pl.DataFrame({"feature": [attack, f"x{attack}"], "gain": [2.0, 1.0], "weight": [1.0, 1.0], "cover": [1.0, 2.0]}),
        "coefficients": pl.DataFrame({"term": [attack], "coefficient": [1.0]}),
    }
    metrics: dict[str, Any] = {
        "checked": {attack: {**RULES["ids"], "rule": attack, "broken": 3}},
        attack: {attack: {attack: 0.5}, "classes": [attack]},
        "model": {"test": {attack: 0.7}, "confusion": {attack: {attack: 3}}},
    }
    record = record_of(title=attack)
    record.warnings, record.error, record.status = [attack], attack, "failed"
    record.plan.job.raw.update({"description": attack, "inputs": {attack: attack}})
    record.cluster[attack] = attack
    html = page_of(tmp_path, outputs, metrics=metrics, record=record)
    page = Page(html)
    assert "img" not in page.tags
    assert attack in page.text


def test_page__has_a_policy_that_lets_its_own_script_run_and_nothing_be_fetched(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"gwas": scan_of()})
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert policy is not None
    assert html.index(policy[0]) < html.index("<title>")
    own = base64.b64encode(hashlib.sha256(Page(html).script.encode()).digest()).decode()
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{own}'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
