"""Training over several workers by xgboost.dask, where one worker's memory does not hold the rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.boosting import import_xgboost
from pipeline.errors import PipelineError, RunError
from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import Given, with_states
from pipeline.stages.models._measures import class_weights
from pipeline.stages.models._predictor import check_finite
from pipeline.stages.models._training_rows import Labels, TrainingRows, in_key_order
from pipeline.stages.models._trees.booster import Curves, Grown, Trees, native, stopping, telling
from pipeline.stages.models._trees.rounded import warn_of_rounding
from pipeline.stages.models._trees.training import Answers, TrainedTrees, answers, finished, trees_outcome
from pipeline.stages.models._weights import check_some_weight, check_weights, row_weights, training_weights
from pipeline.tables.part import Part, concat_parts, take
from pipeline.tables.session import LOOK_S, ClusterSession, run_task
from pipeline.tables.table import Fitted, Table

COLLECTIVE_TIMEOUT_S = 120  # without it a worker that is cut off hangs training for ever
TRIES = 4  # times that training is begun
WAIT_S = 60.0  # for a worker that was lost to come again
PREDICTED, SHAP = "predicted", "shap"  # arrays of what the model says, which ride along with a part's rows


def train_over_workers(learning: Trees, rows: Table, context: Context) -> Outcome:
    """Train on all workers, parts where they were pinned by the workers' names; predictions are made part by part.

    It waits for the model, since xgboost.dask drives the cluster from here. The model depends on the number of workers and on how the rows
    are divided, and not on which worker was faster, but where one is lost on the way and training begins again: ranks go by addresses.
    """
    assert isinstance(context.session, ClusterSession)
    (client, submit), stage, name = (context.session.client, context.session.submit), learning.stage, learning.name
    given = Given.of(rows, learning.arrays, rows.hold().futures())
    targets = client.gather([submit(_target, learning, part, stage=name) for part in given.parts])
    whole = pl.concat(targets)
    labels = Labels.of(stage, whole)
    labels.check(stage, whole[stage.target], validation=bool(stage.early_stopping_rounds))
    check_some_weight(stage, row_weights(stage, whole), labels)
    names = learning.feature_names(client.gather(given.axes))
    pieces = list(zip(given.parts, targets, strict=True))
    with context.session.fixed_workers(name):
        content, curves = _trained(learning, context.session, pieces, class_weights(stage, labels), names)
    model = client.scatter(content, broadcast=False)
    predicted = [submit(_predicted, learning, model, part, names, stage=name) for part in given.parts]
    trained = submit(_finished, learning, (model, curves), predicted, names, given.steps, given.states, stage=name)
    warnings = warn_of_rounding(learning.columns, given.parts, context)
    return replace(trees_outcome(learning, trained, context), warnings=warnings)


def _trained(
    learning: Trees, session: ClusterSession, pieces: Sequence[tuple[Any, pl.DataFrame]], weigh: Callable[[Any], Any], names: list[str]
) -> tuple[bytes, Curves]:
    """The model's bytes and how training went, from parts and their targets; begun again, on all workers, where one was lost.

    What a lost worker raises is of many kinds, so all but our own errors count as that. Raises RunError after `TRIES` times.
    """
    tried = 0
    while True:
        before = {*session.client.nthreads()}
        try:
            return _trained_once(learning, session, pieces, weigh, names)
        except PipelineError:
            raise
        except Exception as error:
            tried += 1
            missing = _all_there(session.client, len(before)) if session.client.status == "running" else ""
            said = " ".join(str(error).partition("Stack trace")[0].split())
            why = f"XGBoost and Dask say: {type(error).__name__}: {said}"
            if tried == TRIES or session.client.status != "running" or {*session.client.nthreads()} == before:
                what = "its workers may have been lost (out of memory?). Run again, or train with workers: one."
                raise RunError(f"training over workers failed (time {tried} of {TRIES} at most); {what} {why}") from error
        session.notes.append(f"{learning.name}: training began again{missing}; the model may be another one, about as good. {why}")


def _all_there(client: Any, workers: int) -> str:
    """Wait until so many workers answer: one that is gone is still in the list for a moment.

    What to say where fewer come.
    """
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        try:
            client.wait_for_workers(workers, timeout=WAIT_S)
            if len(client.run(os.getpid)) >= workers:
                return ""
        except OSError:
            time.sleep(LOOK_S)
    return f" on {len(client.nthreads())} of {workers} workers"


def _trained_once(
    learning: Trees, session: ClusterSession, pieces: Sequence[tuple[Any, pl.DataFrame]], weigh: Callable[[Any], Any], names: list[str]
) -> tuple[bytes, Curves]:
    """The same on the workers that are there. Who waits is told of the rounds, and may give training up."""
    xgb = import_xgboost(lean=learning.lean)
    from xgboost import dask as dxgb

    settings = xgb.collective.Config(timeout=COLLECTIVE_TIMEOUT_S, tracker_timeout=COLLECTIVE_TIMEOUT_S)
    train, watched = _matrices(learning, session.client, pieces, weigh, names)
    more = {"evals": watched, "callbacks": [*stopping(learning), telling(learning)], "coll_cfg": settings, "verbose_eval": False}

    async def training() -> Any:
        """What train gives to await where it is called on the client's own loop."""
        with xgb.config_context(verbosity=0):  # a thread's own, which train hands on to the workers
            started = dxgb.train(session.client, native(learning), train, learning.stage.rounds, **more)
        return await started

    result = session.wait(training())
    return bytes(result["booster"].save_raw(learning.stage.suffix)), result["history"]


