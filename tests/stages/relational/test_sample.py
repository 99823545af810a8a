"""sample, and the fraction of a key that split uses too."""

from __future__ import annotations

import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stages.features.split import Split
from pipeline.stages.relational.sample import OWN_START, Sample
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.stages.features.test_split import python_fraction

EXAMPLES = [
    StageExample(Sample(fraction=0.5, key=["id", "n"]), {"rows": examples.MIXED}),
    StageExample(Sample(fraction=0.5, key=["key", "flag"]), {"rows": examples.MIXED}),
]

FRAME = pl.DataFrame({"id": range(-2000, 2000), "name": [f"p{i % 700}" for i in range(4000)]})


def test_sample__keeps_the_rows_that_python_computes() -> None:
    found = run_stage(Sample(fraction=0.25, key=("id",), seed=11), {"rows": FRAME})[""]
    assert found["id"].to_list() == [i for i in range(-2000, 2000) if python_fraction([i], 11, OWN_START) < 0.25]
    assert 900 < found.height < 1100


def test_sample__keeps_all_rows_of_a_key_or_none() -> None:
    found = run_stage(Sample(fraction=0.3, key=("name",)), {"rows": FRAME}, 3)[""]
    assert 0 < found.height < 4000
    kept = set(found["name"])
    assert found.height == FRAME.filter(pl.col("name").is_in(list(kept))).height


def test_sample__is_the_same_for_any_parts() -> None:
    assert_same_for_any_parts(Sample(fraction=0.3, key=("name", "id")), {"rows": FRAME[:300]}, ["id"])


def test_sample__takes_the_seed_of_the_job_and_all_or_nothing() -> None:
    own = run_stage(Sample(fraction=0.5, key=("id",), seed=SEED), {"rows": FRAME})[""]
    assert run_stage(Sample(fraction=0.5, key=("id",)), {"rows": FRAME})[""].equals(own)
    assert not run_stage(Sample(fraction=0.5, key=("id",), seed=SEED + 1), {"rows": FRAME})[""].equals(own)
    assert run_stage(Sample(fraction=1, key=("id",)), {"rows": FRAME})[""].height == 4000
    assert run_stage(Sample(fraction=0, key=("id",)), {"rows": FRAME})[""].height == 0


def test_sample__leaves_a_later_split_of_the_same_seed_its_shares() -> None:
    sampled = run_stage(Sample(fraction=0.5, key=("id",)), {"rows": FRAME})[""]
    split = run_stage(Split(key=("id",)), {"rows": sampled})[""]
    assert 0.1 < split.filter(pl.col("split") == "test").height / split.height < 0.2


def test_sample__refuses_at_plan_time() -> None:
    with pytest.raises(StageError, match="a key is text, an integer or a boolean"):
        plan_stage(Sample(fraction=0.5, key=("x",)), {"rows": pl.DataFrame({"x": [0.5]})})
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        Sample(fraction=1.5, key=("id",))
