"""hash_bucket."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.features.hash_bucket import OWN_START, HashBucket
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.stages.features.learned import FRAME

MASK = 2**64 - 1
CROSS = HashBucket(columns={"a": ("city",), "b": ("city", "i", "flag"), "c": ("i",)}, buckets=50)
EXAMPLES = [StageExample(HashBucket(columns={"a": ("key",), "b": ("n", "key", "flag")}, buckets=7), {"rows": examples.MIXED}, ordered=True)]


def bucket(values: tuple[object, ...], buckets: int) -> int | None:
    """The documented hash in plain Python: FNV-1a of texts, splitmix64 of each word added to the mix of those before."""
    if None in values:
        return None
    z = (0x9E3779B97F4A7C15 + OWN_START) & MASK
    for value in values:
        if isinstance(value, str):
            word = 0xCBF29CE484222325
            for byte in value.encode():
                word = ((word ^ byte) * 0x100000001B3) & MASK
        else:
            assert isinstance(value, int)
            word = value & MASK
        z = (z + word) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
    return z % buckets


def test_hash_bucket__is_the_documented_hash_for_any_parts() -> None:
    found = assert_same_for_any_parts(CROSS, {"rows": FRAME}, ["id"])
    for name, keys in CROSS.columns.items():
        assert found[name].to_list() == [bucket(row, 50) for row in FRAME.select(keys).iter_rows()]


def test_hash_bucket__is_the_same_in_every_version() -> None:
    frame = pl.DataFrame({"s": ["a", "Zürich", "", None], "n": [1, -1, 0, 5]})
    found = run_stage(HashBucket(columns={"a": ("s",), "b": ("s", "n")}, buckets=1000), {"rows": frame})[""]
    assert found.select("a", "b").rows() == [tuple(bucket(row[:size], 1000) for size in (1, 2)) for row in frame.iter_rows()]


def test_hash_bucket__another_seed_gives_other_buckets() -> None:
    other = CROSS.model_copy(update={"seed": 1})
    assert not run_stage(CROSS, {"rows": FRAME})[""]["a"].equals(run_stage(other, {"rows": FRAME})[""]["a"])


def test_hash_bucket__refuses_floats_and_names_that_are_taken() -> None:
    with pytest.raises(StageError, match=r"columns\.a: .*'x' is Float64"):
        plan_stage(HashBucket(columns={"a": ("x",)}, buckets=2), {"rows": FRAME})
    with pytest.raises(StageError, match="a column 'city' already"):
        plan_stage(HashBucket(columns={"city": ("i",)}, buckets=2), {"rows": FRAME})
