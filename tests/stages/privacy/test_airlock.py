"""airlock."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stage import Context
from pipeline.stages.privacy.airlock import Airlock
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests.kernels.test_suppression import ONE_SMALL

PLACES, ILLS = ("north", "south", None), ("asthma", "gout", "measles")
PEOPLE = pl.DataFrame(
    [(place, ill) for row, place in enumerate(PLACES) for column, ill in enumerate(ILLS) for _ in range(ONE_SMALL[row, column])],
    schema={"place": pl.String, "ill": pl.String},
    orient="row",
).with_columns(sex=pl.Series(["f", "m"] * 90 + ["f"]), person=pl.int_range(181))


def released(**changed: Any) -> Airlock:
    """The stage, of places and ills unless told otherwise."""
    return Airlock.model_validate({"by": "place", "across": "ill", **changed})


EXAMPLES = [
    StageExample(released(), {"rows": PEOPLE}, ordered=True),
    StageExample(released(by=["place", "sex"], across=(), mask_zeros=True), {"rows": PEOPLE}, ordered=True),
]


def test_airlock__counts_masks_and_adds_totals_for_any_parts() -> None:
    found = assert_same_for_any_parts(released(), {"rows": PEOPLE}, ["place", "ill", "kind"])
    assert found.height == 16
    shown = found.filter(~pl.col("masked"))
    exact: dict[tuple[str, str | None, str | None], Any] = {
        ("cell", place, ill): ONE_SMALL[row, column] for row, place in enumerate(PLACES) for column, ill in enumerate(ILLS)
    }
    exact |= {("row total", place, None): ONE_SMALL[row].sum() for row, place in enumerate(PLACES)}
    exact |= {("column total", None, ill): ONE_SMALL[:, column].sum() for column, ill in enumerate(ILLS)}
    exact["total", None, None] = 181
    assert {(kind, place, ill): count for place, ill, kind, count, _ in shown.iter_rows()}.items() <= exact.items()
    assert found.filter("masked")["count"].null_count() == found["masked"].sum() == 4
    assert found.filter("masked")["kind"].unique().to_list() == ["cell"]


def test_airlock__of_one_set_of_columns_has_one_total() -> None:
    rows = PEOPLE.filter(pl.int_range(pl.len()).over("place") < pl.when(pl.col("place") == "north").then(3).otherwise(40))
    found = run_stage(released(across=()), {"rows": rows})[""]
    assert found.rows() == [
        ("north", "cell", None, True),
        ("south", "cell", None, True),
        (None, "cell", 40, False),
        (None, "total", 83, False),
    ]


def test_airlock__tells_what_it_masked_to_the_person_who_looks() -> None:
    session = Session()
    given = Table.of(session, "rows", [Part(PEOPLE)], schema=Schema(PEOPLE.schema))
    outcome = released().run({"rows": given}, Context("released", 1, session))
    assert outcome.counts == {"rows_in": 181, "cells": 16, "masked_small": 1, "masked_beside": 3}
    assert outcome.metrics == {"least": 5, "zeros": "shown", "rows": 181, "cells": 16, "masked_small": 1, "masked_beside": 3}


def test_airlock__of_no_rows_is_a_total_of_none() -> None:
    found = run_stage(released(), {"rows": PEOPLE.clear()})[""]
    assert_frame_equal(found.select("kind", "count"), pl.DataFrame({"kind": ["total"], "count": [0]}))


@pytest.mark.parametrize("by", ["person", ["place", "person"]])
def test_airlock__lets_no_ids_out(by: Any) -> None:
    with pytest.raises(DataError, match="181 of the 181 values of column 'person' have fewer than 5 rows each, as ids have") as error:
        run_stage(released(by=by), {"rows": PEOPLE})
    assert error.value.key == "by"


def test_airlock__refuses_more_cells_than_a_person_can_look_at() -> None:
    rows = pl.DataFrame({"a": list(range(200)) * 5, "b": list(range(200)) * 5})
    with pytest.raises(DataError, match="40,000 cells, and nobody can look at more than 20,000"):
        run_stage(released(by="a", across="b"), {"rows": rows})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"by": "nosuch"}, "no column 'nosuch'"),
        ({"across": "share"}, "'share' is Float64, and a fraction is no key"),
        ({"across": ["ill", "place"]}, "'place' is there twice"),
        ({"by": "kind"}, "a column 'kind' of its own"),
    ],
)
def test_airlock__refuses_at_plan_time(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(StageError, match=message):
        plan_stage(released(**changed), {"rows": PEOPLE.with_columns(share=0.5, kind=1)})