def _matrices(
    learning: Trees, client: Any, pieces: Sequence[tuple[Any, pl.DataFrame]], weigh: Callable[[Any], Any], names: list[str]
) -> tuple[Any, Any]:
    """The matrix to train on and those to watch, last what early stopping looks at.

    Only as many workers as have rows of each: one with none of them stops training where a feature is categorical.
    """
    counted = {split: [(part, _count(learning, frame, split)) for part, frame in pieces] for split in ("train", "validation")}
    filled = {split: found for split, parts in counted.items() if (found := [(part, count) for part, count in parts if count])}
    known = client.sync(client.scheduler.identity, n_workers=-1)["workers"]  # the client's own list may still have one that is gone
    addresses = sorted(known, key=lambda address: str(known[address]["name"]))[: min(map(len, filled.values()))]
    pinned: dict[str, list[tuple[Any, int]]] = {}
    for split, found in filled.items():
        pinned[split] = []
        for number, (part, count) in enumerate(found):
            place = {"workers": [addresses[number % len(addresses)]], "allow_other_workers": True, "pure": False}
            pinned[split].append((client.submit(run_task, learning.name, _block, learning, part, split, weigh, **place), count))
    _await([block for blocks in pinned.values() for block, _ in blocks])
    train = _matrix(learning, client, pinned["train"], names)
    watched = [(_matrix(learning, client, pinned[split], names, ref=train), split) for split in filled if split != "train"]
    return train, [(train, "train"), *watched] if learning.stage.watch == "both" else watched


def _await(blocks: Sequence[Any]) -> None:
    """Wait until all are made. Raises the error of one that failed."""
    from distributed import wait

    wait(blocks)
    for block in blocks:
        if block.status == "error":
            raise block.exception()


def _matrix(learning: Trees, client: Any, blocks: Sequence[tuple[Any, int]], names: list[str], ref: Any = None) -> Any:
    """A distributed quantile matrix of blocks, each a future and its number of rows."""
    import dask.array as da
    from dask import delayed
    from xgboost import dask as dxgb

    pieces = [(delayed(block), count) for block, count in blocks]
    features = da.concatenate([da.from_delayed(piece[0], (count, len(names)), np.float32) for piece, count in pieces])
    labels = da.concatenate([da.from_delayed(piece[1], (count,), np.float64) for piece, count in pieces])
    weights = da.concatenate([da.from_delayed(piece[2], (count,), np.float64) for piece, count in pieces])
    types = learning.stage.feature_types(names)
    options = {"weight": weights, "feature_names": names, "feature_types": types, "enable_categorical": True}
    options |= {"max_bin": learning.stage.max_bin} | ({} if ref is None else {"ref": ref})
    return dxgb.DaskQuantileDMatrix(client, features, labels, **options)


def _target(learning: Trees, part: Part) -> pl.DataFrame:
    stage = learning.stage
    check_weights(stage, part.frame, Labels.of(stage, part.frame))
    return part.frame.select(sorted({*stage.row_columns, *stage.aside_columns} - {stage.key}))


def _count(learning: Trees, rows: pl.DataFrame, split: str) -> int:
    return int(Labels.of(learning.stage, rows).of_split(split).sum())


def _block(learning: Trees, part: Part, split: str, weigh: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Features, labels and weights of a part's rows of one split, of which there are some."""
    check_finite(learning.columns, part.frame, pl.Float32())
    labels = Labels.of(learning.stage, part.frame)
    wanted = np.flatnonzero(labels.of_split(split))
    chosen = Part(part.frame[wanted], {name: take(array, wanted) for name, array in part.arrays.items()})
    values, own = labels.values[wanted], row_weights(learning.stage, chosen.frame)
    given = training_weights(weigh, values, own)
    return learning.matrix(chosen), values, np.ones(len(values)) if given is None else given


def _loaded(model: bytes) -> Any:
    xgb = import_xgboost()
    booster = xgb.Booster()
    booster.load_model(bytearray(model))
    return booster


def _predicted(learning: Trees, model: bytes, part: Part, names: list[str]) -> Part:
    check_finite(learning.columns, part.frame, pl.Float32())
    said = answers(learning, _loaded(model), TrainingRows.of(learning.stage, part), names)
    kept = [*learning.stage.row_columns, *learning.stage.categorical, *learning.stage.aside_columns]
    return Part(part.frame.select(kept), {PREDICTED: said.predicted} | ({} if said.shap is None else {SHAP: said.shap}))


def _finished(
    learning: Trees,
    model: tuple[bytes, Curves],
    predicted: Sequence[Part],
    names: list[str],
    steps: Sequence[Fitted],
    states: Sequence[Part],
) -> TrainedTrees:
    whole = in_key_order(learning.stage, concat_parts(predicted))
    rows, (content, curves) = TrainingRows.of(learning.stage, Part(whole.frame)), model
    said = Answers(whole.arrays[PREDICTED], whole.arrays.get(SHAP))
    return finished(learning, Grown(_loaded(content), curves), rows, said, (names, with_states(steps, states)))
