"""What a step over several devices costs: the bytes that they send, and its time, of computing and of exchanging."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from math import prod
from typing import Any

import jax

Tree = Any

REPEATS, FEWEST, ENOUGH_S = 15, 3, 3.0
COLLECTIVE = re.compile(r"= (?P<types>.+?) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?\(")
GROUPS = re.compile(r"replica_groups=(?:\[(?P<groups>\d+),(?P<size>\d+)\]|\{\{(?P<first>[\d,]+)\})")
PAIRS = re.compile(r"source_target_pairs=\{(?P<pairs>[\d{},]+)\}")
ARRAY = re.compile(r"(?P<kind>[a-z]+)(?P<bits>\d*)\[(?P<sizes>[\d,]*)\]")


def bytes_sent(program: str, devices: int) -> int:
    """Bytes that all devices together send in one run of a compiled program, of whose text every collective is taken as a ring.

    In a ring of g devices each sends (g - 1) / g of what is gathered, scattered or exchanged, and twice as much of what is reduced for all.
    """
    return sum(_of_line(match, line, devices) for line in program.splitlines() if (match := COLLECTIVE.search(line)))


def _of_line(match: re.Match[str], line: str, devices: int) -> int:
    size, kind = sum(map(_bytes, ARRAY.finditer(match["types"]))), match["kind"]
    if kind == "collective-permute":
        pairs = PAIRS.search(line)
        return size * (pairs["pairs"].count("{") if pairs else 0)
    groups = GROUPS.search(line)
    ring = devices if groups is None else int(groups["size"]) if groups["size"] else groups["first"].count(",") + 1
    each = {"all-reduce": 2 * size / ring, "reduce-scatter": size}.get(kind, size / ring)
    return round(each * (ring - 1) * devices)


def _bytes(array: re.Match[str]) -> int:
    bits = int(array["bits"] or 8)  # pred
    return bits * prod(int(size) for size in array["sizes"].split(",") if size) // 8


def step_times(whole: Callable[[], Any], alone: Callable[[], Any], agreed: Callable[[bool], bool] = bool) -> dict[str, float]:
    """Milliseconds of a step until all of it is computed, of its computing alone and of the rest; medians of runs, after one not counted.

    `agreed` says whether it is enough, where several processes step together.
    """
    runs: tuple[list[float], list[float]] = [], []
    for run in range(REPEATS + 1):
        if agreed(run > FEWEST and sum(map(sum, runs)) > ENOUGH_S):
            break
        for step, seconds in zip((whole, alone), runs, strict=True):
            started = time.perf_counter()
            jax.block_until_ready(step())
            seconds.append(time.perf_counter() - started)
    step_ms, compute_ms = (statistics.median(seconds[1:]) * 1000 for seconds in runs)
    return {"step_ms": step_ms, "compute_ms": min(compute_ms, step_ms), "communication_ms": max(0.0, step_ms - compute_ms)}
