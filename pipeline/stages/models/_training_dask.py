"""Training over several workers by xgboost.dask, where one worker's memory does not hold the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.boosting import import_xgboost
from pipeline.errors import PipelineError, RunError
from pipeline.stage import Context, Outcome
from pipeline.stages.models._task import Rows, Task, chosen_rows, class_weights
from pipeline.stages.models._training import check_target, finished, in_key_order, outcome, predict, stopping
from pipeline.tables.part import Part, concat_parts, take
from pipeline.tables.session import ClusterSession, run_task
from pipeline.tables.table import Table

COLLECTIVE_TIMEOUT_S = 120  # without it a frozen worker hangs training for ever


def train_over_workers(task: Task, rows: Table, axes: Sequence[Any], fitted: Sequence[tuple[Any, Any]], context: Context) -> Outcome:
    """Train on all workers, parts where they were pinned by the workers' names; predictions are made part by part.

    It waits for the model, since xgboost.dask drives the cluster from here. The model depends on the number of workers and on how the rows
    are divided (in its last digits), and not on which worker was faster. Raises RunError where a worker is lost on the way.
    """
    assert isinstance(context.session, ClusterSession)
    client, submit = context.session.client, context.session.submit
    parts = rows.hold().futures()
    targets = client.gather([submit(_target, task, part, stage=task.stage) for part in parts])
    whole = pl.concat(targets)
    labels, split = task.labels(whole), task.split(whole)
    check_target(task, whole, labels, split)
    names = task.names([axis.frame for axis in client.gather(list(axes))])
    weigh = class_weights(task, labels[chosen_rows(labels, split, "train")])
    booster = client.scatter(_trained(task, client, (parts, targets), weigh, names), broadcast=False)
    described, states = [about for about, _ in fitted], [state for _, state in fitted]
    predicted = [submit(_predicted, task, booster, part, stage=task.stage) for part in parts]
    trained = submit(_finished, task, described, (len(parts), len(axes)), booster, *predicted, *axes, *states, stage=task.stage)
    return outcome(task, trained, context)


def _trained(task: Task, client: Any, rows: tuple[Sequence[Any], Sequence[pl.DataFrame]], weigh: Any, names: list[str]) -> bytes:
    """The model's bytes. What a lost worker raises is of many kinds, so all but our own errors become a RunError."""
    xgb = import_xgboost(lean=task.lean)
    from xgboost import dask as dxgb

    settings = xgb.collective.Config(timeout=COLLECTIVE_TIMEOUT_S, tracker_timeout=COLLECTIVE_TIMEOUT_S)
    try:
        train, watched = _matrices(task, client, rows, weigh, names)
        more = {"evals": watched, "callbacks": stopping(task), "coll_cfg": settings, "verbose_eval": False}
        with xgb.config_context(verbosity=0):  # it would print every worker's rank
            result = dxgb.train(client, task.parameters(), train, task.p["rounds"], **more)
    except PipelineError:
        raise
    except Exception as error:
        said = " ".join(str(error).partition("Stack trace")[0].split())
        raise RunError(
            f"training over workers failed, one of them may have been lost (out of memory?). Run again, or train with "
            f"workers: one. XGBoost and Dask say: {type(error).__name__}: {said}"
        ) from error
    return bytes(result["booster"].save_raw("ubj"))


def _matrices(task: Task, client: Any, rows: tuple[Sequence[Any], Sequence[pl.DataFrame]], weigh: Any, names: list[str]) -> tuple[Any, Any]:
    """The matrix to train on and those to watch.

    Only as many workers as have rows of each: one with none of them stops training where a feature is categorical.
    """
    splits = ["train", "validation"] if task.p["early_stopping_rounds"] else ["train"]
    filled = {split: [(part, n) for part, frame in zip(*rows, strict=True) if (n := _count(task, frame, split))] for split in splits}
    known = client.scheduler_info(n_workers=-1)["workers"]
    addresses = sorted(known, key=lambda address: str(known[address]["name"]))[: min(map(len, filled.values()))]
    pinned: dict[str, list[tuple[Any, int]]] = {}
    for split, pieces in filled.items():
        pinned[split] = []
        for number, (part, count) in enumerate(pieces):
            place = {"workers": [addresses[number % len(addresses)]], "allow_other_workers": True, "pure": False}
            pinned[split].append((client.submit(run_task, task.stage, _block, task, part, split, weigh, **place), count))
    _await([block for pieces in pinned.values() for block, _ in pieces])
    train = _matrix(task, client, pinned["train"], names)
    return train, [(_matrix(task, client, pinned[split], names, ref=train), split) for split in splits[1:]]


def _await(blocks: Sequence[Any]) -> None:
    """Wait until all are made. Raises the error of one that failed."""
    from distributed import wait

    wait(blocks)
    for block in blocks:
        if block.status == "error":
            raise block.exception()


def _matrix(task: Task, client: Any, blocks: Sequence[tuple[Any, int]], names: list[str], ref: Any = None) -> Any:
    """A distributed quantile matrix of blocks, each a future and its number of rows."""
    import dask.array as da
    from dask import delayed
    from xgboost import dask as dxgb

    pieces = [(delayed(block), count) for block, count in blocks]
    features = da.concatenate([da.from_delayed(piece[0], (count, len(names)), np.float32) for piece, count in pieces])
    labels = da.concatenate([da.from_delayed(piece[1], (count,), np.float64) for piece, count in pieces])
    weights = da.concatenate([da.from_delayed(piece[2], (count,), np.float64) for piece, count in pieces])
    options = {"weight": weights, "feature_names": names, "feature_types": task.types(names), "enable_categorical": True}
    options |= {"max_bin": task.p["max_bin"]} | ({} if ref is None else {"ref": ref})
    return dxgb.DaskQuantileDMatrix(client, features, labels, **options)


def _target(task: Task, part: Part) -> pl.DataFrame:
    names = {name for name in (task.p["target"], task.p["split"]) if name}
    return part.frame.select(sorted(names))


def _count(task: Task, rows: pl.DataFrame, split: str) -> int:
    return int(chosen_rows(task.labels(rows), task.split(rows), split).sum())


def _block(task: Task, part: Part, split: str, weigh: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Features, labels and weights of a part's rows of one split, of which there are some."""
    rows = Rows.of(task, part)
    wanted = np.flatnonzero(rows.of_split(split))
    chosen = Part(part.frame[wanted], {name: take(array, wanted) for name, array in part.arrays.items()})
    labels = rows.labels[wanted]
    given = weigh(labels)
    return task.matrix(chosen), labels, np.ones(len(labels)) if given is None else given


def _loaded(model: bytes) -> Any:
    xgb = import_xgboost()
    booster = xgb.Booster()
    booster.load_model(bytearray(model))
    return booster


def _predicted(task: Task, model: bytes, part: Part) -> Part:
    kept = [name for name in (task.p["key"], task.p["split"], task.p["target"]) if name]
    return Part(part.frame.select(kept), {"predicted": predict(_loaded(model), Rows.of(task, part))})


def _finished(task: Task, described: Sequence[dict[str, Any]], counts: tuple[int, int], model: bytes, *values: Part) -> Any:
    parts, axes = values[: counts[0]], [part.frame for part in values[counts[0] : sum(counts)]]
    states = [part.frame for part in values[sum(counts) :]]
    whole = in_key_order(task, concat_parts(parts))
    rows = Rows(task, Part(whole.frame), task.labels(whole.frame), task.split(whole.frame))
    return finished(task, _loaded(model), rows, whole.arrays["predicted"], (axes, described, states))
