"""What a run will take before it starts: seconds, a worker's memory and, with a price, money; each from something that was measured.

Earlier runs of the same stages in the results place say most, scaled by how large their data were. Where there is none, the rates of stages
that were measured once (`rates`) give a wide range. Where that says nothing either, the estimate says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.plan.curve import FEW, Curve, Point, Range, foretold, left_out, medians, worst
from pipeline.plan.former import Former, former_runs, input_bytes
from pipeline.plan.plan import Plan
from pipeline.plan.rates import Rates, by_rates, here, summed
from pipeline.plan.sizes import beyond_memory
from pipeline.results.at_url import Store

HOUR_S = 3_600
SAVES = 0.1  # of the whole time: a doubling of the workers that saves less does not pay
MOST_WORKERS = 1_024
ON_DISK = 2.0
"""How many times as long it takes where tables are beyond memory: of loans, 1 million in 700 MB 2.5, 3 million in 1 GB 1.8."""


@dataclass(frozen=True)
class Place:
    """Where a job is to run: worker processes or machines, tasks that compute at once, processes to start, a worker's bytes, cores in all.

    None where that is only known once the cluster is asked; `cores` is None where workers bring their own.
    """

    workers: int | None
    at_once: int | None
    processes: int = 0
    limit: int | None = None
    cores: int | None = None

    def of(self, workers: int) -> Place:
        """With another number of workers, of as many threads each."""
        threads = (self.at_once or 1) / (self.workers or 1) if self.cores is None else 1
        at_once = max(1, round(workers * threads))
        return replace(self, workers=workers, at_once=min(at_once, self.cores or at_once), processes=workers if self.processes else 0)


@dataclass(frozen=True)
class Estimate:
    """What is expected, and by what: `why` instead where nothing is known. `stages` has seconds of tasks, `tables` bytes."""

    place: Place
    seconds: Range | None = None
    memory: Range | None = None
    by: str = ""
    why: str = ""
    curve: Curve | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, float] = field(default_factory=dict)

    def money(self, price: float | None) -> Range | None:
        """What it costs at a price of a worker for an hour; None where either is not known."""
        if price is None or self.seconds is None or self.place.workers is None:
            return None
        return self.seconds.times(price * self.place.workers / HOUR_S)

    def pays_up_to(self) -> tuple[int, str] | None:
        """How many workers still pay, and why no more: a doubling then saves less than a tenth of the time; None where nobody knows."""
        if self.curve is None or self.place.at_once is None:
            return None
        count, before = 1, self._seconds(1)
        while count < MOST_WORKERS and (after := self._seconds(2 * count)) < before * (1 - SAVES):
            count, before = 2 * count, after
        bound = self.place.cores is not None and count >= self.place.cores
        return count, "this machine has no more cores" if bound else f"the next doubling saves less than {SAVES:.0%}"

    def document(self, price: float | None) -> dict[str, Any]:
        """What run.json has of it."""
        named = {"seconds": self.seconds, "memory_bytes": self.memory, "money": self.money(price)}
        found: dict[str, Any] = {"by": self.by} if self.by else {"unknown": self.why}
        for name, known in named.items():
            if known is not None:
                digits = {"seconds": 3, "memory_bytes": 0, "money": 6}[name]
                low, value, high = (round(number, digits or None) for number in (known.low, known.value, known.high))
                found[name], found[f"{name}_range"] = value, [low, high]
        return found

    def _seconds(self, workers: int) -> float:
        assert self.curve is not None
        place = self.place.of(workers)
        return self.curve.at(1.0, place.at_once or 1, place.processes)


def estimate(store: Store, plan: Plan, place: Place) -> Estimate:
    """The estimate of a plan's run: by earlier runs, else by rates; where tables go by the disk, of no more memory than there is."""
    found = former_runs(store, plan)
    expected = _by_runs(found, plan, place) if found else _by_rates(store, plan, place)
    limit, memory = expected.place.limit, expected.memory
    if limit is None or memory is None or memory.high <= limit:
        return expected
    tables = plan.job.cluster.for_backend(plan.backend).memory(plan.backend)
    return _within(expected, limit, found) if beyond_memory(plan, tables) else expected


