"""site_sums: exact sums under masks, and secrets that show nowhere."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline
from pipeline.errors import DataError, JobError, StageError
from pipeline.plan.fingerprints import digest, fields_of
from pipeline.stage import Context
from pipeline.stages.models._pooled.masks import MODULUS, unmasked
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage
from tests.small import inside
from tests.stages.models.federation import SECRETS, SITES, Watching, assert_keeps_secrets, complete, leaving, shared, site_rows, stage_of

EXAMPLES = [StageExample(stage_of("oslo"), {"rows": site_rows("oslo")}, ordered=True)]
NAMES = ("year", "small", "count", "flag", "y")


def exact(rows: pl.DataFrame) -> list[Fraction]:
    """The sums of products of [1, columns] as fractions, the upper triangle row by row."""
    columns = [[Fraction(1)] * rows.height, *([Fraction(value) for value in rows[name]] for name in NAMES)]
    pairs = [(left, right) for at, left in enumerate(columns) for right in columns[at:]]
    return [sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0)) for left, right in pairs]


def test_site_sums__add_up_to_the_exact_sums_of_all_rows() -> None:
    tables = [leaving(site) for site in SITES]
    found = [Fraction(unmasked(texts), 4**96) for texts in zip(*(table["masked"] for table in tables), strict=True)]
    assert found == exact(complete())


def test_site_sums__are_the_same_to_the_last_digit_for_any_parts() -> None:
    assert_same_for_any_parts(stage_of("rome"), {"rows": site_rows("rome")}, ["first", "second"])


def test_site_sums__of_one_site_or_two_look_like_random_digits() -> None:
    tables = [leaving(site)["masked"] for site in SITES]
    own = [int(value * 4**96) % MODULUS for value in exact(site_rows("berlin").fill_nan(None).drop_nulls())]
    assert not {int(text, 16) for text in tables[0]} & set(own)
    two = [(int(a, 16) + int(b, 16)) % MODULUS for a, b in zip(tables[0], tables[1], strict=True)]
    for numbers in ([int(text, 16) for text in tables[0]], [int(text, 16) for text in tables[1]], two):
        bits = sum(number.bit_count() for number in numbers)
        size = 512 * len(numbers)
        assert abs(bits - size / 2) < 4 * (size / 4) ** 0.5
        assert len(set(numbers)) == len(numbers)
        bytes_seen = {byte for number in numbers for byte in number.to_bytes(64)}
        assert len(bytes_seen) > 240


def test_site_sums__have_other_masks_for_another_study() -> None:
    first, second = (leaving("oslo", study=study)["masked"] for study in ("one", "two"))
    assert not set(first) & set(second)


def test_site_sums__counts_rows_and_those_left_out() -> None:
    rows = site_rows("oslo")
    table = Table.of(Session(), "rows", [Part(rows)], schema=Schema(rows.schema))
    counts = stage_of("oslo").run({"rows": table}, Context("sums", 1, Session())).counts
    whole = rows.fill_nan(None).drop_nulls().height
    assert counts == {"rows_used": whole, "rows_left_out": 120 - whole}


def test_site_sums__refuses_a_small_site() -> None:
    with pytest.raises(DataError, match=r"site 'rome' has 12 rows without a missing value \(2 with one\), and least is 20.*leave the site"):
        leaving("rome", site_rows("rome", 14))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1e-60, r"column 'year' has a value that is no multiple of 2\^-96.*raise digits"),
        (2.0**64, r"column 'year' has a value of 2\^64 or more.*Divide the column"),
        (float("inf"), r"column 'year' has a value of 2\^64 or more, or an infinite one.*null"),
    ],
)
def test_site_sums__refuses_what_the_fixed_point_cannot_hold(value: float, message: str) -> None:
    rows = site_rows("oslo").with_columns(year=pl.when(pl.int_range(120) == 7).then(value).otherwise("year"))
    with pytest.raises(DataError, match=message):
        leaving("oslo", rows)


def test_site_sums__refuses_whole_numbers_beyond_64_bits() -> None:
    rows = site_rows("oslo").with_columns(count=pl.lit(2**70, pl.Int128))
    with pytest.raises(DataError, match=r"column 'count' has a value of 2\^64 or more"):
        leaving("oslo", rows)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"site": "paris"}, "'paris' is not among the sites berlin, oslo, rome"),
        ({"sites": ("oslo", "rome", "rome")}, "each once"),
        ({"secrets": {"rome": "x" * 40}}, "no secret shared with site 'berlin'"),
        ({"secrets": {**shared("oslo"), "paris": "y" * 40}}, "'paris' is no other site of the study. The others: berlin, rome"),
        ({"secrets": {**shared("oslo"), "rome": "quick brown"}}, "it has 11 characters and could be guessed; at least 32"),
        ({"secrets": dict.fromkeys(("berlin", "rome"), "x" * 40)}, "two sites have the same secret"),
        ({"features": ("year", "y")}, "'y' is the target"),
        ({"features": ("year", "year")}, "there twice"),
        ({"features": ("town",)}, "'town' is String, and numbers are needed"),
        ({"target": "price"}, r"'price' is Decimal.*Cast it"),
        ({"target": "nosuch"}, "no column 'nosuch'"),
    ],
)
def test_site_sums__refuses_at_plan_time_and_tells_no_secret(more: dict[str, Any], message: str) -> None:
    rows = site_rows("oslo").with_columns(town=pl.lit("x"), price=pl.lit(1).cast(pl.Decimal(10, 2)))
    with pytest.raises(StageError, match=message) as error:
        plan_stage(stage_of("oslo", **more), {"rows": rows})
    assert not any(secret in str(error.value) for secret in (*SECRETS.values(), "quick brown", "x" * 40, "y" * 40))


def test_site_sums__keeps_its_secrets_out_of_texts_and_fingerprints() -> None:
    stage, other = stage_of("oslo"), stage_of("oslo", secrets=dict(zip(("berlin", "rome"), ("v" * 40, "w" * 40), strict=True)))
    assert not any(secret in f"{stage!r} {stage} {stage.model_dump()} {stage.model_dump_json()}" for secret in SECRETS.values())
    assert digest(fields_of(stage)) == digest(fields_of(other))


def test_site_sums__gives_no_task_a_secret() -> None:
    session = Watching()
    rows = Table.of(session, "rows", [Part(site_rows("oslo"))], schema=Schema(site_rows("oslo").schema))
    assert_keeps_secrets(stage_of("oslo"), {"rows": rows}, session)


JOB = """\
job: site
results: results
inputs: {{rows: {{format: parquet, path: rows.parquet}}}}
stages:
  - {{use: site_sums, from: rows, as: sums, site: oslo, sites: [berlin, oslo, rome], target: y, features: [year], study: one, {more}
     secrets: {{berlin: "${{BERLIN_SECRET}}", rome: "{rome}"}}}}
