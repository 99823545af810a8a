"""Linear scans as a GPU runs them, with the plain versions in the kernels' place."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from pipeline.kernels.design import Design
from pipeline.kernels.device import linear
from pipeline.kernels.genotype_block import CODES, HAPLOID, GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.linear_regression import Association, Missing, associate_plain
from tests.kernels.on_device import run_plainly


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were launched; their plain versions run."""
    return run_plainly(monkeypatch)


def drawn(people: int, columns: int, traits: int) -> tuple[np.ndarray, Design]:
    rng = np.random.default_rng(people)
    calls = rng.binomial(2, rng.uniform(0, 1, (50, 1)), (50, people)).astype(np.int8)
    calls[rng.random(calls.shape) < np.linspace(0, 0.7, 50)[:, None]] = 3
    calls[7], calls[8], calls[9] = 3, 2, 0
    values = rng.normal(size=(people, traits))
    values[people // 2] = np.nan
    return calls, Design.build(rng.normal(size=(people, columns)), values)


def assert_alike(found: Association, expected: Association) -> None:
    for field in fields(Association):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9 if ours.dtype.kind == "f" else 0, atol=1e-12)


@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize("codes", [*CODES.values(), HAPLOID])
@pytest.mark.parametrize("missing", ["complete_case", "mean"])
@pytest.mark.parametrize("dosages", [False, True])
@pytest.mark.parametrize(("people", "columns", "traits"), [(7, 0, 1), (31, 1, 2), (33, 2, 5), (137, 3, 40), (263, 6, 2)])
def test_associate_on_device__is_the_plain_version(
    people: int, columns: int, traits: int, dosages: bool, missing: Missing, codes: tuple[float, float]
) -> None:
    calls, design = drawn(people, columns, traits)
    block = GenotypeBlock(pack(calls), np.where(calls == 3, np.nan, 0.9 * calls).astype(np.float32) if dosages else None, people, codes)
    assert_alike(linear.associate_on_device(block, design, missing), associate_plain(block, design, missing))


def test_associate_on_device__makes_as_many_blocks_as_memory_asks_for(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls, design = drawn(31, 1, 2)
    block = GenotypeBlock(pack(calls), None, 31)
    whole = linear.associate_on_device(block, design, "complete_case")
    assert launched.count("explain_variants") == 1
    monkeypatch.setattr(linear, "BLOCK_BYTES", 8 * (31 + 4 + 10) * 20)
    assert_alike(linear.associate_on_device(block, design, "complete_case"), whole)
    assert launched.count("explain_variants") == 1 + 3


@pytest.mark.usefixtures("launched")
def test_associate_on_device__takes_no_variants() -> None:
    _, design = drawn(31, 1, 2)
    assert linear.associate_on_device(GenotypeBlock(np.zeros((0, 8), np.uint8), None, 31), design, "mean").beta.shape == (0, 2)
