"""The rows as XGBoost's matrices: binned as they stream by, and kept whole in memory or, batch by batch, outside of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pipeline.backend.arrays import to_device
from pipeline.backend.boosting import gpu_memory, import_xgboost
from pipeline.backend.glibc import freed_stays
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._measures import class_weights
from pipeline.stages.models._predictor import COLUMNS
from pipeline.stages.models._training_rows import TrainingRows
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.draws import Draws
from pipeline.stages.models._trees.groups import group_codes, group_sizes
from pipeline.stages.models._weights import row_weights, training_weights
from pipeline.tables.part import Part
from pipeline.tables.task import this_worker

HELD_BYTES, HELD_SHARE = 256 << 20, 0.03  # features up to these are converted once, not once a pass
SHARE, SHARE_OF_GPU = 0.3, 0.5  # features beyond it, in 32 bits, train from external memory; they and their bins took 2.8 times that
SHARE_FROM_DISK = 0.5  # where they stay on disk: bins alone took 1.6 times that
OWN_BYTES = 400 << 20  # of a worker's memory: what a process has that trains nothing, its libraries and the parts at hand

PLAIN_BYTES, PLAIN_SHARE = 256 << 20, 0.04  # validation rows (eight bytes a feature, as XGBoost has them) up to these are not binned

T = TypeVar("T")
Batches = Callable[[], Iterator[tuple[Any, Any]]]


@dataclass(frozen=True)
class Matrices:
    """What is trained on, what is watched (by name; early stopping looks at the last), and whether they lie outside of memory.

    `draws` say which rows a tree sees, where XGBoost does not draw them itself.
    """

    train: Any
    watched: list[tuple[Any, str]]
    external: bool = False
    draws: Draws | None = None


def on_matrices(learning: Learning[BoostedTrees], rows: TrainingRows, names: list[str], use: Callable[[Matrices], T]) -> T:
    """What `use` makes of the matrices, which it must not keep: what was cached on a disk is removed at the end.

    Kept whole or outside, they hold the same bins: of the same batches in the same order.
    """
    external = is_external(learning, rows.part.rows, len(names), from_disk=rows.stack is not None)
    with _cache() if external else nullcontext() as folder, nullcontext() if external else freed_stays():
        made = _made(learning, rows, names, folder)
        result = use(made)
        del made  # XGBoost removes its files with its matrices, and complains of those that are gone already
        return result


def _made(learning: Learning[BoostedTrees], rows: TrainingRows, names: list[str], folder: str | None) -> Matrices:
    """The matrices; those outside of memory are cached in a folder."""
    xgb, stage = import_xgboost(lean=learning.lean), learning.stage
    about = {"feature_names": names, "feature_types": stage.feature_types(names)}
    options: dict[str, Any] = {"max_bin": stage.max_bin, "enable_categorical": True, "nthread": learning.threads}
    kind = xgb.ExtMemQuantileDMatrix if folder else xgb.QuantileDMatrix
    labels, weigh, weights = rows.labels.values, class_weights(stage, rows.labels), row_weights(stage, rows.part.frame)

    def given(places: Any) -> dict[str, Any]:
        """What XGBoost is told of the rows at some places beside their features."""
        own = None if weights is None else weights[places]
        return {"label": labels[places], "weight": training_weights(weigh, labels[places], own), **about}

    def binned(split: str, **ref: Any) -> Any:
        """The rows of a split, batch by batch; those of validation by the bins of the training rows."""
        batches = _passes(learning, rows, split, folder is not None)
        return kind(data_iter(xgb, batches, given, cache=folder and f"{folder}/{split}"), **ref, **options)

    codes, watched = group_codes(stage, rows.part.frame), list[tuple[Any, str]]()
    for split in ("train", "validation"):
        if (of := rows.labels.of_split(split)).any():
            plain = watched and not folder and _are_plain(learning, int(of.sum()), len(names))
            ref = {"ref": watched[0][0]} if watched else {}
            watched.append((_as_they_are(xgb, learning, rows, given) if plain else binned(split, **ref), split))
            if codes is not None:
                watched[-1][0].set_group(group_sizes(codes[of]))
    return Matrices(watched[0][0], watched if stage.watch == "both" else watched[1:], folder is not None)


def _are_plain(learning: Learning[BoostedTrees], rows: int, features: int) -> bool:
    """Whether so many validation rows are taken as they are: few enough of numbers, in the memory of the host."""
    fits = 8 * rows * features <= _most(PLAIN_BYTES, PLAIN_SHARE)
    return learning.backend == "cpu" and not learning.stage.categorical and fits


def _most(least: int, share: float) -> float:
    """So many bytes, or that share of the worker's memory."""
    return max(least, share * (worker_memory() or 0))


