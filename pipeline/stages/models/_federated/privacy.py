"""Differential privacy of a site's rounds: how much noise, and what the library's accountant says that it is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import DataError, PlaceError, StageError

TOLERANCE = 1e-4


class Privacy(BaseModel):
    """How a site hides each of its rows behind noise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    noise_multiplier: float | None = Field(
        None, ge=0.1, le=1_000, description="Deviation of the noise, as a multiple of clip; or give epsilon."
    )
    epsilon: float | None = Field(None, gt=0, le=100, description="What all rounds together may cost; the noise follows from it.")
    delta: float = Field(gt=0, lt=1, description="The chance that epsilon does not hold: well below one by the number of rows.")
    clip: float = Field(1.0, gt=0, description="The longest gradient of a row; a longer one is shortened.")
    rounds: int = Field(ge=1, le=100_000, description="Rounds that are planned; none is trained after them.")

    def check(self) -> None:
        """Raise StageError where both or neither of noise and epsilon are given; PlaceError where the accountant is not installed."""
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise StageError("give one of noise_multiplier and epsilon; the other follows from it", key="privacy")
        if find_spec("dp_accounting") is None:
            raise PlaceError("dp-accounting is not installed. Install it with: pip install '.[federated]'")


@dataclass(frozen=True)
class Course:
    """The steps of a site in a round, and the chance of each row to be in a step."""

    steps: int
    chance: float


def check_delta(privacy: Privacy, rows: int) -> None:
    """Raise DataError for a delta by which whole rows could be told."""
    if privacy.delta * rows >= 1:
        raise DataError(
            f"delta is {privacy.delta:g}, and the site has {rows} rows: it would allow to tell all of one. Take a tenth of 1 / {rows}.",
            key="privacy.delta",
        )


def epsilon_of(noise_multiplier: float, course: Course, rounds: int, delta: float) -> float:
    """What so many rounds cost, by privacy loss distributions, where rows may be added or removed."""
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(_event(noise_multiplier, course, rounds))
    return float(accountant.get_epsilon(delta))


def noise_of(privacy: Privacy, course: Course) -> float:
    """The noise multiplier: as given, or the least by which all rounds together cost `epsilon`."""
    if privacy.epsilon is None:
        assert privacy.noise_multiplier is not None
        return privacy.noise_multiplier
    from dp_accounting import calibrate_dp_mechanism
    from dp_accounting.pld import PLDAccountant

    def event(multiplier: float) -> Any:
        """All rounds with this noise."""
        return _event(multiplier, course, privacy.rounds)

    return float(calibrate_dp_mechanism(PLDAccountant, event, privacy.epsilon, privacy.delta, tol=TOLERANCE))


def spent(privacy: Privacy, multiplier: float, course: Course, rounds: int) -> dict[str, Any]:
    """What a site says of its privacy after so many rounds. Raises DataError for noise that hides nothing."""
    now, in_all = (epsilon_of(multiplier, course, count, privacy.delta) for count in (rounds, privacy.rounds))
    if not math.isfinite(in_all):
        raise DataError(f"noise of {multiplier:g} times clip hides nothing in {course.steps} steps a round. Raise noise_multiplier.")
    return {
        "epsilon": now, "epsilon_planned": in_all,
        "delta": privacy.delta, "noise_multiplier": multiplier, "clip": privacy.clip, "rounds": rounds, "rounds_planned": privacy.rounds,
        "noise": "by the system's entropy: this run cannot be repeated",
    }  # fmt: skip


def _event(multiplier: float, course: Course, rounds: int) -> Any:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    return SelfComposedDpEvent(PoissonSampledDpEvent(course.chance, GaussianDpEvent(multiplier)), course.steps * rounds)
