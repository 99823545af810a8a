"""An estimate as --explain prints it."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.plan.curve import Range
from pipeline.plan.estimate import Estimate

MOST_NAMED = 3
LONG_S = 600
GB = 1e9


def estimate_text(estimate: Estimate, price: float | None) -> str:
    """What is expected, between what, and by what; memory beside what a worker has, and money where a price is known."""
    if estimate.seconds is None:
        return (
            f"expected: unknown: {estimate.why}. Run the job on a part of its data, into the same results place, and its record will say."
        )
    lines = [f"expected: {_range(estimate.seconds, _duration(estimate.seconds))}, by {estimate.by}", *_parts(estimate), *_memory(estimate)]
    if (money := estimate.money(price)) is not None and price is not None:
        workers = f"{estimate.place.workers} worker{'s' if estimate.place.workers != 1 else ''}"
        lines.append(f"money: {_range(money, (1, '', 4))}, {workers} at {price:g} an hour")
    return "\n    ".join(lines)


def _parts(estimate: Estimate) -> list[str]:
    """Start and work apart, the stages that take most, and how many workers pay."""
    lines, curve, place = [], estimate.curve, estimate.place
    if curve is not None and place.at_once:
        start, work = curve.start + curve.process * place.processes, curve.work / place.at_once
        lines.append(f"start {start:,.1f} s, work {work:,.1f} s with {place.at_once} tasks at once{_largest(estimate.stages, ' s', 1)}")
    elif most := _largest(estimate.stages, " s", 1):
        lines.append(most.removeprefix("; "))
    if (pays := estimate.pays_up_to()) is not None:
        lines.append(f"workers pay up to {pays[0]}: {pays[1]}")
    return lines


def _memory(estimate: Estimate) -> list[str]:
    if estimate.memory is None:
        return ["memory: unknown: no earlier run says what its workers had"]
    limit = estimate.place.limit
    has = f", where it has {limit / GB:,.1f} GB" if limit else ""
    lines = [f"memory of a worker: {_range(estimate.memory, (GB, ' GB', 2))}{has}{_largest(estimate.tables, ' MB', 1e6)}"]
    if limit and estimate.memory.high > limit:
        sure = "is more" if estimate.memory.value > limit else "may be more"
        lines.append(f"warning: memory {sure} than a worker has, and it will spill or be killed: give it more, or more workers")
    return lines


def _largest(values: Mapping[str, float], unit: str, divisor: float) -> str:
    most = sorted(values.items(), key=lambda item: -item[1])[:MOST_NAMED]
    named = [f"{name} {value / divisor:,.1f}{unit}" for name, value in most if value / divisor >= 0.1]
    return f"; most in {', '.join(named)}" if named else ""


def _duration(seconds: Range) -> tuple[float, str, int]:
    """Divisor, unit and decimals of a time."""
    return (1, " s", 1) if seconds.value < LONG_S else (60, " min", 1) if seconds.value < 60 * LONG_S else (3_600, " h", 1)


def _range(known: Range, unit: tuple[float, str, int]) -> str:
    divisor, name, digits = unit
    value, low, high = (f"{number / divisor:,.{digits}f}" for number in (known.value, known.low, known.high))
    return f"{value}{name} ({low} to {high})"
