"""Rounds that learn factors: alternating least squares as tasks over blocks, and Bayesian personalized ranking in one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.factorization import Rows, popularity, solve_rows, solve_rows_compiled
from pipeline.kernels.pairwise_ranking import items_not_taken, ranking_step
from pipeline.stages.models._factorization.blocks import Blocks, UserBlock, chunk_size, edges
from pipeline.tables.rounds import Round, Rounds, go_on
from pipeline.tables.session import Session

BATCH = 1024
"""Triples of a step of BPR: all of them start from the same factors, so that it does not matter where they lie."""
COMPILED_FROM = 5_000
"""Users and items for which compiled code is loaded on a CPU."""
_SMALL = 0.01  # of the factors that least squares begin with


@dataclass(frozen=True)
class Settings:
    """How to learn, and where the arrays are multiplied."""

    stage: str
    method: Literal["als", "bpr"]
    factors: int
    rounds: int
    regularization: float
    alpha: float
    learning_rate: float
    seed: int
    backend: Backend


class Side(NamedTuple):
    """A block of factors `float64[rows, f]`; Y'Y `float64[chunks, f, f]` and the loss `float64[chunks]` of each of its chunks."""

    factors: Any
    grams: Any
    losses: Any


class Learned(NamedTuple):
    """Futures: blocks of the factors of users and of items (arrays), and the loss of each round."""

    users: list[Any]
    items: list[Any]
    losses: list[Any]


def learn(session: Session, settings: Settings, blocks: Blocks) -> Learned:
    """The factors of all users and items."""
    return (_als if settings.method == "als" else _bpr)(session, settings, blocks)


def _als(session: Session, settings: Settings, blocks: Blocks) -> Learned:
    """Every round solves all users from the items, then all items from the users. All rounds are submitted at once."""
    submit, name, count = session.submit, settings.stage, len(blocks.users)
    items = [submit(started, settings, blocks.item_ids, (number, count), stage=name) for number in range(count)]
    users, losses = list[Any](), list[Any]()
    for number in range(1, settings.rounds + 1):
        at = (number, losses[-1:])
        users = [submit(solve_users, settings, blocks.user_ids, block, items, at, stage=name) for block in blocks.users]
        items = [submit(solve, settings, blocks.item_ids, block, users, stage=name) for block in blocks.items]
        losses.append(submit(total_loss, settings, users, items, stage=name))
    found = [[submit(getattr, side, "factors", stage=name) for side in sides] for sides in (users, items)]
    return Learned(found[0], found[1], losses)


