"""benchmarks/tables.py: what is said of two programs' tables, and which of a shipped job is timed."""

from __future__ import annotations

import polars as pl
import pytest
from ruamel.yaml import YAML

from benchmarks.same_tables import unlike
from benchmarks.shortened import job_of
from benchmarks.table_works import WORKS
from tests.small import ROOT

TABLE = pl.DataFrame({"k": ["a", "b", None], "n": [1, 2, 3], "x": [0.5, float("nan"), 1e12]})


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (TABLE, ""),
        (TABLE.reverse().select("x", "k", "n"), ""),
        (TABLE.with_columns(pl.col("n").cast(pl.Float64), pl.col("x").fill_nan(None) + 1e-10), ""),
        (TABLE.with_columns(pl.col("x") + 1e-8), "1 of 3 cells of x differ"),
        (TABLE.with_columns(pl.col("k").fill_null("c")), "1 of 3 cells of k differ"),
        (TABLE.with_columns(pl.col("n").cast(pl.String)), "n is Int64, theirs String"),
        (TABLE.head(2), "3 rows, theirs has 2"),
        (TABLE.with_columns(more=1), "ours has no more"),
    ],
)
def test_unlike__says_what_differs_but_for_order_and_widths(theirs: pl.DataFrame, said: str) -> None:
    assert unlike(TABLE, theirs, 1e-9) == said


def test_a_shortened_job__has_what_its_outputs_want() -> None:
    job = YAML(typ="safe").load(job_of("jobs/loans.yaml", ("features",)))
    names = [stage["as"] for stage in job["stages"]]
    assert (list(job["outputs"]), names[-1], "lateness" in names) == (["features"], "features", False)
    assert {"loans", "performance"} == {*job["inputs"]}


def test_works__name_programs_that_are_there() -> None:
    programs = {words[0] for work in WORKS.values() for words in work.peers.values()}
    assert all((ROOT / "benchmarks" / "peers" / program).is_file() for program in programs)
