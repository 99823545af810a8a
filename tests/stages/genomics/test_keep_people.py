"""keep_people: the genotypes of those who stay, as if the others had never been there."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.keep_people import KeepPeople
from pipeline.stages.genomics.sample_qc import SampleQc
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, plan_stage
from tests import example_tables as examples
from tests.stages.genomics.cohorts import Cohort, codes, run, same_for_any_parts, small_cohort

NAMED: Tables = {"genotypes": examples.GENOTYPES, "people": examples.PEOPLE.select("sample_id").gather_every(3)}
EXAMPLES = [StageExample(KeepPeople(leave_out=leave_out), NAMED, examples.AXES) for leave_out in (False, True)]


def listed(*names: str | None) -> pl.DataFrame:
    return pl.DataFrame({"sample_id": names}, schema={"sample_id": pl.String})


@pytest.mark.parametrize("leave_out", [False, True])
def test_keep_people__keeps_their_calls_and_nothing_of_others(leave_out: bool, workers: ClusterSession) -> None:
    cohort = small_cohort()
    names = [*cohort.people["sample_id"].gather_every(4), "nobody", None]
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": cohort, "people": listed(*names, names[0])}
    found = same_for_any_parts(KeepPeople(leave_out=leave_out), data, workers)[""]
    there = cohort.people["sample_id"].is_in(names[:-2]).to_numpy() != leave_out
    assert found.counts == {"people_in": cohort.people.height, "people_out": int(there.sum()), "people_not_there": 1}
    np.testing.assert_array_equal(codes(found.part, int(there.sum())), cohort.codes[:, there])


def test_keep_people__leaves_quality_control_what_a_smaller_file_has() -> None:
    cohort = small_cohort()
    some = np.arange(cohort.people.height) % 3 > 0
    names = cohort.people.filter(pl.Series(some)).select("sample_id")
    kept = run(KeepPeople(), {"genotypes": cohort, "people": names})[""]
    smaller = Cohort(Part(cohort.rows.frame, {"calls": pack(cohort.codes[:, some])}), cohort.people.filter(pl.Series(some)))
    measured, expected = (
        run(SampleQc(), {"genotypes": genotypes})["measured"].frame for genotypes in (Cohort(kept.part, kept.axes["calls"]), smaller)
    )
    assert_frame_equal(measured, expected)


def test_keep_people__refuses_to_leave_nobody_and_a_table_without_ids() -> None:
    cohort = small_cohort()
    with pytest.raises(
        DataError, match=r"nobody stays of \d+ people: the table names none of them .* with 'x'\). Are the ids written alike"
    ):
        run(KeepPeople(), {"genotypes": cohort, "people": listed("x")})
    with pytest.raises(DataError, match="the table names all of them"):
        run(KeepPeople(leave_out=True), {"genotypes": cohort, "people": cohort.people.select("sample_id")})
    with pytest.raises(DataError, match="with 'nobody'"):
        run(KeepPeople(), {"genotypes": cohort, "people": listed()})
    tables: dict[str, Any] = {"genotypes": cohort.rows, "people": pl.DataFrame({"iid": ["p1"]})}
    with pytest.raises(StageError, match="sample_id"):
        plan_stage(KeepPeople(), tables, {"calls": cohort.people})


def test_keep_people__takes_dosages_too() -> None:
    cohort = small_cohort()
    dosages = np.where(cohort.codes == 3, np.nan, cohort.codes).astype(np.float32)
    given: Tables = {"genotypes": Part(cohort.rows.frame, {"alt_dosages": dosages}), "people": cohort.people.select("sample_id")[5:9]}
    found = StageExample(KeepPeople(), given, {"alt_dosages": cohort.people}).run(Session(), 2)[""]
    np.testing.assert_array_equal(found.arrays["alt_dosages"], dosages[:, 5:9])