def _within(expected: Estimate, limit: int, found: Sequence[Former]) -> Estimate:
    """Within a worker's memory, since tables lie on disk beyond it; where no earlier run had as little, of longer time.

    The most is what it was: what a task holds beside tables may be more, and `estimate_text` warns of it.
    """
    assert expected.memory is not None
    seconds, by, most = expected.seconds, expected.by, expected.memory
    memory = Range(min(most.value, limit), min(most.low, limit), most.high)
    if seconds is not None and not any(run.memory and run.memory <= limit for run in found):
        seconds = Range(seconds.value * ON_DISK, seconds.low, seconds.high * ON_DISK)
        by += f"; {ON_DISK:g} times that, as tables beyond memory lie on disk"
    return replace(expected, seconds=seconds, memory=memory, by=by)


def _by_runs(found: Sequence[Former], plan: Plan, place: Place) -> Estimate:
    """By earlier runs, at least one, the newest first."""
    newest = found[0]
    if place.workers is None or place.at_once is None:
        as_then = Place(newest.workers, newest.at_once, newest.processes, place.limit)
        place = as_then.of(place.workers or newest.workers)
    workers, at_once = place.workers or 1, place.at_once or 1
    rates = Rates.measured()
    scale = here() if rates.matters(found, at_once, place.processes) else 1.0
    process = rates.process * scale
    opening = max(0.0, min(run.opening - process * run.processes for run in found))
    start = opening + _fixed(found, plan, rates, scale)
    took = [Point(run.size, run.at_once, run.processes, run.seconds) for run in found]
    seconds, curve = foretold(took, Point(1.0, at_once, place.processes, 0.0), start, process)
    held = [Point(run.size, run.workers, 0, run.memory) for run in found if run.memory]
    base = min((run.base for run in found), default=0)
    memory = foretold(held, Point(1.0, workers, 0, 0.0), base, 0.0)[0] if held else None
    nearest = min(found, key=lambda run: abs(1 - run.size))
    stages = {name: value / nearest.size for name, value in nearest.stages.items()}
    tables = {name: value / nearest.size for name, value in nearest.tables.items()}
    return Estimate(place, seconds, memory, _words(found, took, place, (start, process)), "", curve, stages, tables)


def _fixed(found: Sequence[Former], plan: Plan, rates: Rates, scale: float) -> float:
    """What does not grow with the data in the shortest of these runs, after its opening, as rates divide it."""
    shortest, sums = min(found, key=lambda run: run.seconds - run.opening), summed(plan, rates)
    work = None if isinstance(sums, str) else sum(sums[0].values()) * shortest.size * rates.of_sum * scale / shortest.at_once
    return rates.fixed_in(shortest.seconds - shortest.opening, len(plan.stages), work, scale)


def _by_rates(store: Store, plan: Plan, place: Place) -> Estimate:
    """By the rates of stages; where a run is there whose inputs' sizes cannot be told, that is why nothing is known."""
    unknown = sorted(name for name, size in input_bytes(plan).items() if size is None)
    if unknown:
        return Estimate(place, why=f"how large input {unknown[0]} is shows only when it is read")
    if place.workers is None or place.at_once is None:
        return Estimate(
            place, why=f"no run of these stages is in {store.place}, and the cluster is asked for its workers when a run starts"
        )
    found = by_rates(plan, place.at_once, place.processes)
    if isinstance(found, str):
        return Estimate(place, why=f"no run of these stages is in {store.place}, and {found}")
    return Estimate(place, found.seconds, found.memory, found.by, "", None, found.stages, found.tables)


def _words(found: Sequence[Former], took: Sequence[Point], place: Place, known: tuple[float, float]) -> str:
    """How many runs say it, of how much data, and how well they foretell one another."""
    sizes = sorted(run.size for run in found)
    runs = f"{len(found)} earlier runs" if len(found) > 1 else "one earlier run"
    times = f"{sizes[0]:.2g}" if sizes[-1] / sizes[0] < 1.1 else f"{sizes[0]:.2g} to {sizes[-1]:.2g}"
    text = f"{runs} of {times} times the data" if sizes[0] < 0.95 or sizes[-1] > 1.05 else f"{runs} of as much data"
    if len(medians(took)) >= FEW:
        text += f", each size foretold by the others within {worst(left_out(took, *known)):.0%}"
    return text + ("" if any(run.processes == place.processes for run in found) else ", none of them on as many processes")
