"""The values that parameters may have in a search: lists, and ranges on a linear or a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.errors import Gathered, StageError, near, under
from pipeline.stages.models._search.model import with_values
from pipeline.stages.models._supervised import Supervised

MOST = 10_000  # trials of one search
DIGITS = 6  # of a number that is drawn: what a person can write down again
DRAWS = 100  # of a trial, until one is found that was not there before

Values = dict[str, Any]


class Range(BaseModel):
    """Numbers from one to another, both included; whole ones where the parameter takes whole numbers alone."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    low: float = Field(alias="from", allow_inf_nan=False, description="The least value.")
    high: float = Field(alias="to", allow_inf_nan=False, description="The greatest.")
    scale: Literal["linear", "log"] = Field("linear", description="log: as many values from 0.01 to 0.1 as from 0.1 to 1.")
    steps: int | None = Field(
        None, ge=2, le=MOST, description="So many values alone, evenly spaced; a grid needs it but for whole numbers."
    )

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"a range goes from a lower value to a higher one, and this one from {self.low:g} to {self.high:g}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"a logarithmic scale has values above 0 only, and this one begins at {self.low:g}")
        return self


@dataclass(frozen=True)
class Axis:
    """One parameter of a search and what it may be: the values `listed`, or any number from `low` to `high`, or any whole one."""

    name: str
    listed: tuple[Any, ...] | None = None
    low: float = 0
    high: float = 0
    log: bool = False
    whole: bool = False

    @staticmethod
    def of(model: Supervised, name: str, given: Range | tuple[Any, ...]) -> Axis:
        """Raises StageError, with the parameter as its key, where the model has none of that name or does not take such values."""
        field, _, inner = name.partition(".")
        if field not in type(model).model_fields or (inner and not isinstance(getattr(model, field), dict)):
            raise StageError(f"{model.name} has no parameter {name!r}.{near(name, type(model).model_fields)}", key=name)
        axis = _ranging(model, name, given) if isinstance(given, Range) else Axis(name, given)
        for value in axis.ends:
            with_values(model, {name: value})
        return axis

    @property
    def ends(self) -> Sequence[Any]:
        """The values listed, or the least and the greatest."""
        return self.listed if self.listed is not None else (self.rounded(self.low), self.rounded(self.high))

    def rounded(self, value: float) -> Any:
        """A number of the range, as it is written."""
        if self.whole:
            return int(min(max(round(value), self.low), self.high))
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    @property
    def count(self) -> float:
        """How many values there are."""
        if self.listed is not None:
            return len(self.listed)
        return self.high - self.low + 1 if self.whole else math.inf

    def all(self) -> Sequence[Any]:
        """Every value. Raises StageError for a range of fractions, and for one of very many."""
        if self.listed is not None:
            return self.listed
        if self.count > MOST:
            text = f"a grid has so many values of each parameter, and {self.name} is any number between two. Give `steps`, or a list."
            raise StageError(text, key=f"parameters.{self.name}")
        return range(int(self.low), int(self.high) + 1)

    def draw(self, random: np.random.Generator) -> Any:
        """One of the values, each as likely as any other on the range's scale."""
        if self.listed is not None:
            return self.listed[int(random.integers(len(self.listed)))]
        low, high = self.low, self.high + self.whole
        value = math.exp(random.uniform(math.log(low), math.log(high))) if self.log else random.uniform(low, high)
        return self.rounded(math.floor(value) if self.whole else value)


def _ranging(model: Supervised, name: str, given: Range) -> Axis:
    """A range of a parameter that takes numbers; its values where it has steps."""
    whole = _takes_whole_numbers(model, name)
    if whole and (given.low != int(given.low) or given.high != int(given.high)):
        raise StageError(f"{name} takes whole numbers, and this range goes from {given.low:g} to {given.high:g}", key=name)
    axis = Axis(name, None, given.low, given.high, given.scale == "log", whole)
    if given.steps is None:
        return axis
    values = (np.geomspace if axis.log else np.linspace)(axis.low, axis.high, given.steps)
    return replace(axis, listed=tuple(dict.fromkeys(axis.rounded(float(value)) for value in values)))


Space = list[Axis]


def space_of(model: Supervised, parameters: Mapping[str, Range | tuple[Any, ...]]) -> Space:
    """What is searched, by the names' order. Raises StageError for all that the model has not or does not take."""
    axes, gathered = list[Axis](), Gathered()
    for name in sorted(parameters):
        with gathered.one(), under("parameters"):
            axes.append(Axis.of(model, name, parameters[name]))
    gathered.check()
    return axes


def grid(space: Space) -> list[Values]:
    """Every combination, the last name's values first, as scikit-learn's ParameterGrid has them. Raises StageError for too many."""
    values, gathered = list[Sequence[Any]](), Gathered()
    for axis in space:
        with gathered.one():
            values.append(axis.all())
    gathered.check()
    if (size := math.prod(map(len, values))) > MOST:
        raise StageError(
            f"the grid has {size:,} combinations, more than {MOST:,}. Give fewer values, or use method: random.", key="parameters"
        )
    return [dict(zip([axis.name for axis in space], combination, strict=True)) for combination in product(*values)]


def drawn(space: Space, trials: int, seed: int) -> list[Values]:
    """So many combinations drawn at random, each once; the first of them are the same however many there are.

    All of them, as a grid has them, where there are no more than that.
    """
    if math.prod(axis.count for axis in space) <= trials:
        return grid(space)
    found: dict[str, Values] = {}
    for number in range(trials):
        random = np.random.default_rng([seed, number])
        draws = ({axis.name: axis.draw(random) for axis in space} for _ in range(DRAWS))
        values = next((values for values in draws if repr(values) not in found), None)
        if values is None:
            raise StageError(f"after {number} trials {DRAWS} draws gave no other values. Ask for fewer, or use method: grid.", key="trials")
        found[repr(values)] = values
    return list(found.values())


def _takes_whole_numbers(model: Supervised, name: str) -> bool:
    """Whether a parameter is a whole number, by its type. Raises StageError where it is no number."""
    annotation = type(model).model_fields[name.partition(".")[0]].annotation
    if get_origin(annotation) is dict:
        annotation = get_args(annotation)[1]
    kinds = set(get_args(annotation)) if get_origin(annotation) in (Union, UnionType) else {annotation}
    if not kinds & {int, float}:
        raise StageError(f"{name} takes no number. Give a list of its values.", key=name)
    return float not in kinds
