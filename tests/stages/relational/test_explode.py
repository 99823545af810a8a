"""explode."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.backend.engines import UntranslatableError
from pipeline.errors import RunError, StageError
from pipeline.stages.relational.explode import Explode
from pipeline.testing.examples import StageExample, Translating
from pipeline.testing.stages import counts_of, plan_stage, run_stage

LISTS = pl.DataFrame({"id": [1, 2, 3, 4], "x": [[1, None], [], None, [4]], "y": [["a", "b"], [], None, ["d"]]})
EXAMPLES = [StageExample(Explode(columns=("x",)), {"rows": LISTS}, ordered=True)]


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_explode__gives_a_row_a_value(parts: int) -> None:
    kept = run_stage(Explode(columns=("x", "y")), {"rows": LISTS}, parts)[""]
    assert kept.rows() == [(1, 1, "a"), (1, None, "b"), (2, None, None), (3, None, None), (4, 4, "d")]
    dropped = run_stage(Explode(columns=("x",), empty="drop"), {"rows": LISTS}, parts)[""]
    assert dropped.select("id", "x").rows() == [(1, 1), (1, None), (4, 4)]


def test_explode__makes_nan_and_infinities_null_and_counts_them() -> None:
    lists = pl.DataFrame({"x": [[1.0, float("inf")], [float("nan")]]})
    assert run_stage(Explode(columns=("x",)), {"rows": lists})[""]["x"].to_list() == [1.0, None, None]
    assert counts_of(Explode(columns=("x",)), {"rows": lists}) == {"infinities": 2}


def test_explode__refuses_what_is_no_list_and_lists_of_other_lengths() -> None:
    with pytest.raises(StageError, match="'id' is Int64, and no list"):
        plan_stage(Explode(columns=("id",)), {"rows": LISTS})
    with pytest.raises(RunError, match="matching element counts"):
        run_stage(Explode(columns=("x", "y")), {"rows": LISTS.with_columns(y=pl.lit(["a"]))})


@pytest.mark.contract
@pytest.mark.parametrize("stage", [Explode(columns=("x",), empty="drop"), Explode(columns=("x", "y"))])
def test_explode__that_drops_or_of_several_is_refused_for_a_gpu(stage: Explode) -> None:
    with pytest.raises(UntranslatableError, match="cuDF cannot run this stage's query"):
        run_stage(stage, {"rows": LISTS}, 1, Translating())