def _as_they_are(xgb: Any, learning: Learning[BoostedTrees], rows: TrainingRows, given: Callable[[Any], Mapping[str, Any]]) -> Any:
    """The validation rows by their values: trees send them the same way as their bins, in a third of the time."""
    places, pieces = zip(*rows.chosen("validation"), strict=True)
    features = np.concatenate([learning.matrix(piece) for piece in pieces])
    return xgb.DMatrix(features, **given(np.concatenate(places)), nthread=learning.threads)


def is_external(learning: Learning[BoostedTrees], rows: int, features: int, *, from_disk: bool = False) -> bool:
    """Whether so many rows train from external memory: as the job says, else by the room that there is."""
    if learning.stage.memory != "auto":
        return learning.stage.memory == "external"
    of_host = worker_memory(), SHARE_FROM_DISK if from_disk else SHARE, OWN_BYTES
    room, share, own = (gpu_memory(), SHARE_OF_GPU, 0) if learning.backend == "gpu" else of_host
    return room is not None and 4 * rows * features > share * (room - own)


def worker_memory() -> int | None:
    """The memory limit of the worker that runs this task; None where there is none."""
    worker = this_worker()
    limit = worker.memory_manager.memory_limit if worker is not None else None
    return int(limit) if limit else None


@contextmanager
def _cache() -> Iterator[str]:
    """A folder for what XGBoost writes, beside what the worker spills; removed with all that is in it."""
    worker = this_worker()
    place = Path(worker.local_directory) if worker is not None else None
    with tempfile.TemporaryDirectory(prefix="xgboost-", dir=place if place and place.is_dir() else None) as folder:
        yield folder


def _passes(learning: Learning[BoostedTrees], rows: TrainingRows, split: str, external: bool) -> Batches:
    """The batches of one split as often as they are asked for (XGBoost goes over them several times): held where they are small.

    On a GPU they go there first: XGBoost bins where a batch lies. On a CPU, where there are no arrays, it takes the frame, which it bins
    faster than the matrix.
    """

    def on_gpu(part: Part) -> Any:
        """A part's features, where XGBoost bins them."""
        return to_device(learning.matrix(part), "gpu")

    in_arrays = bool(learning.arrays) or COLUMNS in rows.part.arrays
    if learning.columns and COLUMNS not in rows.part.arrays and rows.stack is None:  # a frame without columns has no rows
        rows = TrainingRows(rows.part.replaced(rows.part.frame.select(learning.columns)), rows.labels)
    features = on_gpu if learning.backend == "gpu" else learning.matrix if learning.arrays else learning.frame

    def batches() -> Iterator[tuple[Any, Any]]:
        """The features of every batch and the rows' places."""
        return ((features(piece), places) for places, piece in rows.chosen(split))

    held = 4 * len(learning.columns) * rows.part.rows <= _most(HELD_BYTES, HELD_SHARE)
    if not held or in_arrays or external or rows.stack:
        return batches
    return list(batches()).__iter__


def data_iter(xgb: Any, batches: Batches, given: Callable[[Any], Mapping[str, Any]], *, cache: str | None = None) -> Any:
    """XGBoost's DataIter over batches of features, with what is `given` of their rows; beside a GPU the cache is the host's memory."""
    state = {"at": batches()}

    def advance(_self: Any, input_data: Any) -> bool:
        """Hand over the next batch; False where there is none."""
        for features, places in state["at"]:
            input_data(data=features, **given(places))
            return True
        return False

    def reset(_self: Any) -> None:
        """Begin again."""
        state["at"] = batches()

    made = type("Batches", (xgb.DataIter,), {"next": advance, "reset": reset})
    return made(cache_prefix=cache) if cache else made()
