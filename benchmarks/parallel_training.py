"""Which way of training over several devices wins when: python benchmarks/parallel_training.py [--devices N] [--small].

Steps of networks of three widths, on batches of two sizes, over devices of one process, in every way of `network`. For each it fits
T = D/n + C/v: a step's time from that of one device, shared by the cores, and from the bytes that are sent. The devices of a CPU share its
cores, so what it shows here is what exchanging costs, and not how fast more devices are.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import write_result
from pipeline.backend.neural import HOST_DEVICES, neural_devices
from pipeline.backend.threads import cores
from pipeline.neural.asynchronous import Lesson, driven, learners_here
from pipeline.neural.compressed import Compression
from pipeline.neural.mesh import Batch, MeshSteps, Task
from pipeline.neural.parameter_server import ParameterServer
from pipeline.neural.perceptron import Perceptron, Shape, initial
from pipeline.neural.pipelined import PipelinedSteps
from pipeline.neural.rules import Rule
from pipeline.neural.training import Rows

FEATURES, LAYERS, PIECES = 64, 4, 8
WIDTHS, BATCHES = (64, 256, 1_024), (256, 2_048)
WAYS = ("one", "data", "data int8", "data top_k", "model", "pipeline", "asynchronous")
STEPS, STALENESS = 20, 4  # of asynchronous learners, which are timed while they train


def task(width: int, accumulate: int, compression: Compression | None) -> Task:
    """Four hidden layers of a width, trained by AdamW."""
    shape = Shape(FEATURES, (), (width,) * LAYERS, 1)
    return Task(Perceptron(shape), "binary", Rule("adamw", 0.001, 0.9, 1e-4, "constant", 1_000, 0), None, accumulate, compression)


def batch(rows: int) -> Batch:
    """Random rows."""
    random, ones = np.random.default_rng(1), np.ones(rows, np.float32)
    numbers = random.normal(size=(rows, FEATURES)).astype(np.float32)
    keys, codes = np.zeros(rows, np.uint32), np.zeros((rows, 0), np.int32)
    return {"numbers": numbers, "codes": codes, "targets": ones, "weighs": ones / np.float32(rows), "real": ones, "keys": keys}


def measured(way: str, width: int, rows: int, devices: int) -> dict[str, Any]:
    """What a step costs one way."""
    count = 1 if way == "one" else min(devices, LAYERS + 1) if way == "pipeline" else devices
    compression = Compression(way.partition(" ")[2]) if " " in way else None
    told, found = task(width, PIECES if way == "pipeline" else 1, compression), neural_devices("cpu", count)
    if way == "asynchronous":
        given = by_learners(told, rows, count)
    else:
        steps: Any = PipelinedSteps(told, found) if way == "pipeline" else MeshSteps(told, found, count if way == "model" else 1)
        given = steps.cost(initial(told.network.shape, 1, []), batch(rows))
    cost = {name: round(float(value), 3) for name, value in given.items()}
    print(f"width {width}, batch {rows}, {way} of {count}: {cost}", flush=True)
    return {"way": way, "width": width, "batch": rows, **cost}


def by_learners(told: Task, rows: int, learners: int) -> dict[str, Any]:
    """What a step costs learners in threads, which train for one epoch."""
    arrays = {name: np.concatenate([array] * STEPS) for name, array in batch(rows).items() if name not in {"real", "keys"}}
    server, lesson = ParameterServer(learners, STALENESS), Lesson(told, Rows(arrays, rows), 1, learners)
    with learners_here(server, lesson), driven(server, lesson, 1, lambda: None) as (steps, ticks):
        state = steps.begun(initial(told.network.shape, 1, []))
        for tick in ticks.batches(1, 0):
            state, _ = steps.step(state, tick)
        return steps.cost({}, {})


def fitted(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By way, D/n and C/v of each step: what one device's step is multiplied by where the cores share it, and bytes a millisecond.

    n is the number of devices, or of cores where those are fewer; neither term is negative. The machine's load stands beside the result:
    times of a busy one say little.
    """
    alone = {(row["width"], row["batch"]): row["step_ms"] for row in rows if row["way"] == "one"}
    found = {}
    for way in WAYS[1:]:
        mine = [row for row in rows if row["way"] == way]
        shared = np.array([alone[row["width"], row["batch"]] / min(row["devices"], cores()) for row in mine])
        sent, times = np.array([row["bytes_sent"] for row in mine]), np.array([row["step_ms"] for row in mine])
        scale = np.column_stack([shared, sent]) / times[:, None]
        (factor, each), _ = nnls(scale, np.ones(len(mine)))
        error = np.abs(scale @ [factor, each] - 1)
        speed = round(1 / each) if each > 0 else None
        found[way] = {
            "of_one_devices_step": round(float(factor), 3),
            "bytes_a_ms": speed,
            "median_error": round(float(np.median(error)), 3),
        }
    return found


def winners(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fastest way over several devices of each width and batch, and how it compares with one."""
    found = []
    for width in WIDTHS:
        for size in BATCHES:
            mine = {row["way"]: row["step_ms"] for row in rows if (row["width"], row["batch"]) == (width, size)}
            best = min(WAYS[1:], key=lambda way: mine[way])
            found.append({"width": width, "batch": size, "wins": best, "speed_of_one": round(mine["one"] / mine[best], 3)})
    return found


def main() -> None:
    """Measure every way and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--devices", type=int, default=HOST_DEVICES)
    options.add_argument("--small", action="store_true", help="the smallest width and batch alone: whether it runs; nothing is written")
    chosen = options.parse_args()
    if chosen.small:
        print(fitted([measured(way, WIDTHS[0], BATCHES[0], chosen.devices) for way in WAYS]))
        return
    rows = [measured(way, width, size, chosen.devices) for width in WIDTHS for size in BATCHES for way in WAYS]
    libraries = {name: version(name) for name in ("jax", "flax", "optax")}
    about = {"load": round(os.getloadavg()[0], 1), "libraries": libraries, "fit": fitted(rows), "winners": winners(rows)}
    write_result("parallel_training", rows, about)


if __name__ == "__main__":
    main()
