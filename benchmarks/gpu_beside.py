"""The kernels on this machine's cores, beside the GPU: compiled code in a thread a core, as tasks run it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.gpu_kernels import Cohort, Work, many
from pipeline.kernels.design import Design

START = 64
"""Variants a core that are tried first."""
LEAST_S = 2.0
"""A run of some variants lasts so long before its time is taken for that of more."""


def beside(made: Callable[[Cohort], Work], samples: int, variants: int, designs: dict[int, Design]) -> dict[str, Any]:
    """Seconds that a kernel takes of these variants on all cores, and the variants that it was measured on. Needs numba."""
    cores, each = os.cpu_count() or 1, min(START, variants)
    seconds = _run([made(Cohort(many(each, samples, np), samples, designs))])  # numba compiles what it has not compiled yet
    while True:
        cohorts = [Cohort(many(each, samples, np), samples, designs) for _ in range(cores)]
        works = [made(cohort) for cohort in cohorts]
        if not works[0].scales:
            return {"cpu_s": [round(_run(works[:1]), 5)], "cpu_cores": 1}
        seconds, measured = _run(works), each * cores
        if seconds > LEAST_S or measured >= variants:
            return {"cpu_s": [round(seconds * variants / measured, 5)], "cpu_cores": cores, "cpu_variants": measured}
        each = min(4 * each, -(-variants // cores))


def _run(works: Sequence[Work]) -> float:
    with ThreadPoolExecutor(len(works)) as pool:
        started = time.perf_counter()
        for running in [pool.submit(work.run) for work in works]:
            running.result()
        return time.perf_counter() - started
