"""federated_start: how features are standardized, by exact sums, and what it refuses."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.models.federated_start import FederatedStart
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests.stages.models.federation import SITES, complete, leaving

ALL = pl.concat([leaving(site) for site in SITES])
START: dict[str, Any] = {"key": "id", "objective": "regression"}
EXAMPLES = [StageExample(FederatedStart.model_validate({**START, "layers": (3,)}), {"rows": ALL}, ordered=True, needs="jax")]


def started(**more: Any) -> pl.DataFrame:
    """What the stage gives."""
    return run_stage(FederatedStart.model_validate({**START, **more}), {"rows": ALL}, 2)[""]


def test_federated_start__standardizes_by_the_rows_of_all_sites() -> None:
    rows = complete().select("year", "small", "count", "flag", "y").cast(pl.Float64)
    values = rows.to_numpy()
    expected = pl.DataFrame({"column": rows.columns, "mean": values.mean(axis=0), "scale": values.std(axis=0)})
    assert_frame_equal(started(), expected, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"objective": "multiclass"}, "the values of a multi-class target"),
        ({"objective": "binary", "classes": (1, 2, 3)}, "and of no other"),
        ({"categorical": {"region": 0}}, "'region' cannot have 0 codes"),
    ],
)
def test_federated_start__refuses_at_plan_time(more: dict[str, Any], message: str) -> None:
    with pytest.raises(StageError, match=message):
        plan_stage(FederatedStart.model_validate({**START, **more}), {"rows": ALL})


def test_federated_start__refuses_other_tables_at_plan_time() -> None:
    with pytest.raises(StageError, match="column 'digits' is String, and Int64"):
        plan_stage(EXAMPLES[0].stage, {"rows": ALL.cast({"digits": pl.String})})


def test_federated_start__refuses_a_category_that_is_in_the_sums() -> None:
    with pytest.raises(DataError, match="the sums are of 'count' too, a category's codes"):
        started(categorical={"count": 9})
