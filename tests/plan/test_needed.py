"""Columns that nobody reads are left out before joins and where tables are held, and nothing else becomes another for it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import JobError, RunError
from pipeline.plan.needed import needed
from pipeline.running.narrowing import Narrowing
from pipeline.running.resuming import Resumption
from pipeline.stages.relational._part_join import PartJoin
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.part import Part

ROWS = 60
TABLES = {
    "a": pl.DataFrame({"k": [i % 7 for i in range(ROWS)], "x": [i * 0.5 for i in range(ROWS)], "t": [f"t{i % 5}" for i in range(ROWS)]}),
    "b": pl.DataFrame({"k": [i % 9 for i in range(40)], "x": list(range(40)), "d": [date(2026, 1, 1 + i % 28) for i in range(40)]}),
}


def run(stages: list[dict[str, Any]], outputs: Mapping[str, Any], **more: Any) -> dict[str, pl.DataFrame]:
    """What a job of these stages gives, of inputs in three parts each."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, frame in TABLES.items():
            frame.write_csv(folder / f"{name}.csv")
        inputs = {name: {"format": "csv", "path": str(folder / f"{name}.csv"), "parts": 3} for name in TABLES}
        job = {"job": "narrow", "results": str(folder / "results"), "inputs": inputs, "stages": stages, "outputs": outputs, **more}
        (folder / "job.json").write_text(json.dumps(job))
        done = pipeline.load(str(folder / "job.json")).run()
        return {name: done.table(name).to_polars() for name in outputs}


def widths(stages: list[dict[str, Any]], outputs: Mapping[str, Any], **more: Any) -> list[tuple[list[str], list[str]]]:
    """The columns of both sides of every join that a job runs."""
    seen = list[tuple[list[str], list[str]]]()
    called = PartJoin.__call__

    def join(self: PartJoin, first: Part, second: Part) -> Part:
        if first.frame.height:  # and no plan
            seen.append((first.frame.columns, second.frame.columns))
        return called(self, first, second)

    with patch.object(PartJoin, "__call__", join):
        run(stages, outputs, **more)
    return seen


JOINED: list[dict[str, Any]] = [
    {"use": "join", "from": {"left": "a", "right": "b"}, "as": "both", "on": "k"},
    {"use": "aggregate", "from": "both", "as": "total", "by": "k", "compute": {"s": "sum(x_right)"}},
]


def test_a_join__is_given_what_is_read_of_it_and_what_names_are_told_apart_by() -> None:
    assert widths(JOINED, {"total": {"from": "total"}}) == [(["k", "x"], ["k", "x_right"])]
    assert widths(JOINED[:1], {"both": {"from": "both", "columns": ["d"]}}) == [(["k"], ["k", "d"])]


def test_a_table_that_is_written_or_whose_checkpoint_is_asked_for__is_whole() -> None:
    every = [(["k", "x", "t"], ["k", "x_right", "d"])]
    assert widths(JOINED, {"total": {"from": "total"}, "both": {"from": "both"}}) == every
    kept = [{**JOINED[0], "checkpoint": True}, JOINED[1]]
    assert widths(kept, {"total": {"from": "total"}}) == every
    assert widths(JOINED, {"total": {"from": "total"}}, counts="all") == every


def test_a_stage_that_says_too_little__fails_by_the_column() -> None:
    with patch.object(Aggregate, "needs", return_value={"rows": ["k"]}), pytest.raises(RunError, match="x_right"):
        run(JOINED, {"total": {"from": "total"}})


def whole(self: Narrowing, resumed: Resumption, *_: Any) -> None:
    """In place of `Narrowing.__init__`: all tables stay whole."""
    initialized(self, resumed, lambda *_: True)
    self.needed = needed(self.plan, resumed.runs, resumed.meanings.plan.job.outputs, self.plan.tables)


initialized = Narrowing.__init__


def stages_on(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """A stage on tables that have columns k and x, as all of these have, and whatever else."""
    table = st.sampled_from(names)
    return st.one_of(
        st.builds(lambda t: {"use": "filter", "from": t, "where": "x > 3 and k <> 2"}, table),
        st.builds(
            lambda t, n: {"use": "derive", "from": t, "columns": {n: "x * 2", "z": f"{n} + k", "x": "x + 1"}}, table, st.sampled_from("yz")
        ),
        st.builds(lambda t: {"use": "sort", "from": t, "by": ["-x", "k"], "limit": 20}, table),
        st.builds(lambda t: {"use": "aggregate", "from": t, "by": "k", "compute": {"x": "sum(x)", "n": "size()"}}, table),
        st.builds(lambda t: {"use": "window", "from": t, "by": "k", "order": "x", "compute": {"w": "row_number()"}}, table),
        st.builds(
            lambda left, right, how: {"use": "join", "from": {"left": left, "right": right}, "on": "k", "how": how, "suffix": f"_{right}"},
            table,
            table,
            st.sampled_from(["inner", "left", "semi", "anti", "right", "full"]),
        ),
    )


@st.composite
def plans(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some stages in a row, each on inputs or stages before."""
    names, stages = list(TABLES), list[dict[str, Any]]()
    for number in range(draw(st.integers(2, 5))):
        stages.append({**draw(stages_on(names)), "as": f"s{number}"})
        names.append(f"s{number}")
    return stages


@settings(max_examples=15, deadline=None)
@given(plans(), st.booleans())
def test_plans__give_the_same_whole_tables_and_columns_without_it(stages: list[dict[str, Any]], few: bool) -> None:
    outputs = {"last": {"from": stages[-1]["as"], **({"columns": ["x", "k"]} if few else {})}, "first": {"from": stages[0]["as"]}}
    outputs = outputs if len(stages) % 2 else {"last": outputs["last"]}
    try:
        found = run(stages, outputs)
    except JobError:  # two columns of one name, say
        reject()
    with patch.object(Narrowing, "__init__", whole):
        expected = run(stages, outputs)
    for name, frame in expected.items():
        assert_frame_equal(found[name], frame)
