"""pseudonymise."""

from __future__ import annotations

import hashlib
from typing import Any

import polars as pl
import pytest

import pipeline
from pipeline.errors import PipelineError, StageError
from pipeline.plan.fingerprints import digest, fields_of
from pipeline.stages.privacy.pseudonymise import Pseudonymise
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

SECRET = "5f0c6a1be2d94873" * 2
ROWS = pl.DataFrame(
    {
        "row": range(6),
        "person": ["Ann", "Zoë", None, "Ann", "", "17"],
        "doctor": pl.Series([17, None, -3, 2**40, 17, 0], dtype=pl.Int64),
        "small": pl.Series([17, 1, 2, None, 0, 255], dtype=pl.UInt8),
    }
)


def coded(**changed: Any) -> Pseudonymise:
    """The stage, of two columns unless told otherwise."""
    return Pseudonymise.model_validate({"columns": ["person", "doctor"], "secret": SECRET, **changed})


EXAMPLES = [StageExample(coded(columns=["person", "doctor", "small"]), {"rows": ROWS}, ordered=True)]


def by_definition(value: str, key: bytes) -> str:
    """HMAC-SHA-256 as RFC 2104 writes it."""
    block = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in block) for pad in (0x36, 0x5C))
    return hashlib.sha256(outer + hashlib.sha256(inner + value.encode()).digest()).hexdigest()


@pytest.mark.parametrize("secret", [SECRET, "ein langer Schlüssel; " * 4])
def test_pseudonymise__is_hmac_sha_256_for_any_parts_and_a_missing_id_stays_missing(secret: str) -> None:
    found = assert_same_for_any_parts(coded(secret=secret), {"rows": ROWS}, ["row"])
    for name in ("person", "doctor"):
        wanted = [None if value is None else by_definition(str(value), secret.encode())[:32] for value in ROWS[name]]
        assert found[name].to_list() == wanted
    assert found["small"].equals(ROWS["small"])


def test_pseudonymise__is_the_same_in_every_version() -> None:
    found = run_stage(coded(digits=24), {"rows": ROWS})[""]
    assert found["person"][0] == "0364178babb65348ce93085f"


def test_pseudonymise__gives_a_number_and_its_text_one_pseudonym() -> None:
    found = run_stage(coded(columns=["person", "doctor", "small"]), {"rows": ROWS})[""]
    assert found["person"][5] == found["doctor"][0] == found["small"][0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"secret": "x" * 31}, "it has 31 characters of 1 kinds and could be guessed; at least 32 of 8 kinds"),
        ({"secret": "abcdefg" * 9}, "it has 63 characters of 7 kinds"),
        ({"secret": ""}, "it has 0 characters"),
        ({"columns": ["nosuch"]}, "no column 'nosuch'"),
        ({"columns": ["share"]}, "'share' is Float64, and an id is text or a whole number"),
    ],
)
def test_pseudonymise__refuses_at_plan_time_and_tells_no_secret(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(StageError, match=message) as error:
        plan_stage(coded(**changed), {"rows": ROWS.with_columns(share=0.5)})
    secret = changed.get("secret", SECRET)
    assert not secret or secret not in str(error.value)


def test_pseudonymise__refuses_fewer_digits_than_keep_people_apart() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 24"):
        coded(digits=16)


def test_pseudonymise__has_a_fingerprint_that_changes_with_the_secret_and_does_not_tell_it() -> None:
    stage, other = coded(), coded(secret=SECRET[::-1])
    assert digest(fields_of(stage)) == digest(fields_of(coded())) != digest(fields_of(other))
    told = f"{stage!r} {stage} {stage.model_dump()} {stage.model_dump_json()} {stage.secret!r}"
    assert SECRET not in told
    assert by_definition("", SECRET.encode())[:16] not in told  # nor what a table's value is replaced by


def test_pseudonymise__needs_the_variable_that_the_job_names(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLINIC_SECRET", raising=False)
    ROWS.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text(f"""\
job: coded
inputs: {{rows: {{format: parquet, path: {tmp_path}/rows.parquet}}}}
stages:
  - {{use: pseudonymise, from: rows, as: coded, columns: person, secret: "${{CLINIC_SECRET}}"}}
outputs: {{coded: {{from: coded}}}}
""")
    with pytest.raises(PipelineError, match="the environment variable CLINIC_SECRET is not set"):
        pipeline.load(tmp_path / "job.yaml")
