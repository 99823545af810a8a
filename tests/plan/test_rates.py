"""Rates that were measured once: which the package has, and what they say of a job that has not run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import pipeline
from pipeline.plan.curve import Point, foretold
from pipeline.plan.plan import Plan
from pipeline.plan.rates import Rate, Rated, Rates, by_rates, short_work, summed
from tests.small import inside, write_small_job

ROOT = Path(__file__).parents[2]
RATES = Rates(
    {"vcf": Rate(10.0, 2.0), "csv": Rate(1.0, 1.0)},
    {"variant_qc": Rate(4.0, 0.5), "join": Rate(1.0, 1.0), "derive": Rate(0.0, 1.0), "linear_gwas": Rate(8.0, 3.0)},
    opening=0.5,
    fixed=0.0,
    stage=0.1,
    process=1.0,
    of_sum=0.5,
    base=1e8,
    memory_of_bytes=2.0,
    off_by=3.0,
    memory_off_by=2.0,
    machine="a machine",
    short_work=0.01,
)
"""Of every use of the small job."""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    write_small_job(tmp_path)
    with inside(tmp_path):
        return pipeline.load("job.yaml", backend="cpu").plan()


def test_rates__add_up_from_the_bytes_of_the_inputs_on(plan: Plan) -> None:
    sizes = {name: sum(stamp.size for stamp in plan.stamps[name].values()) for name in plan.inputs}
    sums = summed(plan, RATES)
    assert not isinstance(sums, str)
    seconds, tables = sums
    assert seconds["cohort"] == pytest.approx(10 * sizes["cohort"] / 1e9)
    assert (tables["cohort"], tables["passed"]) == (2 * sizes["cohort"], sizes["cohort"])
    assert tables["people"] == tables["cohort"] + sizes["sheet"]
    assert seconds["gwas"] == pytest.approx(8 * (tables["passed"] + tables["older"]) / 1e9)
    rated = by_rates(plan, 2, 0, RATES, 1.0)
    assert isinstance(rated, Rated)
    assert rated.seconds.value == pytest.approx(0.5 + 4 * 0.1 + sum(seconds.values()) * 0.5 / 2)
    assert (rated.seconds.low, rated.seconds.high) == pytest.approx((rated.seconds.value / 3, rated.seconds.value * 3))
    assert rated.memory.value == pytest.approx(1e8 + 2 * sum(sorted(tables.values())[-2:]))


def test_a_slower_machine_and_more_processes__take_longer(plan: Plan) -> None:
    once, twice, more = by_rates(plan, 2, 0, RATES, 1.0), by_rates(plan, 2, 0, RATES, 2.0), by_rates(plan, 2, 4, RATES, 1.0)
    assert isinstance(once, Rated)
    assert isinstance(twice, Rated)
    assert isinstance(more, Rated)
    assert twice.seconds.value == pytest.approx(2 * once.seconds.value)
    assert more.seconds.value == pytest.approx(once.seconds.value + 4)
    assert "this machine takes 2 times as long" in twice.by


def test_what_was_not_measured__is_named(plan: Plan) -> None:
    stages = {name: rate for name, rate in RATES.stages.items() if name != "join"}
    assert by_rates(plan, 2, 0, replace(RATES, stages=stages), 1.0) == "no rate was measured of the stage join"
    assert by_rates(plan, 2, 0, replace(RATES, formats={}), 1.0) == "no rate was measured of the format vcf"
    assert by_rates(replace(plan, backend="gpu"), 2, 0, RATES, 1.0) == "no rates were measured on a GPU"


def test_the_rates_of_the_package__are_whole_and_written_as_they_are_read() -> None:
    rates = Rates.measured()
    assert Rates.read(rates.document()) == rates
    assert {"parquet", "csv", "vcf"} <= set(rates.formats)
    assert {"filter", "derive", "join", "aggregate", "xgboost", "linear_gwas"} <= set(rates.stages)
    assert min(rates.off_by, rates.memory_off_by) >= 1
    assert min(rates.of_sum, rates.short_work, rates.opening) > 0
    assert all(min(rate.seconds, rate.gives) >= 0 for kind in (rates.formats, rates.stages) for rate in kind.values())


@pytest.mark.parametrize(
    ("work", "least"),
    [(0.0, 2.0), (None, 1.5), (2.0, 1.5), (6.0, 0.75)],
)
def test_fixed_in__is_as_measured_and_no_greater_part_of_a_short_run_than_rates_give_it(work: float | None, least: float) -> None:
    rates = replace(RATES, fixed=0.6)
    assert rates.fixed_in(100.0, 4, work, 2.0) == pytest.approx(2.0)
    assert rates.fixed_in(3.0, 4, work, 2.0) == pytest.approx(least)
    assert replace(RATES, fixed=0.0, stage=0.0).fixed_in(3.0, 4, 0.0, 1.0) == 0.0


@pytest.mark.parametrize(("work", "stages", "scale"), [("loans", 28, 1.0), ("scan", 1, None), ("traffic", 53, 0.95)])
def test_one_earlier_run__of_half_the_data_foretells_what_was_measured_within_a_fifth(work: str, stages: int, scale: float | None) -> None:
    """The runs of benchmarks/scaling.py on a quiet machine: by how much a start is taken for work, the larger run is overestimated."""
    document = json.loads((ROOT / "benchmarks" / "results" / "scaling-20261122T194213Z.json").read_text(encoding="utf-8"))
    small, large = (row for row in document["as_a_user"] if row["work"] == work and row["size"] in (1, 2))
    seconds, opening = small["actual"]["seconds"], small["actual"]["opening_seconds"]
    rates = Rates.measured()  # and `scale` of that machine at that time, as the result says; nothing was known of the scan
    left = small["expected"]["seconds"] - scale * rates.start(stages) if scale else None
    start = opening + rates.fixed_in(seconds - opening, stages, left, scale or 1.0)
    size = float(re.findall(r"of ([0-9.]+) times", large["expected"]["by"])[0])
    found, _ = foretold([Point(size, 2, 0, seconds)], Point(1.0, 2, 0, 0.0), start, rates.process)
    assert large["actual"]["seconds"] / found.value == pytest.approx(1, abs=0.2)  # as run.json has it: of_expected


def test_the_short_piece_of_work__takes_some_time() -> None:
    assert short_work() > 0
