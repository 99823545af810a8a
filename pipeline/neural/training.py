"""Training of a network: epochs of batches in a seeded order, a look at validation rows after each, and the best epoch kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pipeline.neural.augmenting import NAMES, Augmenting
from pipeline.neural.chance import row_keys
from pipeline.neural.perceptron import Parameters
from pipeline.neural.predicting import padded

Array = Any
Tree = Any
Batch = dict[str, Array]


class Steps(Protocol):
    """How parameters step, on one device or many."""

    def begun(self, parameters: Parameters) -> Tree:
        """A state to begin with."""
        ...

    def step(self, state: Tree, batch: Batch) -> tuple[Tree, Array]:
        """The state after a batch, and the sum of its rows' losses, unweighted: a number, perhaps one that is not computed yet."""
        ...

    def parameters(self, state: Tree) -> Parameters:
        """The parameters, in the host's memory."""
        ...

    def skipped(self, state: Tree) -> int:
        """Steps that were skipped, for gradients that float16 does not hold."""
        ...

    def cost(self, parameters: Parameters, batch: Batch) -> dict[str, float | None]:
        """What a step costs: devices, bytes sent, and milliseconds in all, of computing, and of the rest."""
        ...


@dataclass(frozen=True)
class Rows:
    """Rows to learn from: `arrays` by name, the same rows in each, and how many make a batch.

    With `counts` the mean loss that is told counts each row so often; they are 1 in the mean. With `augmenting` images are changed by it,
    and `names` among the arrays is what each is known by.
    """

    arrays: Batch
    batch: int
    augmenting: Augmenting | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.arrays["targets"])

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        return -(-self.count // self.batch)

    def batches(self, seed: int, epoch: int) -> Iterator[Batch]:
        """All rows once, in an order by seed and epoch; the last batch is as long as the others, by rows that weigh nothing."""
        order = np.random.default_rng([seed, epoch]).permutation(self.count)
        for number, start in enumerate(range(0, self.count, self.batch)):
            chosen = order[start : start + self.batch]
            batch = {name: padded(array[chosen], self.batch) for name, array in self.arrays.items()}
            if self.augmenting:
                batch["numbers"] = self.augmenting.changed(batch["numbers"], batch.pop(NAMES), seed, epoch)
            batch["weighs"] = batch["weighs"] / np.float32(len(chosen))
            batch["real"] = batch.pop("counts", padded(np.ones(len(chosen), np.float32), self.batch))
            batch["keys"] = row_keys(seed, epoch, number, self.batch)
            yield batch


@dataclass(frozen=True)
class Course:
    """For how long: at most `epochs`, and where `patience` is given no more than so many after the best one."""

    epochs: int
    patience: int | None
    seed: int

    def is_over(self, found: Fitted) -> bool:
        """Whether training ends here."""
        done = len(found.losses)
        return done >= self.epochs or (self.patience is not None and done - found.epoch >= self.patience)


@dataclass
class Fitted:
    """What came out: the parameters of the epoch that is kept, its number from 1, and each epoch's mean loss and validation value.

    The first `resumed` epochs were those of a training that was killed; so many steps were `skipped`.
    """

    parameters: Parameters
    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)
    resumed: int = 0
    skipped: int = 0


class Around(Protocol):
    """What goes on around a training."""

    def resumed(self, state: Tree, found: Fitted) -> tuple[Tree, Fitted]:
        """Where an earlier training stood, its state placed as this one is; else what is given."""
        ...

    def watch(self, parameters: Parameters) -> float | None:
        """How bad parameters are on other rows; None where there are none."""
        ...

    def done(self, state: Tree, found: Fitted) -> None:
        """Hears of every epoch, may keep where training stands, and may raise."""
        ...


def fitted(steps: Steps, start: Parameters, rows: Rows, course: Course, around: Around) -> Fitted:
    """Train, from where an earlier training stood if there is one. Raises ArithmeticError where the loss is no finite number."""
    state, found = around.resumed(steps.begun(start), Fitted(start))
    while not course.is_over(found):
        epoch, total, last = len(found.losses), 0.0, 0.0
        for batch in rows.batches(course.seed, epoch):
            state, loss = steps.step(state, batch)
            total, last = total + float(last), loss  # waits for the step before: this one computes while the next batch is made
        total += float(last)
        found.losses.append(total / rows.count)
        now = steps.parameters(state)
        watched = around.watch(now)
        found.watched += [] if watched is None else [watched]
        if not np.isfinite([total, *found.watched]).all():
            raise ArithmeticError(f"the loss of epoch {epoch + 1} is no finite number")
        if course.patience is None or found.watched[-1] < min(found.watched[:-1], default=float("inf")):
            found.epoch, found.parameters = epoch + 1, now
        around.done(state, found)
    found.skipped = steps.skipped(state)
    return found