outputs: {{sums: {{from: sums}}}}
"""


@pytest.mark.parametrize("more", ["", "least: 1000,"])
def test_site_sums__leaves_no_secret_in_any_file_of_a_run(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    secrets = ["of berlin, " + "b" * 30, "of rome, " + "r" * 30]
    monkeypatch.setenv("BERLIN_SECRET", secrets[0])
    site_rows("oslo").write_parquet(tmp_path / "rows.parquet")
    told = ""
    with inside(tmp_path):
        (tmp_path / "job.yaml").write_text(JOB.format(more=more, rome=secrets[1]))
        job = pipeline.load("job.yaml")
        told += repr(job)
        if more:
            with pytest.raises(DataError, match="least is 1000") as error:
                job.run()
            told += f"{error.value!r} {error.value}"
        else:
            job.run()
    files = [path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()]
    told += "".join(capfd.readouterr()) + caplog.text
    assert any(b"BERLIN_SECRET" in content for content in files)
    for secret in secrets:
        assert secret not in told
        assert not any(secret.encode() in content for content in files)


def test_site_sums__tells_no_secret_of_a_wrong_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERLIN_SECRET", "b" * 40)
    text = JOB.format(more="", rome="x").replace('"x"', "[hush hush]")
    (tmp_path / "job.yaml").write_text(text)
    with inside(tmp_path), pytest.raises(JobError, match=r"secrets.*found \*\*\*") as error:
        pipeline.load("job.yaml")
    assert "hush" not in str(error.value)
    assert "bbbb" not in str(error.value)
