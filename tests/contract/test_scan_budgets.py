"""What genome scans may ask of a GPU: launches, waits and memory of a part, counted on the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import packed_width
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from tests.standin.counts import Counts, measured
from tests.standin.modules import installed

pytestmark = pytest.mark.contract


@pytest.fixture
def cupy() -> Iterator[Any]:
    with installed() as module:
        yield module


def drawn_calls(variants: int, people: int) -> Any:
    """Packed calls in Hardy-Weinberg's proportions, one in a hundred missing."""
    rng = np.random.default_rng(variants)
    frequency = rng.uniform(0.05, 0.5, (variants, 1)).astype(np.float32)
    calls = np.zeros((variants, 4 * packed_width(people)), np.uint8)
    for _ in range(2):
        calls[:, :people] += rng.random((variants, people), np.float32) < frequency
    calls[:, :people][rng.random((variants, people), np.float32) < 0.01] = 3
    return np.bitwise_or.reduce(calls.reshape(variants, -1, 4) << np.array([0, 2, 4, 6], np.uint8), axis=2)


def linear(cupy: Any, shape: tuple[int, int], traits: int, max_p: float = 1.0) -> tuple[Counts, ScanRows]:
    """A part of a linear scan with five covariates, from calls on the device to rows on the host."""
    rng, (variants, people) = np.random.default_rng(1), shape
    stage = LinearGwas(traits=tuple(f"t{i}" for i in range(traits)), max_p=max_p)
    model = Design.build(rng.normal(size=(people, 5)), rng.normal(size=(people, traits)))
    block = GenotypeBlock(cupy.asarray(drawn_calls(variants, people)), None, people)
    with measured() as counts:
        rows = stage.tested(block, model).on_host()
    return counts, rows


@pytest.mark.parametrize("traits", [1, 100])
@pytest.mark.parametrize("max_p", [1.0, 0.001])
def test_a_part_of_a_linear_scan__is_under_sixty_launches_and_four_waits(traits: int, max_p: float, cupy: Any) -> None:
    counts, rows = linear(cupy, (4000 if traits == 1 else 400, 2500), traits, max_p)
    assert counts.launches <= 60, counts.dearest()
    assert counts.waits <= 4, counts.dearest()
    assert 10 * counts.overhead < 0.030  # of 200,000 variants in ten parts
    assert 0 < len(rows.n) <= len(rows.with_result) * int(rows.with_result.max())


def test_a_part_of_many_people__is_one_block_too(cupy: Any) -> None:
    counts, _ = linear(cupy, (8, 500_000), 1)
    assert counts.launches <= 60, counts.dearest()
    # A float64 a genotype, and the people's own numbers: covariates, trait, and both side by side.
    assert counts.peak < 8 * 500_000 * (8 + 30)


@pytest.mark.parametrize("method", [pytest.param("wald", marks=pytest.mark.soak), "firth", "firth_fallback"])
def test_a_part_of_a_logistic_scan__is_under_a_hundred_launches_with_its_refits(method: str, cupy: Any) -> None:
    rng, people = np.random.default_rng(1), 500
    stage = LogisticGwas.model_validate({"traits": ["ill"], "method": method, "screen": 0.05})
    model = LogisticDesign.build(rng.normal(size=(people, 5)), (rng.normal(size=(people, 1)) > 0.5).astype(float))
    calls = drawn_calls(400, people)
    with measured() as counts:
        rows = stage.tested(GenotypeBlock(cupy.asarray(calls), None, people), model).on_host()
    assert counts.launches < 100, counts.dearest(20)
    assert counts.waits < 12, counts.dearest(20)
    expected = stage.tested(GenotypeBlock(calls, None, people), model)
    assert len(np.flatnonzero(expected.test)) > 8
    np.testing.assert_array_equal(rows.test, expected.test)
    np.testing.assert_array_equal(rows.reason, expected.reason)
    for name, values in expected.numbers.items():
        np.testing.assert_allclose(rows.numbers[name], values, rtol=1e-7, atol=1e-9)
