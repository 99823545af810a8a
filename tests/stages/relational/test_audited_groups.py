"""The audit of aggregates: its own arithmetic beside the engine's on all types, and faults in what is translated, which it finds."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.kernels.plain_groups import NONE, Once, computed_again
from pipeline.stages.relational._aggregates.audited import RESULTS, Audit, apart
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.stages.relational._aggregates.listed import Histogram
from pipeline.stages.relational._aggregates.picked import Picked
from pipeline.stages.relational._aggregates.plain import PLAIN
from pipeline.stages.relational._aggregates.spreads import Spread
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.audits import OFF, TOLERANCE
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.stretch import ROWS as ROWS_TAKEN
from pipeline.tables.stretch import Stretch
from pipeline.tables.table import Table
from pipeline.testing.stages import counts_of
from tests.small import inside, run_main

SIZE = 600
JOB = """\
job: audited
seed: 7
results: results
inputs:
  rows: {format: parquet, path: rows.parquet}
stages:
  - {use: filter, from: rows, as: some, where: number >= 0 or number is null}
  - {use: aggregate, from: some, as: known, by: key, compute: {mean: mean(f), most: max(day)}}
outputs:
  known: {from: known}
"""
NUMBERS = ("sum", "mean", "std", "var", "median")
ANY = ("min", "max", "count", "n_unique", "mode", "list")
COLUMNS = {
    "float": ("f", "g", "far"),
    "whole": ("i", "u"),
    "other": ("d", "flag", "text", "day", "at", "kind"),
}
WAYS = ("linear", "lower", "higher", "nearest", "midpoint")
ALL: dict[str, Any] = {
    **{f"{f}_{c}": f"{f}({c})" for f in NUMBERS for c in ("f", "g", "far", "i", "u", "d", "flag")},
    **{f"{f}_{c}": f"{f}({c})" for f in ANY for columns in COLUMNS.values() for c in columns},
    **{
        f"{way}_{int(100 * q)}": {"function": "quantile", "of": "g", "q": q, "interpolation": way}
        for way in WAYS
        for q in (0, 0.25, 0.3, 1)
    },
    "rows": "size()",
    "some": {"function": "sum", "of": "f * 2 + i", "where": "flag and i > 3"},
    "any": "any(flag)",
    "all": "all(f > -3)",
    "corr": "corr(f, g)",
    "covar": "covar(f, far)",
    "weighted": "weighted_mean(f, u)",
    "bins": {"function": "histogram", "of": "f", "edges": [-1, 0, 0.5]},
    "by_day": {"function": "list", "of": "text", "order_by": "day"},
    **{f"{f}_{c}": f"{f}({c}, g)" for f in ("first", "last", "arg_min", "arg_max") for c in ("f", "text", "kind", "d")},
    "sure": {"function": "last", "of": "text", "order_by": "at", "ties": "none"},
}


def rows(seed: int = 5) -> pl.DataFrame:
    """All types of values, a tenth of them missing, some of them tied, some far from 0."""
    random = np.random.default_rng(seed)
    day = [date(2020, 1, 1) + timedelta(days=int(number)) for number in random.integers(0, 40, SIZE)]
    frame = pl.DataFrame(
        {
            "key": random.choice(["a", "b", "c", "d", "lone"], SIZE, p=[0.4, 0.3, 0.2, 0.098, 0.002]),
            "number": random.integers(0, 3, SIZE),
            "f": random.normal(size=SIZE),
            "g": random.integers(0, 9, SIZE) / 4,
            "far": 1e9 + random.normal(size=SIZE),
            "i": random.integers(-(2**40), 2**40, SIZE),
            "u": pl.Series(random.integers(0, 200, SIZE), dtype=pl.UInt8),
            "d": pl.Series(random.integers(-900, 900, SIZE)).cast(pl.Decimal(12, 2)) / 100,
            "flag": random.random(SIZE) < 0.5,
            "text": random.choice(["", "b", "é", "z", "zz"], SIZE),
            "day": day,
            "at": pl.Series(random.integers(0, 2**60, SIZE)).cast(pl.Datetime("ns")),
            "kind": pl.Series(random.choice(["late", "early"], SIZE), dtype=pl.Enum(["late", "early"])),
        }
    )
    return frame.with_columns(
        pl.when(pl.Series(random.random(SIZE) < 0.1)).then(None).otherwise(pl.col(name)).alias(name) for name in frame.columns
    )


def of_one_bin(_: Histogram, found: pl.DataFrame, name: str, _asked: Any) -> pl.Series:
    return found.select(pl.concat_list([f"bin_0:{name}", f"bin_2:{name}", f"bin_1:{name}"]).alias(name)).to_series()


def audit(compute: dict[str, Any], by: tuple[str, ...] = ("key",), *, adds_up: bool = False) -> Audit:
    stage = Aggregate.model_validate({"by": by, "compute": compute})
    return Audit(Grouped(stage.by, stage.compute), "7", adds_up)


@pytest.mark.parametrize("by", [(), ("key",), ("kind", "flag"), ("day", "number")], ids=["all", "key", "two", "many"])
@pytest.mark.parametrize("adds_up", [False, True], ids=["at once", "added up"])
def test_audit__agrees_with_every_function_on_values_of_every_type(by: tuple[str, ...], adds_up: bool) -> None:
    given = rows()
    found = audit(ALL, by, adds_up=adds_up).counts(given)
    assert "audited_off" not in found, [
        name for name, what in ALL.items() if audit({name: what}, by, adds_up=adds_up).counts(given).get("audited_off")
    ]
    assert found["audited"] > 0.9 * len(ALL) * found["audited_groups"]
    assert found["audited_rows"] == SIZE


TOTALS = "pipeline.stages.relational._aggregates.totals"
stepped = Grouped._stepped
squares = Spread.products


def without_lost_keys(self: Grouped, given: pl.LazyFrame, by: Any, *others: Any) -> pl.LazyFrame:
    return stepped(self, given.drop_nulls(list(by)), by, *others)


def too_large(self: Spread, *given: str) -> pl.Expr:
    return squares(self, *given) * 1.0001


FAULTS: dict[str, tuple[Any, Any, str, Any]] = {
    "a sum a thousandth too large": ("sum(f)", TOTALS, "added", lambda values: values.sum() * 1.001),
    "a sum without one value": ("sum(u)", TOTALS, "added", lambda values: values.sum() - values.max()),
    "a mean of one row more": ("mean(f)", TOTALS, "counts", lambda value: value.count().cast(pl.Int64) + 1),
    "halves put together without a carry": ("sum(i)", TOTALS, "whole", lambda high, low, _: high * 2**32 + low % 2**32),
    "the least that is the greatest": ("min(day)", PLAIN["min"], "step", pl.Expr.max),
    "missing values counted as distinct": ("n_unique(text)", PLAIN["n_unique"], "function", lambda value: value.n_unique().cast(pl.Int64)),
    "a median of the lower value": ("median(f)", PLAIN["median"], "function", lambda value: value.quantile(0.5, "lower")),
    "a variance a ten thousandth too large": ("var(f)", Spread, "products", too_large),
    "the first row for the last": ({"function": "last", "of": "text", "order_by": "at"}, Picked, "_end", lambda _, order: order.min()),
    "bins that end an edge too soon": ({"function": "histogram", "of": "g", "edges": [1, 2]}, Histogram, "settled", of_one_bin),
    "rows without a key lost": ("size()", Grouped, "_stepped", without_lost_keys),
}
MERGED: dict[str, tuple[Any, Any, str, Any]] = {
    "parts whose greatest count stands for all": ("count(f)", PLAIN["count"], "merge", pl.Expr.max),
    "a greatest value of the first part": ("max(f)", PLAIN["max"], "merge", pl.Expr.first),
}
CASES = [
    *((FAULTS[name], adds_up) for name in FAULTS for adds_up in (False, True)),
    *((MERGED[name], True) for name in MERGED),
]


@pytest.mark.parametrize(
    ("fault", "adds_up"), CASES, ids=[*(f"{name}, {way}" for name in FAULTS for way in ("at once", "added up")), *MERGED]
)
def test_audit__finds_a_fault(fault: tuple[Any, Any, str, Any], adds_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    what, of, name, faulty = fault
    given = rows()
    assert "audited_off" not in audit({"one": what}, ("key",), adds_up=adds_up).counts(given)
    monkeypatch.setattr(f"{of}.{name}", faulty) if isinstance(of, str) else monkeypatch.setattr(of, name, faulty)
    assert audit({"one": what}, ("key",), adds_up=adds_up).counts(given)["audited_off"] >= 1


def test_audit__of_a_run_is_counted_and_what_is_off_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows().write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet").code == 0
        record = json.loads(Path("results/current/run.json").read_text())
        assert record["warnings"] == []
        counts = record["stages"]["known"]["counts"]
        assert 0 < counts["audited_rows"] <= SIZE
        assert counts["audited"] == 1 + 2 * counts["audited_groups"] >= 9
        monkeypatch.setattr(f"{TOTALS}.counts", lambda value: value.count().cast(pl.Int64) + 1)
        assert run_main("job.yaml", "--quiet", "--fresh").code == 0
        record = json.loads(Path("results/current/run.json").read_text())
    assert re.match(r"known: [45] of \d+ results that were computed again in another way disagree\. Do not use", record["warnings"][0])


def test_audit__draws_some_of_many_results_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    counts = Audit.counts

    def noted(self: Audit, given: pl.DataFrame) -> dict[str, int]:
        seen.append({*self.grouped.compute})
        return counts(self, given)

    monkeypatch.setattr(Audit, "counts", noted)
    given, grouped = Part(rows().head(50)), audit(ALL).grouped
    for seed in ("1", "1", "2"):
        table = Table.of(Session(), "given", [given], schema=Schema(given.frame.schema))
        Audit(grouped, seed).over(table, grouped.apply, frozenset({*ALL})).futures()
    first, again, other = seen
    assert first == again != other
    assert len(first) == RESULTS < len(ALL)


@pytest.mark.parametrize("parts", [1, 3])
def test_audit__draws_one_part_of_many(parts: int) -> None:
    stage = Aggregate.model_validate({"by": "key", "compute": {"mean": "mean(f)"}})
    counts = counts_of(stage, {"rows": rows()}, parts)
    assert 0 < counts["audited_rows"] <= SIZE
    assert counts["audited"] == 1 + counts["audited_groups"]


def test_stretch__is_of_any_rows_and_holds_few() -> None:
    starts = []
    for seed in range(60):
        stretch = Stretch(str(seed))
        for first in range(0, 50_000, 10_000):
            seen = pl.Series("x", range(first, first + 10_000))
            assert stretch.see([seen]) is seen
        assert stretch.rows is not None
        taken = stretch.rows["x"].to_list()
        assert taken == list(range(taken[0], taken[0] + ROWS_TAKEN))
        starts.append(taken[0])
    assert len({start // 10_000 for start in starts}) == 5
    assert min(starts) < 10_000 < 40_000 < max(starts)


@pytest.mark.parametrize(
    ("function", "columns", "told", "expected"),
    [
        ("sum", {"value": [0.1] * 10}, {}, 1.0),
        ("sum", {"value": [2**62, 2**62]}, {}, "nothing"),
        ("mean", {"value": [2**62, 2**62 + 2, None]}, {}, 2.0**62),
        ("mean", {"value": [1e308, 1e308]}, {}, "nothing"),
        ("weighted_mean", {"value": [1.0, 3.0], "weights": [1.0, -1.0]}, {}, "nothing"),
        ("weighted_mean", {"value": [1.0, 3.0], "weights": [0.0, 0.0]}, {}, None),
        ("var", {"value": [1e9, 1e9 + 1, 1e9 + 2]}, {}, 1.0),
        ("var", {"value": [1e200, 2e200]}, {}, "nothing"),
        ("corr", {"value": [1.0, 2.0, 3.0], "other": [2.0, 4.0, 6.0]}, {}, 1.0),
        ("corr", {"value": [1.0, 2.0], "other": [5.0, 5.0]}, {}, None),
        ("quantile", {"value": [1.0, 2.0, 4.0]}, {"q": 0.75}, 3.0),
        ("quantile", {"value": [1.0, 2.0]}, {"q": 0.5, "interpolation": "nearest"}, "nothing"),
        ("mode", {"value": ["b", "a", "b", "a", None]}, {}, "a"),
        ("last", {"value": ["a", "b"], "order": [1, 1]}, {"ties": "none"}, "nothing"),
        ("list", {"value": ["a", "c", "b"], "order": [None, 1, 1]}, {}, ["b", "c", "a"]),
        ("min", {"value": [float("nan"), 1.0]}, {}, "nothing"),
    ],
)
def test_computed_again__is_right_or_says_nothing(
    function: str, columns: dict[str, list[Any]], told: dict[str, Any], expected: Any
) -> None:
    once = computed_again(function, columns, told)
    assert once is None if expected == "nothing" else once is not None and once.value == expected


def test_apart__is_a_share_of_the_values_size() -> None:
    assert apart(3.3, Once(3.0, 6.0)) == pytest.approx(0.05)
    assert apart(2, Once(3)) == apart(None, Once(3.0, 1.0)) == apart(1.0, NONE) == OFF
    assert apart(None, NONE) == 0.0
    assert apart(float("nan"), Once(1.0, 1.0)) > TOLERANCE
