"""site_update with privacy: what the accountant says, against its tutorial and a formula, and what is told and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from pipeline.errors import DataError, PlaceError, StageError
from pipeline.stages.models._federated import privacy as federated_privacy
from pipeline.stages.models._federated.privacy import Course, Privacy, epsilon_of, noise_of
from tests.stages.models.federation import SITES
from tests.stages.models.rounds import Study, frame_of, training_rows

pytestmark = pytest.mark.long  # JAX compiles its programs

PRIVACY: dict[str, Any] = {"noise_multiplier": 1.5, "delta": 1e-4, "clip": 0.5, "rounds": 3}
STEPS: dict[str, Any] = {"epochs": 2, "batch_size": 24, "learning_rate": 0.5}


@pytest.mark.parametrize(("epochs", "by_moments", "epsilon"), [(15, 1.2811, 1.1337), (60, 2.5966, 2.3817)])
def test_epsilon__of_the_tutorial_is_the_librarys(epochs: int, by_moments: float, epsilon: float) -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    course = Course(epochs * 60_000 // 256, 256 / 60_000)
    assert epsilon_of(1.1, course, 1, 1e-5) == pytest.approx(epsilon, abs=1e-3)
    accountant = RdpAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(course.chance, GaussianDpEvent(1.1)), course.steps))
    assert accountant.get_epsilon(1e-5) == pytest.approx(by_moments, abs=1e-3)


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (4.0, 16), (8.0, 5)])
def test_epsilon__of_all_rows_in_every_step_is_the_formulas(noise: float, steps: int) -> None:
    """Balle and Wang (2018): the exact epsilon of one Gaussian mechanism, which so many are together."""
    one = noise / steps**0.5

    def too_much(epsilon: float) -> float:
        """How far delta is from what epsilon goes with."""
        return float(norm.cdf(0.5 / one - epsilon * one) - np.exp(epsilon) * norm.cdf(-0.5 / one - epsilon * one) - 1e-5)

    assert epsilon_of(noise, Course(1, 1.0), steps, 1e-5) == pytest.approx(brentq(too_much, 0, 50), abs=1e-3)


def test_noise__for_an_epsilon_costs_it_in_all_rounds() -> None:
    course = Course(10, 0.2)
    noise = noise_of(Privacy.model_validate({"epsilon": 3.0, "delta": 1e-5, "rounds": 4}), course)
    assert 2.99 < epsilon_of(noise, course, 4, 1e-5) <= 3.0


@pytest.mark.soak
def test_rounds_with_privacy__learn_and_say_what_they_cost(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.rounds(2, **STEPS, privacy=PRIVACY)
    told = json.loads((tmp_path / "risk.json").read_text())["federated"]["history"]
    assert [past["value"] for past in told] == [None, None]
    assert [past["rows"] for past in told] == [training_rows().height] * 2
    outcome = study.update("oslo", **STEPS, privacy=PRIVACY)
    mine, before = outcome.metrics["privacy"], told[1]["privacy"]["oslo"]
    rows = outcome.counts["rows_used"]
    course = Course(2 * -(-rows // 24), 24 / rows)
    assert (before["rounds"], mine["rounds"], mine["rounds_planned"]) == (2, 3, 3)
    assert before["epsilon"] == pytest.approx(epsilon_of(1.5, course, 2, 1e-4))
    assert mine["epsilon"] == mine["epsilon_planned"] == pytest.approx(epsilon_of(1.5, course, 3, 1e-4))
    assert "cannot be repeated" in mine["noise"]
    assert study.outcome is not None
    assert {*study.outcome.metrics} == {"all sites", *SITES}
    assert frame_of(study.outcome).height == 0
    assert json.loads(frame_of(outcome)["privacy"][0]) == mine
    study.publish(study.average(pl.concat([frame_of(study.update(site, **STEPS, privacy=PRIVACY)) for site in SITES])))
    with pytest.raises(StageError, match="has 3 rounds behind it, and privacy is planned for 3: what was to be spent is spent"):
        study.update("oslo", **STEPS, privacy=PRIVACY)
    study.rounds(1)
    assert study.losses()[-1] < 0.69


def test_site_update__with_privacy_is_not_the_same_twice(tmp_path: Path) -> None:
    study = Study(tmp_path)
    first, second = (frame_of(study.update("oslo", **STEPS, privacy=PRIVACY)) for _ in range(2))
    learned = pl.col("name").str.starts_with("layers")
    assert not {*first.filter(learned)["masked"]} & {*second.filter(learned)["masked"]}
    assert first.filter(~learned).equals(second.filter(~learned))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"privacy": {**PRIVACY, "epsilon": 2.0}}, "give one of noise_multiplier and epsilon"),
        ({"privacy": {"delta": 1e-5, "rounds": 2}}, "give one of noise_multiplier and epsilon"),
        ({"privacy": PRIVACY, "clip": 1.0}, "every row's gradient is shortened, by privacy.clip. Leave clip out"),
    ],
)
def test_site_update__refuses_half_of_a_privacy(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=message):
        Study(tmp_path).update("oslo", **more)


def test_site_update__refuses_privacy_that_is_none(tmp_path: Path) -> None:
    study = Study(tmp_path)
    with pytest.raises(DataError, match=r"delta is 0\.1, and the site has 7\d rows"):
        study.update("oslo", privacy={**PRIVACY, "delta": 0.1})


def test_site_update__with_privacy_names_the_accountant_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study(tmp_path)
    monkeypatch.setattr(federated_privacy, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"dp-accounting is not installed\. Install it with: pip install '\.\[federated\]'"):
        study.update("oslo", privacy=PRIVACY)
