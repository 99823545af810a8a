"""Logistic scans as a GPU runs them, with the plain versions in the kernels' place."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from pipeline.kernels.device.refits import refit_on_device
from pipeline.kernels.device.score import score_on_device
from pipeline.kernels.genotype_block import CODES, HAPLOID, GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_regression import Method, Refit, refit
from pipeline.kernels.logistic_score import ScoreTest, score_test_plain
from tests.kernels.on_device import run_plainly


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were launched; their plain versions run."""
    return run_plainly(monkeypatch)


def drawn(people: int, columns: int) -> tuple[np.ndarray, LogisticDesign]:
    rng = np.random.default_rng(people)
    calls = rng.binomial(2, rng.uniform(0, 1, (50, 1)), (50, people)).astype(np.int8)
    calls[rng.random(calls.shape) < np.linspace(0, 0.7, 50)[:, None]] = 3
    calls[7], calls[8], calls[9] = 3, 2, 0
    trait = rng.integers(0, 2, (people, 2)).astype(float)
    trait[:2], trait[people // 2] = [[0, 1], [1, 0]], np.nan
    calls[10] = np.where(trait[:, 1] == 1, 3, 1)
    return calls, LogisticDesign.build(rng.normal(size=(people, columns)), trait)


@pytest.mark.parametrize("codes", [*CODES.values(), HAPLOID])
@pytest.mark.parametrize("dosages", [False, True])
@pytest.mark.parametrize(("people", "columns"), [(9, 0), (31, 1), (33, 2), (137, 3)])
def test_score_on_device__is_the_plain_version(people: int, columns: int, dosages: bool, codes: tuple[float, float]) -> None:
    calls, design = drawn(people, columns)
    block = GenotypeBlock(pack(calls), np.where(calls == 3, np.nan, 0.9 * calls).astype(np.float32) if dosages else None, people, codes)
    found, expected = score_on_device(block, design, design.null(1)), score_test_plain(block, design, 1)
    fine = expected.reason == 0
    assert fine.any()
    for field in fields(ScoreTest):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        rows = fine if field.name == "score" else slice(None)
        np.testing.assert_allclose(ours[rows], theirs[rows], rtol=1e-9 if ours.dtype.kind == "f" else 0, atol=1e-12)


def test_score_on_device__takes_no_variants() -> None:
    _, design = drawn(31, 1)
    assert score_on_device(GenotypeBlock(np.zeros((0, 8), np.uint8), None, 31), design, design.null(0)).score.shape == (0,)


@pytest.mark.parametrize("method", ["wald", "firth", "firth_fallback"])
def test_refit_on_device__is_one_launch_whatever_the_variants(method: Method, launched: list[str]) -> None:
    calls, design = drawn(137, 2)
    genotypes = np.where(calls == 3, np.nan, calls)[20:30][:, design.people]
    found, expected = Refit(*refit_on_device(genotypes, design.null(0), method, ratio=False)), refit(genotypes, design.null(0), method)
    for field in fields(Refit):
        np.testing.assert_allclose(getattr(found, field.name), getattr(expected, field.name), rtol=1e-9)
    assert launched == ["refit_variants"]
    assert Refit(*refit_on_device(genotypes[:0], design.null(0), method, ratio=True)).beta.shape == (0,)
