"""What stages took where they were measured (rates.json, which benchmarks/rates.py writes), for jobs that have not run before.

A rate is seconds a gigabyte that a stage reads, and bytes that it gives for each of these: the middle one of the jobs that were measured.
Parameters count for nothing, so the range is wide: as far as the rates of the other jobs were off for each of them. This machine's speed
beside the measured one's is that of a short piece of work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.plan.curve import SAME, Range
from pipeline.plan.former import Former, input_bytes
from pipeline.plan.plan import Plan

FILE = Path(__file__).with_suffix(".json")
GB = 1e9
NUMBERS, TRIES, GOLDEN = 40_000, 3, 0.6180339887498949
_KINDS = ("formats", "stages")


@dataclass(frozen=True)
class Rate:
    """Seconds a gigabyte that is read, and bytes given a byte read."""

    seconds: float
    gives: float


@dataclass(frozen=True)
class Rates:
    """The measured rates: by the format of inputs (of their files' bytes) and by stages' `use`; and what every run takes.

    `opening` is the cluster's, and `fixed` what else does not grow with the data (libraries, the publishing). `of_sum`: of the seconds
    that stages take one by one on one core, the part that they take together. `off_by`, `memory_off_by`: factors.
    """

    formats: Mapping[str, Rate]
    stages: Mapping[str, Rate]
    opening: float
    fixed: float
    stage: float
    process: float
    of_sum: float
    base: float
    memory_of_bytes: float
    off_by: float
    memory_off_by: float
    machine: str
    short_work: float

    @staticmethod
    @cache
    def measured() -> Rates:
        """Those that the package has."""
        return Rates.read(json.loads(FILE.read_text(encoding="utf-8")))

    @staticmethod
    def read(document: Mapping[str, Any]) -> Rates:
        """From rates.json."""
        tables = {kind: {name: Rate(*values) for name, values in document[kind].items()} for kind in _KINDS}
        return Rates(**{**document, **tables})

    def document(self) -> dict[str, Any]:
        """What rates.json has."""
        tables = {kind: {name: [rate.seconds, rate.gives] for name, rate in sorted(getattr(self, kind).items())} for kind in _KINDS}
        return {**{entry.name: getattr(self, entry.name) for entry in fields(self)}, **tables}

    def start(self, stages: int) -> float:
        """Seconds of a run of so many stages that have nothing to do."""
        return self.opening + self.fixed + self.stage * stages

    def fixed_in(self, seconds: float, stages: int, work: float | None, scale: float) -> float:
        """What does not grow with the data, of the seconds of a run after its opening, which one run does not tell from what does.

        As much as was measured, and no greater part of a short run than rates give it beside its `work` in seconds; half of one at the most
        whose work no rate knows.
        """
        fixed = (self.fixed + self.stage * stages) * scale
        part = 1 / 2 if work is None else fixed / (fixed + work) if fixed else 0.0
        return min(fixed, seconds * part)

    def matters(self, found: Sequence[Former], at_once: int, processes: int) -> bool:
        """Whether what runs left open is asked for: a start where all were of one size, or a process where all had the same number."""
        sizes = [run.size / run.at_once for run in found]
        known = max(sizes) > min(sizes) * (1 + SAME) or abs(sizes[0] * at_once - 1) < SAME
        return not known or any(run.processes != processes for run in found)


@dataclass(frozen=True)
class Rated:
    """What rates say of a plan: seconds, a worker's bytes, seconds by stage and bytes by table."""

    seconds: Range
    memory: Range
    by: str
    stages: Mapping[str, float]
    tables: Mapping[str, float]


def here() -> float:
    """How long this machine takes for a short piece of work, beside the one that rates were measured on; 2: twice as long."""
    return short_work() / Rates.measured().short_work


def short_work() -> float:
    """Seconds of sorting some numbers and of counting in Python: the shortest of a few times, some 10 milliseconds together."""
    numbers, best = np.arange(NUMBERS) * GOLDEN % 1, float("inf")
    for _ in range(TRIES):
        started = time.perf_counter()
        np.sort(numbers, kind="stable")
        sum(range(NUMBERS))
        best = min(best, time.perf_counter() - started)
    return best


def by_rates(plan: Plan, at_once: int, processes: int, rates: Rates | None = None, scale: float | None = None) -> Rated | str:
    """What rates say of a plan on so many tasks at once; why they say nothing, where they do not know a stage, a format or a GPU."""
    rates = rates or Rates.measured()
    if plan.backend != "cpu":
        return "no rates were measured on a GPU"
    sums = summed(plan, rates)
    if isinstance(sums, str):
        return sums
    stages, tables = sums
    scale = here() if scale is None else scale
    work = sum(stages.values()) * rates.of_sum / at_once
    seconds = scale * (rates.start(len(plan.stages)) + rates.process * processes + work)
    memory = rates.base + rates.memory_of_bytes * most_bytes(tables) / max(1, processes)
    by = f"what such stages took on {rates.machine}, where this machine takes {scale:.2g} times as long"
    off, memory_off = rates.off_by, rates.memory_off_by
    spent = Range(seconds, seconds / off, seconds * off)
    held = Range(memory, memory / memory_off, memory * memory_off)
    return Rated(spent, held, by, {name: value * scale for name, value in stages.items()}, tables)


def most_bytes(tables: Mapping[str, float]) -> float:
    """The two largest tables: what a stage reads and what it gives."""
    return sum(sorted(tables.values())[-2:])


def summed(plan: Plan, rates: Rates) -> tuple[dict[str, float], dict[str, float]] | str:
    """Seconds of every input and stage by themselves, and bytes of what they give; a text where a rate is missing."""
    seconds, tables = dict[str, float](), dict[str, float]()
    for name, size in input_bytes(plan).items():
        rate = rates.formats.get(plan.job.inputs[name].format)
        if rate is None or size is None:
            return f"no rate was measured of the format {plan.job.inputs[name].format}"
        seconds[name], tables[name] = rate.seconds * size / GB, rate.gives * size
    for stage in plan.stages:
        rate = rates.stages.get(stage.spec.use)
        if rate is None:
            return f"no rate was measured of the stage {stage.spec.use}"
        read = sum(tables[table.partition(".")[0]] for table in stage.spec.inputs.values())
        seconds[stage.spec.name], tables[stage.spec.name] = rate.seconds * read / GB, rate.gives * read
    return seconds, tables
