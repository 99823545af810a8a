"""The model that all sites share: a published network, which says in its description how many rounds it has behind it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from pipeline.errors import StageError
from pipeline.stages.models._published import Published

Array = Any
FEDERATED = "federated"
"""What a description says of rounds: `round`, those behind it, and `history`, of each round its rows, loss and privacy."""
ROWS, LOSS = "rows", "loss"


@dataclass(frozen=True)
class SharedModel:
    """Description and file of a model that was started, or averaged, for rounds over sites."""

    description: Mapping[str, Any]
    content: bytes

    @staticmethod
    def of(published: Published) -> SharedModel:
        """Of a published model. Raises StageError for one that was not made for rounds over sites."""
        if FEDERATED not in published.description:
            raise StageError(
                f"{published.path} was not made by federated_start or federated_average: sites could not train on", key="model"
            )
        return SharedModel(published.description, published.restored())

    @property
    def round(self) -> int:
        """Rounds behind it."""
        return int(self.description[FEDERATED]["round"])

    @property
    def history(self) -> list[dict[str, Any]]:
        """Of each round before: rows of all sites, the model's loss on them as the round began, and what sites said of privacy."""
        return list(self.description[FEDERATED]["history"])

    def study(self, name: str) -> str:
        """The name of this round of a study: that of no other round, nor of another model."""
        digest = hashlib.sha256(self.content + json.dumps(self.description, sort_keys=True).encode()).hexdigest()
        return f"{name}, round {self.round + 1}, model {digest[:32]}"

    def network(self) -> Any:
        """The network (a `neural.saved.Trained`)."""
        from pipeline.neural.perceptron import Shape
        from pipeline.neural.saved import Trained

        told = self.description
        codes = tuple(told["features"].index(name) for name in told["categorical"])
        numbers = tuple(place for place in range(len(told["features"])) if place not in {*codes})
        return Trained.read(self.content, Shape.of(told["network"]), told["objective"], (numbers, codes))

    def curve(self) -> list[tuple[int, str, str, float]]:
        """Round, split, metric and value: how well the model fitted the rows of all sites, before each round."""
        return [(row["round"], "train", row["metric"], row["value"]) for row in self.history if row["value"] is not None]


def sizes_of(parameters: Mapping[str, Array]) -> dict[str, int]:
    """What a site sends: a number for its rows, one for the loss, and as many as each array of parameters has, in their order."""
    return {ROWS: 1, LOSS: 1, **{name: prod(array.shape) for name, array in sorted(parameters.items())}}


def described(found: Mapping[str, Any]) -> bytes:
    """The file beside a model."""
    return (json.dumps(found, indent=1) + "\n").encode()


def columns_of(sizes: Mapping[str, int]) -> Sequence[str]:
    """Names of what a site sends, with their sizes, which all sites must agree on."""
    return tuple(f"{name} {size}" for name, size in sizes.items())
