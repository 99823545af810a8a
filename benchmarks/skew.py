"""What one key with a fifth of all rows costs over several workers: python benchmarks/skew.py [--rows N] [--workers N].

Rows are joined by key with a table of all keys (rows exchanged, neither copied whole), and aggregated by it, once where keys have about as
many rows each and once where a fifth of all rows share one; the join also with hot keys left where their hash puts them. Beside the seconds
stands the largest part of the joined rows, as a multiple of an even one: a worker that gets more works while the others wait. Workers share
this machine's cores, so a stall shows there sooner than in the seconds.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import write_result
from pipeline.backend.threads import worker_environment
from pipeline.stage import Context, Stage
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.join import Join
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import ClusterSession
from pipeline.tables.table import Table
from pipeline.tables.wire import register_with_dask

KEYS, PARTS, HOT = 50_000, 8, 7
SIMPLE = {"rows": "size()", "mean": "mean(x)", "sd": "std(x)"}
WHOLE = {"middle": "median(x)", "kinds": "n_unique(x)"}


@contextmanager
def cluster(workers: int) -> Iterator[ClusterSession]:
    """A session on worker processes of one thread each."""
    from distributed import Client, LocalCluster

    register_with_dask()
    told = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR, "env": worker_environment(1)}
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, **told) as made, Client(made) as client:
        client.run(register_with_dask)
        yield ClusterSession(client, "cpu", workers=workers, threads=1)


def table(session: ClusterSession, rows: int, share: float) -> Table:
    """Rows in parts that the workers hold; so large a share of them has one key."""
    random = np.random.default_rng(1)
    parts = []
    for _ in range(PARTS):
        keys = random.integers(0, KEYS, rows // PARTS)
        keys[random.random(len(keys)) < share] = HOT
        parts.append(
            Part(pl.DataFrame({"key": keys, "x": random.normal(size=len(keys)), "y": keys % 97, "text": [f"row of {k}" for k in keys]}))
        )
    return held(session, parts)


def held(session: ClusterSession, parts: list[Part]) -> Table:
    """A table of parts that lie with the workers."""
    return Table.of(session, "given", session.client.scatter(parts, hash=False), schema=Schema(parts[0].frame.schema))


def measured(stage: Stage, tables: dict[str, Table], session: ClusterSession) -> dict[str, float]:
    """The middle one of three runs' seconds, and of a join the largest part's rows over those of an even one."""
    seconds, most = [], 0.0
    for _ in range(4):
        started = time.perf_counter()
        futures = stage.run(tables, Context("measured", 1, session)).tables[""].futures()
        heights = session.client.gather([session.client.submit(_height, future, pure=False) for future in futures])
        seconds.append(time.perf_counter() - started)
        most = max(heights) * len(heights) / sum(heights)
    largest = {"largest_part": round(most, 2)} if isinstance(stage, Join) else {}
    return {"seconds": round(statistics.median(seconds[1:]), 2), **largest}


def _height(part: Part) -> int:
    return part.frame.height


def main() -> None:
    """Measure all of it and write benchmarks/results/skew-TIME.json."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--rows", type=int, default=4_000_000)
    options.add_argument("--workers", type=int, default=4)
    chosen = options.parse_args()
    found: list[dict[str, Any]] = []
    with cluster(chosen.workers) as session:
        keys = np.arange(KEYS)
        right = held(session, [Part(pl.DataFrame({"key": some, "z": some * 0.5})) for some in np.array_split(keys, PARTS)])
        for share in (0.0, 0.2):
            left = table(session, chosen.rows, share)
            join = Join.model_validate({"on": "key", "how": "left", "method": "exchange"})
            works: dict[str, tuple[Stage, dict[str, Table]]] = {
                "join": (join, {"left": left, "right": right}),
                "join, that key on the right": (join.model_copy(update={"how": "inner"}), {"left": right, "right": left}),
                "aggregate of sums": (Aggregate.model_validate({"by": "key", "compute": SIMPLE}), {"rows": left}),
                "aggregate of whole keys": (Aggregate.model_validate({"by": "key", "compute": WHOLE}), {"rows": left}),
            }
            for name, (stage, tables) in works.items():
                found.append({"work": name, "share_of_one_key": share, **measured(stage, tables, session)})
                print(found[-1], flush=True)
            with patch("pipeline.tables.pairs.divided", return_value=(None, None)):
                found.append({"work": "join without hot keys", "share_of_one_key": share, **measured(*works["join"], session)})
            print(found[-1], flush=True)
    write_result("skew", found, {"rows_in": chosen.rows, "workers": chosen.workers, "load": round(os.getloadavg()[0], 1)})


if __name__ == "__main__":
    main()
