"""Threads of the libraries that tasks call: one pool of Polars and one BLAS thread a task in a process, made before they load.

And as many arenas of memory as threads: of four times as many, as the allocators have it, each keeps what others then ask the system for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pipeline.backend.glibc import ARENAS, THRESHOLDS, limit_arenas

R = TypeVar("R")
BLOCK = 1 << 17  # rows
_ROOT, _GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# XGBoost's threads wait for one another many times a second. Spinning, they stand still whenever something else takes a core: training
# beside a second busy process took 43 s instead of 6, and waiting asleep costs a twentieth where all cores are free.
SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
# Dask's nanny has glibc give freed memory back at once (a trim threshold of 64 KiB, which also keeps its threshold for maps of their own at
# 128 KiB): every temporary array is mapped and zeroed anew. Two workers took 31 s for 20 steps of 6,000 bodies; with these, 8 s.
MEMORY = {name: str(size) for name, size in THRESHOLDS.items()}
JEMALLOC = "_RJEM_MALLOC_CONF"  # Polars' allocator
# A million loans on two cores took 9.3 s and 1.10 GB with arenas as the allocators have them, 8.7 s and 0.88 GB with two of each.
KEPT = "oversize_threshold:0,dirty_decay_ms:1000,muzzy_decay_ms:0"  # a second, large pieces too, and then given back at once
POLARS = "dirty_decay_ms:500,muzzy_decay_ms:1000"  # what it puts in front of that when it loads


def cores() -> int:
    """Cores this process may use: the scheduler's mask and a container's quota counted in, as Dask counts them.

    Without importing Dask, which a plan would wait for.
    """
    masked = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(masked, _quota() or masked))


def _quota() -> int | None:
    """Cores that a control group leaves its processes, rounded up; None where it leaves them all."""
    for folder in ("cpuacct,cpu", "cpu,cpuacct"):
        quota, period = (_ROOT / folder / f"cpu.cfs_{name}_us" for name in ("quota", "period"))
        if quota.is_file() and period.is_file():
            return _rounded_up(quota.read_text(encoding="ascii"), period.read_text(encoding="ascii"))
    group = _GROUP.read_text(encoding="utf-8").strip().split(":")[-1].strip("/") if _GROUP.is_file() else ""
    most = _ROOT / group / "cpu.max"
    return _rounded_up(*most.read_text(encoding="ascii").split()) if most.is_file() else None


def _rounded_up(quota: str, period: str) -> int | None:
    share = -(-int(quota) // int(period)) if quota.strip().isdigit() else 0
    return share if share > 0 else None


def settings(threads: int) -> dict[str, str]:
    """What libraries read when they load, in a process of so many threads."""
    return {**SETTINGS, JEMALLOC: f"narenas:{threads},{KEPT}"}


def limit_threads() -> None:
    """Set what the libraries read when they load; what a user set stays. The package calls it before it imports anything else.

    Polars counts the cores itself, masks and quotas too, so only workers that share a machine are told (`worker_environment`).
    """
    threads = cores()
    for name, value in settings(threads).items():
        os.environ.setdefault(name, value)
    limit_arenas(threads)  # glibc's, which reads its own settings before a program starts


def worker_environment(threads: int) -> dict[str, str]:
    """The environment of a worker process whose tasks are to use so many threads together; what a user set stays."""
    wanted = {**settings(threads), ARENAS: str(threads), **MEMORY, "POLARS_MAX_THREADS": str(threads)}
    ours = settings(cores())
    there = {**os.environ, JEMALLOC: os.environ.get(JEMALLOC, "").removeprefix(POLARS).removeprefix(",")}
    users = {name: value for name, value in there.items() if value not in {"", ours.get(name)}}
    return {name: users.get(name, value) for name, value in wanted.items()}


def may_wait() -> bool:
    """Whether this thread is of Python's making. A library's own, which calls us in a query, must not wait for others: they wait for it."""
    return not threading.current_thread().name.startswith("Dummy-")


def on_all_threads(function: Callable[..., R], *args: Any) -> R:
    """What a function gives that a query calls with its rows: Polars does on one thread what it is asked to in there, but not elsewhere.

    Where the query calls it from one of Polars' threads, of which all may do so at once, it stays there.
    """
    if not may_wait():
        return function(*args)
    with ThreadPoolExecutor(1, thread_name_prefix="called-by-query") as pool:
        return pool.submit(function, *args).result()


def by_blocks(function: Callable[[slice], R], height: int) -> list[R]:
    """What a function gives of blocks of so many rows, of one at least, on all threads that may be used here.

    What it makes of a block on its way stays in the processor's memory; of all rows at once the system would have to find memory for it.
    """
    import polars as pl

    blocks = [slice(at, at + BLOCK) for at in range(0, max(1, height), BLOCK)]
    threads = min(pl.thread_pool_size(), len(blocks)) if may_wait() else 1
    if threads == 1:
        return [function(block) for block in blocks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, blocks))


@contextmanager
def started_with(variables: Mapping[str, str]) -> Iterator[None]:
    """Processes that are started in the block begin with these variables; this process has its own environment back afterwards.

    Dask's `env` comes too late where a worker imports the program that started it, and libraries with it. Dask also leaves
    OMP_NUM_THREADS=1 behind in the process that starts workers.
    """
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def blas_limited() -> Iterator[None]:
    """Hold BLAS to the threads of `limit_threads`, also where NumPy was loaded before it could be told (in a notebook, say).

    Two tasks whose products each took all cores were half as fast as two of one thread.
    """
    from threadpoolctl import ThreadpoolController

    pools, most = ThreadpoolController().select(user_api="blas"), int(os.environ["OPENBLAS_NUM_THREADS"])
    with pools.limit(limits=most):
        yield
