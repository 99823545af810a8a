"""variant_sets: small tables, and regenie's own example."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.variant_sets import VariantSets
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, counts_of, plan_stage, run_stage

ANNOTATIONS = pl.DataFrame(
    [("v1", "A", "lof"), ("v2", "A", "missense"), ("v3", "A", "syn"), ("v2", "B", "lof"), ("v9", "B", "missense"), ("v4", "C", "lof")],
    schema=["variant_id", "set_id", "annotation"], orient="row",
)  # fmt: skip
MASKS = pl.DataFrame({"mask": ["M2", "M1", "M3"], "annotations": ["lof, missense", "lof", "unknown"]})
SETS = pl.DataFrame({"set_id": ["A", "B"], "chromosome": ["1", "2"], "base_pair_location": [7, 9], "variant_ids": ["v1,v2,v3,v7", "v2"]})
TABLES = {"annotations": ANNOTATIONS, "masks": MASKS, "sets": SETS}
EXAMPLES = [StageExample(VariantSets(), TABLES), StageExample(VariantSets(), {"annotations": ANNOTATIONS, "masks": MASKS})]


def test_variant_sets__gives_the_masks_of_each_variant_of_a_listed_set() -> None:
    found = run_stage(VariantSets(), TABLES)[""]
    assert found.rows() == [
        ("A", "1", 7, "v1", "lof", "M2,M1"),
        ("A", "1", 7, "v2", "missense", "M2"),
        ("B", "2", 9, "v2", "lof", "M2,M1"),
    ]
    assert_same_for_any_parts(VariantSets(), {**TABLES, "masks": MASKS[:1]}, ["set_id", "variant_id"])


def test_variant_sets__counts_what_it_leaves_out() -> None:
    counts = counts_of(VariantSets(), TABLES)
    expected = {"sets": 2, "not_annotated": 1, "in_no_mask": 1, "masks_of_nothing": 1}
    assert {name: counts[name] for name in expected} == expected


def test_variant_sets__without_a_list_takes_all_that_is_annotated() -> None:
    found = run_stage(VariantSets(), {"annotations": ANNOTATIONS, "masks": MASKS})[""]
    assert found.columns == ["set_id", "variant_id", "annotation", "masks"]
    assert found.rows()[-3:] == [("B", "v2", "lof", "M2,M1"), ("B", "v9", "missense", "M2"), ("C", "v4", "lof", "M2,M1")]


def test_variant_sets__refuses_what_is_named_twice_or_lacks_a_name() -> None:
    for role, key, match in (
        ("annotations", "variant_id", "annotations name variant_id 'v1' with set_id 'A' more than once"),
        ("masks", "mask", "masks name mask 'M2' more than once"),
        ("sets", "set_id", "sets name set_id 'A' more than once"),
    ):
        with pytest.raises(DataError, match=match):
            run_stage(VariantSets(), {**TABLES, role: pl.concat([TABLES[role], TABLES[role][:1]])})
        with pytest.raises(DataError, match=f"rows of {role} lack {key}"):
            run_stage(VariantSets(), {**TABLES, role: TABLES[role].with_columns(pl.lit(None, pl.String).alias(key))})
    with pytest.raises(StageError, match="annotation"):
        plan_stage(VariantSets(), {**TABLES, "annotations": ANNOTATIONS.drop("annotation")})
