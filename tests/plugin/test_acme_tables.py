"""The stage and the format of this package, tested with what gpu-table-pipeline gives to authors."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from acme_tables.clamp import Clamp
from acme_tables.tsv import TsvInput, TsvOutput

from pipeline.errors import StageError
from pipeline.testing.examples import StageExample, check_documented, check_parts, check_translation
from pipeline.testing.formats import assert_round_trip
from pipeline.testing.stages import plan_stage, run_stage

FRAME = pl.DataFrame({"id": [1, 2, 3, 4], "age": [-3.0, 40.5, None, 999.0], "name": ["a", None, "c", "d"]})
EXAMPLE = StageExample(Clamp(columns=["age"], low=0, high=120), {"rows": FRAME})


def test_clamp__brings_numbers_into_the_range() -> None:
    assert run_stage(EXAMPLE.stage, EXAMPLE.tables)[""]["age"].to_list() == [0.0, 40.5, None, 120.0]


def test_clamp__is_the_same_for_any_parts() -> None:
    check_parts(EXAMPLE)


def test_clamp__is_one_that_cudf_takes() -> None:
    check_translation(EXAMPLE)


def test_clamp__makes_what_its_docstring_shows() -> None:
    assert check_documented(Clamp) == Clamp(columns=["age"], low=0, high=120)


def test_clamp__refuses_text() -> None:
    with pytest.raises(StageError, match="'name' is String, and numbers are needed"):
        plan_stage(Clamp(columns=["name"]), {"rows": FRAME})


def test_tsv__comes_back_as_it_was(tmp_path: Path) -> None:
    assert_round_trip(TsvOutput(), TsvInput, FRAME, tmp_path, columns={"id": "int64", "age": "float64"})
