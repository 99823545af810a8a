"""Training over several workers, where one worker's memory does not hold the rows: the model that one task would train."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.backend.arrays import to_host
from pipeline.errors import RunError
from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import Given, predictions, with_states
from pipeline.stages.models._training_rows import Labels, TrainingRows, in_key_order
from pipeline.stages.models._trees.booster import Grown, Trees, loaded, native
from pipeline.stages.models._trees.cuts import cuts_of
from pipeline.stages.models._trees.ordering import Ordering, ordered, row_facts
from pipeline.stages.models._trees.rounded import warn_of_rounding
from pipeline.stages.models._trees.shards import Block, Common, Shards, Trained
from pipeline.stages.models._trees.tracker import start_tracker
from pipeline.stages.models._trees.trained import Answers, TrainedTrees, answers, checked, finished, trees_outcome
from pipeline.stages.models._weights import row_weights, training_weights
from pipeline.tables.part import Part, concat_parts, take
from pipeline.tables.session import ClusterSession
from pipeline.tables.table import Fitted, Table
from pipeline.tables.together import LostError, Together, host_of

GROUP_BYTES = 256 << 20  # of the features that one task cuts
MOST_LOST = 3  # times in a row that training gets no further
PAUSE_S = 2.0  # before it is begun again, and once more as long after each
WAIT_S = 60.0  # for a worker that was lost to come again
PREDICTED, SHAP = "predicted", "shap"  # arrays of what the model says, which ride along with a part's rows


def train_over_workers(learning: Trees, rows: Table, context: Context) -> Outcome:
    """Train on all workers; predictions are made part by part. It waits for the model, since tasks train together.

    Bins, draws and the first margin are those of one task, so trees are the same but for the order in which gradients are summed.
    """
    session = context.session
    assert isinstance(session, ClusterSession)
    held = rows.hold()
    learning, given = learning.kept_in(context), Given.of(rows, learning.arrays, held.futures())
    names = learning.feature_names(session.value(given.axes))
    with session.fixed_workers(learning.name):
        content, curves, found = _Training(learning, session, names, given.parts).model()
    model = session.client.scatter(content, broadcast=False)
    predicted = [session.submit(_predicted, learning, model, part, names, stage=learning.name) for part in given.parts]
    told = (model, curves, found), predicted, names, given.steps, given.states
    trained = session.submit(_finished, learning, *told, stage=learning.name)
    warnings = warn_of_rounding(learning.columns, held, context)
    return replace(trees_outcome(learning, trained, context), warnings=warnings)


@dataclass(frozen=True)
class _Shared:
    """The rows as tasks will train on them: of every shard its blocks by split, and what all are told."""

    blocks: list[dict[str, list[Any]]]
    common: Common


class _Training:
    """One training over the workers of a session, of parts that are there."""

    def __init__(self, learning: Trees, session: ClusterSession, names: list[str], parts: Sequence[Any]) -> None:
        self._learning, self._session, self._names, self._parts = learning, session, names, parts
        self._together = Together(session, learning.name)

    def model(self) -> Trained:
        """The trained model; where a worker is lost, from where training stood last, to the same model.

        Raises RunError where workers are lost again and again.
        """
        workers = self._together.workers()
        shared, last, lost = self._shared(workers), None, 0
        while True:
            checkpoint = self._learning.checkpoint
            before, last = last, checkpoint.last() if checkpoint else None
            lost = lost if last == before else 0
            try:
                return self._once(replace(shared.common, last=last), shared.blocks)
            except LostError as error:
                lost += 1
                if lost >= MOST_LOST:
                    text = f"training over workers was lost {lost} times in a row (out of memory?), the last time because {error.text}"
                    raise RunError(f"{text}. Run again, or train with workers: one.", stage=self._learning.name) from error
                missing = self._wait(len(workers), lost * PAUSE_S)
                note = f"{self._learning.name}: training was begun again{missing}, from where it stood; the model is the same"
                self._session.notes.append(f"{note} ({error.text})")

    def _wait(self, workers: int, pause: float) -> str:
        """Give workers that are lost time to come again; what to say where fewer are there."""
        time.sleep(pause)
        until = time.monotonic() + WAIT_S
        while len(self._together.workers()) < workers and time.monotonic() < until:
            self._session.look()
            time.sleep(PAUSE_S / 4)
        there = len(self._together.workers())
        return f" on {there} of {workers} workers" if there < workers else ""

    def _shared(self, workers: Sequence[str]) -> _Shared:
        """The rows, divided among as many shards as have some of every split, and cut."""
        learning, session, name = self._learning, self._session, self._learning.name
        facts = [session.submit(row_facts, learning, part, stage=name) for part in self._parts]
        order = session.submit(ordered, learning, native(learning), facts, stage=name)
        counts, weigh, intercept = session.value(session.submit(_told, order, stage=name))
        filled = {split: [at for at, count in enumerate(of) if count] for split, of in counts.items()}
        shards = min([len(workers), *(len(of) for of in filled.values() if of)])
        blocks: list[dict[str, list[Any]]] = [{split: [] for split in filled} for _ in range(shards)]
        pieces = []
        for split, parts in filled.items():
            for number, part in enumerate(parts):
                places = session.submit(_places, order, part, stage=name) if split == "train" else None
                at = number % shards
                block = self._together.put(workers[at], _block, learning, self._parts[part], (split, weigh), places)
                blocks[at][split].append(block)
                pieces += [block] if split == "train" else []
        cuts = self._cuts(order, pieces, sum(counts["train"]), len(workers))
        return _Shared(blocks, Common(self._names, cuts, intercept, None))

    def _cuts(self, order: Any, blocks: Sequence[Any], rows: int, workers: int) -> list[Any]:
        """What cuts each feature: tasks have some features of all training rows each."""
        learning, session, name = self._learning, self._session, self._learning.name
        types = learning.stage.feature_types(self._names)
        size = max(1, min(-(-len(types) // (2 * workers)), GROUP_BYTES // (4 * rows)))
        found = []
        for first in range(0, len(types), size):
            some = slice(first, min(first + size, len(types)))
            pieces = [session.submit(_columns, block, some, stage=name) for block in blocks]
            found.append(session.submit(cuts_of, learning, types[some], order, pieces, stage=name))
        return [values for group in session.value(found) for values in group]

    def _once(self, common: Common, blocks: Sequence[Mapping[str, Sequence[Any]]]) -> Trained:
        """What the workers that are there give. Raises LostError where one is lost meanwhile."""
        workers, together, shares = self._together.workers(), self._together, defaultdict[str, list[int]](list)
        if not workers:
            raise LostError("there is no worker", stage=self._learning.name)
        for number in range(len(blocks)):
            shares[workers[number * min(len(workers), len(blocks)) // len(blocks)]].append(number)
        own = {worker: [blocks[number] for number in numbers] for worker, numbers in shares.items()}
        # Shards wait for one another: what one of them needs must be there, and not be waiting for a worker that another one has.
        together.run([(worker, have, of) for worker, of in own.items()])
        alone = len(blocks) == 1
        (tracker,) = [{}] if alone else together.run([(workers[0], start_tracker, len(blocks), host_of(workers[0]))])
        tasks = [(worker, Shards(self._learning, tuple(of), len(blocks), tracker), own[worker]) for worker, of in shares.items()]
        found: list[Trained | None] = together.run(tasks, common)
        return next(model for model in found if model is not None)


def have(*values: Any) -> bool:
    """That a worker has these values."""
    return bool(values)


def _told(order: Ordering) -> tuple[dict[str, list[int]], Any, str]:
    return order.counts, order.weigh, order.intercept


def _places(order: Ordering, part: int) -> Any:
    return order.places[part]


def _columns(block: Block, some: slice) -> Any:
    return np.ascontiguousarray(to_host(block.features[:, some]))


def _block(learning: Trees, part: Part, of: tuple[str, Any], places: Any) -> Block:
    """A part's rows of one split, of which there are some."""
    part = checked(learning, part)
    (split, weigh), labels = of, Labels.of(learning.stage, part.frame)
    wanted = np.flatnonzero(labels.of_split(split))
    chosen = Part(part.frame[wanted], {name: take(array, wanted) for name, array in part.arrays.items()})
    values, own = labels.values[wanted], row_weights(learning.stage, chosen.frame)
    return Block(learning.matrix(chosen), values, training_weights(weigh, values, own), places)


def _predicted(learning: Trees, model: bytes, part: Part, names: list[str]) -> Part:
    part = checked(learning, part)
    said = answers(learning, loaded(model), TrainingRows.of(learning.stage, part), names)
    kept = [*learning.stage.row_columns, *learning.stage.categorical, *learning.stage.aside_columns]
    return Part(part.frame.select(kept), {PREDICTED: said.predicted} | ({} if said.shap is None else {SHAP: said.shap}))


def _finished(
    learning: Trees, model: Trained, predicted: Sequence[Part], names: list[str], steps: Sequence[Fitted], states: Sequence[Part]
) -> TrainedTrees:
    whole = in_key_order(learning.stage, concat_parts(predicted))
    rows, (content, curves, found) = TrainingRows.of(learning.stage, Part(whole.frame)), model
    said = Answers(whole.arrays[PREDICTED], whole.arrays.get(SHAP))
    grown = Grown(loaded(content), curves, found=found)
    return finished(learning, grown, rows, said, predictions(learning.stage, rows, said.predicted), (names, with_states(steps, states)))
