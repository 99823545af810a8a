"""Which rows a tree sees: drawn by each row's place among all training rows, whichever task has it.

XGBoost draws the rows of a task by their places in its own matrix: row i of a tree by x(i) = 16807^(i + 1) s mod 2^63, where s is the next
number of a Mersenne Twister (src/tree/hist/sampler.cc of XGBoost 3.2). So what one task draws can be said of any row alone. A row that is
left out weighs nothing in that round; of several classes, whose trees draw one by one, its gradients are set to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.stages.models._trees.blocks import BLOCK, seed_of

Array = np.ndarray[Any, Any]
BASE, BITS = 16807, 63
TINY = np.float32(1e-16)  # the least curvature of a class


@dataclass(frozen=True)
class Draws:
    """Of some training rows: their places among all, labels and weights (None: all weigh the same). `share` of them are drawn a tree."""

    seed: int
    share: float
    classes: int
    places: Array
    labels: Array
    weights: Array | None

    @cached_property
    def own(self) -> Array:
        """What the rows weigh where none is left out."""
        return np.ones(len(self.places), np.float32) if self.weights is None else self.weights.astype(np.float32)

    @cached_property
    def _powers(self) -> Array:
        powers = np.full(int(self.places.max(initial=-1)) + 1, BASE, np.uint64)
        np.multiply.accumulate(powers, out=powers)  # modulo 2^64, and what is asked for is modulo 2^63
        return powers[self.places]

    def drawn(self, at: int, tree: int = 0) -> Array:
        """Which rows a tree of round `at` sees."""
        (block, number), trees = divmod(at, BLOCK), max(1, self.classes)
        numbers = np.random.RandomState(seed_of(self.seed, block)).randint(0, 2**32, 1 + BLOCK * trees, np.uint32)
        start = numbers[1 + number * trees + tree]  # the first of them is for the draws of features
        drawn = (self._powers * np.uint64(start)) & np.uint64(2**BITS - 1)
        seen: Array = (drawn - np.uint64(1)).astype(np.float64) / 2.0**BITS < float(np.float32(self.share))
        return seen

    def update(self, booster: Any, matrix: Any, at: int) -> None:
        """Grow the trees of round `at` on the rows that they see."""
        if self.classes:
            gradients = self._gradients(booster.predict(matrix, output_margin=True, training=True))
            seen = np.column_stack([self.drawn(at, tree) for tree in range(self.classes)])
            booster.boost(matrix, at, **{name: np.where(seen, values, np.float32(0)) for name, values in gradients.items()})
            return
        matrix.set_weight(np.where(self.drawn(at), self.own, np.float32(0)))
        booster.update(matrix, at)
        matrix.set_weight(self.own)

    def _gradients(self, margins: Array) -> dict[str, Array]:
        """Of the classes' log likelihood, float32 [rows, classes], in the steps and the precision in which XGBoost computes them."""
        raised = np.exp((margins - np.maximum(margins.max(axis=1), 0)[:, None]).astype(np.float64)).astype(np.float32)
        total = np.zeros(len(raised), np.float32)
        for one in raised.T:
            total += one
        shares, weights = raised / total[:, None], self.own[:, None]
        truth = self.labels[:, None] == np.arange(self.classes)
        slope = (shares - truth.astype(np.float32)) * weights
        return {"grad": slope, "hess": np.maximum(2 * shares * (1 - shares) * weights, TINY)}
