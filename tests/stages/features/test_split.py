"""split, and the hash of keys that it shares with sample."""

from __future__ import annotations

import polars as pl
import pytest
from pydantic import ValidationError

from benchmarks.peers.loans_polars import mixed
from pipeline.errors import StageError
from pipeline.stages.features.split import Split
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

EXAMPLES = [
    StageExample(Split(key="id"), {"rows": examples.MIXED}),
    StageExample(Split(key=["key", "n"]), {"rows": examples.MIXED}),
]

WORD = 2**64
Key = int | str | bool | None


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % WORD
    return value


def python_fraction(keys: list[Key], seed: int, start: int = 0) -> float:
    z = (0x9E3779B97F4A7C15 * (seed + 1) + start) % WORD
    for key in keys:
        z = (z + (fnv1a(key) if isinstance(key, str) else int(key or 0))) % WORD
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        z ^= z >> 31
    return (z >> 11) / 2**53


def named(fraction: float, train: float = 0.7, validation: float = 0.85) -> str:
    return "train" if fraction < train else "validation" if fraction < validation else "test"


FRAME = pl.DataFrame(
    {
        "id": [0, 1, -1, 2**63 - 1, -(2**63), 12345, -12345, None],
        "name": ["", "a", "é", "a longer name of a person", None, "foobar", "ab", "ba"],
        "flag": [True, False, None, True, True, False, False, True],
    }
)


def test_python_fnv1a__equals_published_values() -> None:
    """The values that the hash's authors publish for these texts."""
    assert [fnv1a(text) for text in ("", "a", "foobar")] == [0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8]


@pytest.mark.parametrize("key", [["id"], ["name"], ["flag"], ["id", "name"], ["name", "flag", "id"]])
def test_split__equals_the_hash_computed_in_python(key: list[str]) -> None:
    found = assert_same_for_any_parts(Split(key=tuple(key), seed=5), {"rows": FRAME}, ["id"])
    texts = {"name"}
    for row in found.iter_rows(named=True):
        keys = ["" if row[name] is None and name in texts else row[name] for name in key]
        assert row["split"] == named(python_fraction(keys, 5))


def test_split__of_an_integer_equals_the_benchmarks_peer() -> None:
    frame = pl.DataFrame({"loan_id": range(5000)})
    fraction = frame.select(mixed("loan_id", SEED)).to_series().to_list()
    found = run_stage(Split(key=("loan_id",)), {"rows": frame}, 3)[""]
    assert found["split"].to_list() == [named(value) for value in fraction]
    shares = dict(found["split"].value_counts(normalize=True).iter_rows())
    assert shares["train"] == pytest.approx(0.7, abs=0.03)
    assert shares["test"] == pytest.approx(0.15, abs=0.03)


def test_split__does_not_depend_on_the_width_of_an_integer() -> None:
    narrow = FRAME.filter(pl.col("id").is_between(-12345, 12345)).with_columns(pl.col("id").cast(pl.Int16))
    wide = narrow.with_columns(pl.col("id").cast(pl.Int64))
    assert run_stage(Split(key=("id",)), {"rows": narrow})[""]["split"].equals(run_stage(Split(key=("id",)), {"rows": wide})[""]["split"])


def test_split__over_workers_is_the_same(workers: ClusterSession) -> None:
    stage = Split(key=("name", "id"))
    assert run_stage(stage, {"rows": FRAME}, 3, workers)[""].equals(run_stage(stage, {"rows": FRAME})[""])


def test_split__may_leave_splits_empty() -> None:
    found = run_stage(Split(key=("id",), train=0.5, validation=0, test=0.5), {"rows": FRAME})[""]
    assert set(found["split"]) <= {"train", "test"}
    assert set(run_stage(Split(key=("id",), train=1, validation=0, test=0), {"rows": FRAME})[""]["split"]) == {"train"}


def test_split__refuses_what_does_not_fit() -> None:
    with pytest.raises(ValidationError, match=r"sum to 0\.9, and must sum to 1"):
        Split(key=("id",), train=0.6)
    with pytest.raises(StageError, match="column 'split' already"):
        plan_stage(Split(key=("split",)), {"rows": pl.DataFrame({"split": ["a"]})})
    with pytest.raises(StageError, match="'x' is Float64, and a key is"):
        plan_stage(Split(key=("x",)), {"rows": pl.DataFrame({"x": [0.5]})})