def started(settings: Settings, ids: pl.DataFrame, block: tuple[int, int]) -> Side:
    """Factors of a block to begin with, chunk by chunk: a chunk's are the same in whatever block it is."""
    size, (first, last) = chunk_size(ids.height), edges(ids.height, block[1])[block[0] : block[0] + 2]
    chunks = [_SMALL * (_random(settings, 1, low // size, min(size, ids.height - low)) + 0.5) for low in range(first, last, size)]
    return _side(settings, chunks, [0.0] * len(chunks))


def _random(settings: Settings, side: int, chunk: int, rows: int) -> Any:
    """Numbers between -0.5 and 0.5, `float64[rows, f]`: of the users (side 0) or the items, the same for the same chunk."""
    return np.random.default_rng([settings.seed, side, chunk]).random((rows, settings.factors)) - 0.5


def _side(settings: Settings, chunks: Sequence[Any], losses: Sequence[float]) -> Side:
    f = settings.factors
    factors = np.concatenate(chunks) if chunks else np.empty((0, f))
    return Side(factors, np.array([chunk.T @ chunk for chunk in chunks]).reshape(-1, f, f), np.array(losses))


def solve_users(settings: Settings, ids: pl.DataFrame, block: UserBlock, others: list[Side], at: tuple[int, list[float]]) -> Side:
    """The factors of a block of users, after it was said how far the rounds have come: the number of this one, and the loss of the last."""
    number, losses = at
    Rounds(settings.stage).done(Round(number, settings.rounds, {"loss": losses[0]} if losses else {}))
    return solve(settings, ids, block.rows, others)


def solve(settings: Settings, ids: pl.DataFrame, rows: Rows, others: list[Side]) -> Side:
    """The factors of a block of users (items) from those of all items (users). Raises DataError where the weights are too far apart."""
    backend, size, last = settings.backend, chunk_size(ids.height), len(rows.bounds) - 1
    known = [to_device(side.factors, backend) for side in others]
    gram = to_device(np.concatenate([side.grams for side in others]).sum(axis=0), backend)
    many = ids.height + sum(len(side.factors) for side in others) >= COMPILED_FROM  # of all, so that no block is solved otherwise
    solved = solve_rows_compiled if many and isinstance(gram, np.ndarray) else solve_rows
    chunks, losses = list[Any](), list[float]()
    for low in range(0, last, size):
        go_on(settings.stage)
        some = rows.between(low, min(low + size, last))
        moved = Rows(some.bounds, to_device(some.columns, backend), to_device(some.weights, backend))
        try:
            found, loss = solved(moved, known, gram, settings.regularization, settings.alpha)
        except np.linalg.LinAlgError as error:
            text = "the least squares of some user or item cannot be solved: weights are too large. Take their logarithm, or a lower alpha."
            raise DataError(text, key="alpha") from error
        chunks.append(to_host(found))
        losses.append(float(loss.sum()))
    return _side(settings, chunks, losses)


def total_loss(settings: Settings, users: list[Side], items: list[Side]) -> float:
    """What is minimized, after the items were solved."""
    squares = np.concatenate([side.grams for side in users]).sum(axis=0).trace()
    return float(np.concatenate([side.losses for side in items]).sum() + settings.regularization * squares)


def _bpr(session: Session, settings: Settings, blocks: Blocks) -> Learned:
    """One task: a step is of a thousand triples, whatever block they are of."""
    submit, name, count = session.submit, settings.stage, len(blocks.users)
    found = submit(ranked, settings, blocks.user_ids, blocks.item_ids, blocks.users, stage=name)
    users, items = ([submit(_part_of, found, side, (number, count), stage=name) for number in range(count)] for side in (0, 1))
    return Learned(users, items, [submit(_loss_of, found, number, stage=name) for number in range(settings.rounds)])


def _part_of(found: tuple[Any, Any, Any], side: int, block: tuple[int, int]) -> Any:
    first, last = edges(len(found[side]), block[1])[block[0] : block[0] + 2]
    return found[side][first:last]


def _loss_of(found: tuple[Any, Any, Any], number: int) -> float:
    return float(found[2][number])


def ranked(settings: Settings, user_ids: pl.DataFrame, item_ids: pl.DataFrame, blocks: list[UserBlock]) -> tuple[Any, Any, Any]:
    """Factors of all users and items, and the mean loss of each round's triples.

    A round takes every pair once, in an order of its own, with an item that the user does not have. It runs in the host's memory: a step is
    too small for a GPU.
    """
    degrees = np.concatenate([popularity(block.rows) for block in blocks])
    of_user, items = np.repeat(np.arange(len(degrees)), degrees), np.concatenate([block.rows.columns for block in blocks])
    keys, offered = of_user * item_ids.height + items, np.unique(items)
    x, y = (_random(settings, side, 0, ids.height) / settings.factors**0.5 for side, ids in enumerate((user_ids, item_ids)))
    random, losses, said = np.random.default_rng([settings.seed, 2]), list[float](), Rounds(settings.stage)
    for number in range(1, settings.rounds + 1):
        order = random.permutation(len(keys))
        others = items_not_taken(keys, of_user[order], offered, item_ids.height, random)
        order, others = order[others >= 0], others[others >= 0]
        with np.errstate(over="ignore", invalid="ignore"):
            losses.append(_round(settings, x, y, (of_user[order], items[order], others)))
        if not (np.isfinite(losses[-1]) and np.isfinite(x).all() and np.isfinite(y).all()):
            text = f"the steps of bpr leave all bounds in round {number}. Take a lower learning_rate, or less regularization."
            raise DataError(text, key="learning_rate")
        said.done(Round(number, settings.rounds, {"loss": losses[-1]}))
    return x, y, np.array(losses)


def _round(settings: Settings, x: Any, y: Any, triples: tuple[Any, Any, Any]) -> float:
    """The mean loss of all triples, each before its step."""
    total = 0.0
    for first in range(0, len(triples[0]), BATCH):
        go_on(settings.stage)
        who, taken, other = (numbers[first : first + BATCH] for numbers in triples)
        total += float(ranking_step(x, y, (who, taken, other), settings.learning_rate, settings.regularization).sum())
    return total / max(len(triples[0]), 1)
