"""Training over several workers by xgboost.dask, where one worker's memory does not hold the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend import import_xgboost
from pipeline.errors import DataError, RunError
from pipeline.part import Part, concat_parts
from pipeline.session import ClusterSession
from pipeline.stage import Context, Outcome
from pipeline.stages.models._task import SPLITS, Rows, Task, class_weights
from pipeline.stages.models._training import check_target, finished, outcome, predict
from pipeline.table import Table

COLLECTIVE_TIMEOUT_S = 120  # without it a frozen worker hangs training for ever


def train_over_workers(task: Task, rows: Table, axes: Sequence[Any], fitted: Sequence[tuple[Any, Any]], context: Context) -> Outcome:
    """Train on all workers, parts where they were pinned by the workers' names; predictions are made part by part.

    It waits for the model, since xgboost.dask drives the cluster from here. The model depends on the number of workers (in its last
    digits), and not on which of them was faster.
    """
    assert isinstance(context.session, ClusterSession)
    client, submit = context.session.client, context.session.submit
    parts = rows.hold().futures()
    targets = [submit(_target, task, part, stage=task.stage) for part in parts]
    whole = pl.concat(client.gather(targets))
    labels, split = task.labels(whole), task.split(whole)
    check_target(task, whole, labels, split)
    names = task.names([axis.frame for axis in client.gather(list(axes))])
    weights = class_weights(task, labels[(split == SPLITS.index("train")) & ~np.isnan(labels)])
    model = _train(task, client, parts, weights, names)
    booster = client.scatter(model, broadcast=False)
    described, states = [about for about, _ in fitted], [state for _, state in fitted]
    predicted = [submit(_predicted, task, booster, part, stage=task.stage) for part in parts]
    trained = submit(_finished, task, described, (len(parts), len(axes)), booster, *predicted, *axes, *states, stage=task.stage)
    return outcome(task, trained, context)


def _train(task: Task, client: Any, parts: Sequence[Any], weights: Any, names: list[str]) -> bytes:
    from distributed import wait

    xgb = import_xgboost()
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"].items(), key=lambda item: str(item[1]["name"]))
    pinned: dict[str, list[Any]] = {"train": [], "validation": []}
    for split, blocks in pinned.items():
        for part in parts:
            address = workers[len(blocks) % len(workers)][0]
            future = client.submit(_block, task, part, split, weights, workers=[address], allow_other_workers=True, pure=False)
            blocks.append(future)
    wait([future for blocks in pinned.values() for future in blocks])
    train = _matrix(task, client, pinned["train"], names)
    watched = [(_matrix(task, client, pinned["validation"], names, ref=train), "validation")] if task.p["early_stopping_rounds"] else []
    settings = xgb.collective.Config(timeout=COLLECTIVE_TIMEOUT_S, tracker_timeout=COLLECTIVE_TIMEOUT_S)
    stop = task.p["early_stopping_rounds"]
    try:
        from xgboost import dask as dxgb

        result = dxgb.train(
            client, task.parameters(), train, task.p["rounds"], evals=watched, early_stopping_rounds=stop, coll_cfg=settings
        )
    except (xgb.core.XGBoostError, RuntimeError, OSError) as error:
        raise RunError(f"stage {task.stage}: training over {len(workers)} workers failed: {error}. A worker may have been lost.") from error
    return bytes(result["booster"].save_raw("ubj"))


def _matrix(task: Task, client: Any, blocks: Sequence[Any], names: list[str], ref: Any = None) -> Any:
    """A distributed quantile matrix of the blocks that have rows."""
    import dask.array as da
    from dask import delayed
    from xgboost import dask as dxgb

    rows = client.gather([client.submit(_rows, block) for block in blocks])
    filled = [(block, count) for block, count in zip(blocks, rows, strict=True) if count]
    if not filled:
        raise DataError(f"stage {task.stage}: there is no row to train on")
    pieces = [(delayed(block), count) for block, count in filled]
    features = da.concatenate([da.from_delayed(piece[0], (count, len(names)), np.float32) for piece, count in pieces])
    labels = da.concatenate([da.from_delayed(piece[1], (count,), np.float64) for piece, count in pieces])
    weights = da.concatenate([da.from_delayed(piece[2], (count,), np.float64) for piece, count in pieces])
    options = {"weight": weights, "feature_names": names, "feature_types": task.types(names), "enable_categorical": True}
    options |= {"max_bin": task.p["max_bin"]} | ({} if ref is None else {"ref": ref})
    return dxgb.DaskQuantileDMatrix(client, features, labels, **options)


def _target(task: Task, part: Part) -> pl.DataFrame:
    names = {name for name in (task.p["target"], task.p["split"]) if name}
    return part.frame.select(sorted(names))


def _block(task: Task, part: Part, split: str, weights: Any) -> tuple[Any, Any, Any]:
    rows = Rows.of(task, part)
    wanted = rows.of_split(split)
    labels, features = rows.labels[wanted], task.matrix(part)[wanted]
    given = weights(labels)
    return features, labels, np.ones(len(labels)) if given is None else given


def _rows(block: tuple[Any, Any, Any]) -> int:
    return len(block[1])


def _loaded(model: bytes) -> Any:
    xgb = import_xgboost()
    booster = xgb.Booster()
    booster.load_model(bytearray(model))
    return booster


def _predicted(task: Task, model: bytes, part: Part) -> Part:
    kept = [name for name in (task.p["key"], task.p["split"], task.p["target"]) if name]
    predicted = predict(task, _loaded(model), Rows.of(task, part))
    return Part(part.frame.select(kept), {"predicted": predicted})


def _finished(task: Task, described: Sequence[dict[str, Any]], counts: tuple[int, int], model: bytes, *values: Part) -> Any:
    parts, axes = values[: counts[0]], [part.frame for part in values[counts[0] : sum(counts)]]
    states = [part.frame for part in values[sum(counts) :]]
    whole = concat_parts(parts)
    order = whole.frame[task.p["key"]].arg_sort()
    frame, predicted = whole.frame[order], whole.arrays["predicted"][order.to_numpy()]
    rows = Rows(task, Part(frame), task.labels(frame), task.split(frame), None)
    return finished(task, _loaded(model), rows, predicted, (axes, described, states))
