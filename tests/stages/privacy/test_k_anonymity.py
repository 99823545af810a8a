"""k_anonymity."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stage import Context
from pipeline.stages.privacy.k_anonymity import KAnonymity
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

# The table of Sweeney 2002, figure 2 (k = 2, quasi-identifiers race, birth, gender and zip), with its last row left out and one added.
PEOPLE = pl.DataFrame(
    {
        "race": ["black"] * 6 + ["white"] * 5,
        "birth": [1965, 1965, 1965, 1965, 1964, 1964, 1964, 1964, 1967, 1967, None],
        "gender": ["m", "m", "f", "f", "f", "f", "m", "m", "m", "m", "m"],
        "zip": ["0214*"] * 2 + ["0213*"] * 8 + ["0213*"],
        "problem": [
            *("short breath", "chest pain", "hypertension", "hypertension", "obesity", "chest pain"),
            *("chest pain", "obesity", "short breath", None, "obesity"),
        ],
    }
)
QUASI = ("race", "birth", "gender", "zip")
WHOLE = PEOPLE.head(10)


def anonymous(**changed: Any) -> KAnonymity:
    """The stage with Sweeney's k."""
    return KAnonymity.model_validate({"quasi_identifiers": QUASI, "k": 2, **changed})


EXAMPLES = [
    StageExample(anonymous(action="warn", sensitive="problem"), {"rows": PEOPLE}),
    StageExample(anonymous(), {"rows": WHOLE}, ordered=True),
    StageExample(anonymous(quasi_identifiers=["gender"], action="warn", k=6), {"rows": PEOPLE}),
]


def concluded(stage: KAnonymity, rows: pl.DataFrame) -> tuple[Any, Any, Any]:
    """Metrics, counts and warnings."""
    session = Session()
    given = Table.of(session, "rows", [Part(rows)], schema=Schema(rows.schema))
    outcome = stage.run({"rows": given}, Context("checked", 1, session))
    return outcome.metrics, outcome.counts, outcome.warnings


def test_k_anonymity__holds_for_the_published_table_and_leaves_it_as_it_is() -> None:
    found = run_stage(anonymous(), {"rows": WHOLE}, parts=3)
    assert_frame_equal(found[""], WHOLE)
    assert found["below"].height == 0
    assert concluded(anonymous(), WHOLE) == (
        {"rows": 10, "groups": 5, "k": 2, "groups_below_k": 0, "rows_below": 0},
        {"rows_in": 10, "rows_below": 0},
        [],
    )


def test_k_anonymity__tells_the_groups_that_are_small_and_those_that_are_alike() -> None:
    stage = anonymous(action="warn", sensitive="problem")
    assert_same_for_any_parts(stage, {"rows": PEOPLE}, [*QUASI, "problem"])
    below = run_stage(stage, {"rows": PEOPLE}, parts=2)["below"].sort("rows", "race")
    assert below.select("race", "birth", "rows", "distinct_problem").rows() == [
        ("white", None, 1, 1),
        ("black", 1965, 2, 1),
        ("white", 1967, 2, 1),
    ]
    metrics, counts, (warning,) = concluded(stage, PEOPLE)
    assert metrics["k"] == 1
    assert metrics["l"] == {"problem": 1}
    assert counts == {"rows_in": 11, "rows_below": 5}
    assert "1 of 6 groups have fewer than 2 rows, the smallest 1; 2 groups of 2 rows or more have fewer than 2 values of problem" in warning


@pytest.mark.parametrize(("changed", "key"), [({}, "k"), ({"k": 3}, "k")])
def test_k_anonymity__fails_the_run_and_says_nothing_of_a_person(changed: dict[str, Any], key: str) -> None:
    with pytest.raises(DataError, match=r"people can be told apart by race, birth, gender, zip: .* have fewer than") as error:
        run_stage(anonymous(**changed), {"rows": PEOPLE})
    assert error.value.key == key
    assert not any(str(value) in str(error.value) for value in ("black", "white", "1965", "0213*", "obesity"))


def test_k_anonymity__of_no_rows_holds() -> None:
    metrics, _, warnings = concluded(anonymous(sensitive="problem"), PEOPLE.clear())
    assert (metrics["k"], metrics["groups"], warnings) == (None, 0, [])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"quasi_identifiers": ["nosuch"]}, "no column 'nosuch'"),
        ({"quasi_identifiers": ["share"]}, "'share' is Float64, and a fraction is no key"),
        ({"sensitive": ["zip"]}, "'zip' is a quasi-identifier, too"),
        ({"quasi_identifiers": ["rows"]}, "'rows' is what the groups' column of counts is called"),
    ],
)
def test_k_anonymity__refuses_at_plan_time(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(StageError, match=message):
        plan_stage(anonymous(**changed), {"rows": PEOPLE.with_columns(share=0.5, rows=1)})
