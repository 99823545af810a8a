"""Where a training stands, in the format safetensors: one that was killed goes on from there, bit for bit as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from safetensors import SafetensorError
from safetensors.numpy import load, save

from pipeline.neural.perceptron import Parameters
from pipeline.neural.training import Fitted

Array = Any
Tree = Any


class Place(Protocol):
    """Where a training keeps how far it has come."""

    def last(self) -> bytes | None:
        """What was kept last; None where nothing was."""
        ...

    def due(self) -> bool:
        """Whether it is time to keep."""
        ...

    def keep(self, content: Callable[[], bytes]) -> None:
        """Keep what this makes."""
        ...


class Keeper:
    """Keeps a training's state, its best parameters so far and its history."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def resumed(self, state: Tree, found: Fitted) -> tuple[Tree, Fitted]:
        """What was kept last, placed as a state that has just begun is; else what is given. A file that is torn is none."""
        content = self._place.last()
        try:
            arrays = load(content) if content else {}
        except SafetensorError:
            arrays = {}
        return standing(arrays, state) if arrays else (state, found)

    def keep(self, state: Tree, found: Fitted) -> None:
        """Keep this, where it is time to."""
        if self._place.due():
            self._place.keep(lambda: kept(state, found))


def kept(state: Tree, found: Fitted) -> bytes:
    """A training's state after a round, and what it has found, as bytes."""
    arrays = {f"state/{number}": whole(leaf) for number, leaf in enumerate(jax.tree.leaves(state))}
    best = {f"best/{name}": value for name, value in found.parameters.items()}
    curves = {"losses": np.array(found.losses), "watched": np.array(found.watched), "epoch": np.array([found.epoch])}
    return save({name: np.array(array, order="C") for name, array in {**arrays, **best, **curves}.items()})


def standing(arrays: dict[str, Array], begun: Tree) -> tuple[Tree, Fitted]:
    """State and findings of what `kept` gave; the arrays of the state go where those are of one that has just begun."""
    leaves, form = jax.tree.flatten(begun)
    state = jax.tree.unflatten(form, [_as(arrays[f"state/{number}"], leaf) for number, leaf in enumerate(leaves)])
    best: Parameters = {name.removeprefix("best/"): array for name, array in arrays.items() if name.startswith("best/")}
    losses, watched = arrays["losses"].tolist(), arrays["watched"].tolist()
    return state, Fitted(best, int(arrays["epoch"][0]), losses, watched, resumed=len(losses))


def _as(array: Array, leaf: Array) -> Array:
    """An array of the host where another one is; one that goes to whichever device asks for it, as that one does."""
    return placed(array, leaf.sharding) if leaf.committed else jnp.asarray(array)


def placed(array: Array, sharding: Any) -> Array:
    """An array of the host on the devices that have it, whichever process theirs is."""
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def whole(array: Array) -> Array:
    """An array in the host's memory; where other processes have some of it, all of them ask for it together."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return multihost_utils.process_allgather(array, tiled=True)
