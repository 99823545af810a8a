"""Every kernel on CuPy arrays gives what it gives on NumPy arrays, and its answers stay on the GPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pipeline.kernels
from pipeline.backend import Backend, array_module, special_module, to_device, to_host
from pipeline.errors import DataError
from pipeline.kernels import genotypes, hardy_weinberg, linear_regression, p_values, relationship
from pipeline.kernels.design import Design, missingness_groups
from tests.gpu.conftest import library_of
from tests.stage_examples import GENOTYPES, PEOPLE

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(20261121)
CALLS = GENOTYPES.arrays["calls"]
COUNTS = genotypes.call_counts(CALLS, PEOPLE)
DOSAGES = genotypes.unpack(CALLS, PEOPLE)
COVARIATES = RNG.normal(size=(PEOPLE, 3))
TRAITS = RNG.normal(size=(PEOPLE, 2)) + DOSAGES[3][:, None].clip(0)
TRAITS[7] = np.nan
DESIGN = Design.build(COVARIATES, TRAITS)
SUMS = relationship.grm_sums(CALLS, PEOPLE)
RELATED = relationship.grm(*SUMS)
T = np.array([[0.0, 0.3, -0.9], [2.0, -7.5, 40.0], [400.0, -1e5, np.inf], [np.nan, 1e-9, 1.0]])
DF = np.array([[4.0], [30.0], [1000.0], [2500.0]])
P = np.concatenate([RNG.uniform(1e-12, 1, 500), [np.nan]])
BIG = RNG.multinomial(20_000, [0.3, 0.5, 0.2], 40)
ODD = np.array([[0, 0, 0], [5, 0, 0], [0, 7, 0], [1, 0, 1], [50, 3, 47], [0, 1, 999]])
HOST_ONLY = {"auc", "log_loss", "accuracy", "rmse", "r2", "fnv1a"}  # of predictions and of keys, which lie on the host
PLAIN = {"packed_width", "variant_blocks"}  # numbers to numbers


class Case(NamedTuple):
    """A kernel with arguments, and the relative tolerance of its floats."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    tolerance: float = 1e-12


def built(covariates: Any, traits: Any) -> Design:
    return Design.build(covariates, traits)


def associated(calls: Any, missing: Any) -> Any:
    return linear_regression.associate(calls, PEOPLE, DESIGN, missing)


def hwe(counts: Any, midp: bool) -> Any:
    return hardy_weinberg.hwe_exact(counts[:, 0], counts[:, 1], counts[:, 2], midp)


CASES = {
    "pack": Case(genotypes.pack, (DOSAGES,)),
    "pack nothing": Case(genotypes.pack, (DOSAGES[:0],)),
    "unpack": Case(genotypes.unpack, (CALLS, PEOPLE)),
    "unpack floats": Case(genotypes.unpack, (CALLS, PEOPLE, np.float32, float("nan"))),
    "call_counts": Case(genotypes.call_counts, (CALLS, PEOPLE)),
    "call_counts of nothing": Case(genotypes.call_counts, (CALLS[:0], PEOPLE)),
    "sample_counts": Case(genotypes.sample_counts, (np.tile(CALLS, (9, 1)), PEOPLE)),
    "take_samples": Case(genotypes.take_samples, (CALLS, PEOPLE, np.array([5, 0, 5, 41]))),
    "missing_calls": Case(genotypes.missing_calls, (CALLS, PEOPLE)),
    "alt_frequency": Case(genotypes.alt_frequency, (COUNTS,)),
    "minor_allele_frequency": Case(genotypes.minor_allele_frequency, (COUNTS,)),
    "call_rate": Case(genotypes.call_rate, (COUNTS,)),
    "hwe_exact": Case(hwe, (COUNTS, False), 1e-9),
    "hwe_exact of many people": Case(hwe, (BIG, False), 1e-9),
    "hwe_exact of odd counts": Case(hwe, (ODD, False), 1e-9),
    "hwe_exact mid-p": Case(hwe, (COUNTS, True), 1e-9),
    "hwe_exact of nothing": Case(hwe, (COUNTS[:0], False)),
    "Design": Case(built, (COVARIATES, TRAITS), 1e-10),
    "missingness_groups": Case(missingness_groups, (TRAITS,)),
    "associate": Case(associated, (CALLS, "complete_case"), 1e-9),
    "associate with means": Case(associated, (CALLS, "mean"), 1e-9),
    "associate with nothing": Case(associated, (CALLS[:0], "complete_case")),
    "t_test_p_values": Case(p_values.t_test_p_values, (T, DF), 1e-9),
    "genomic_inflation": Case(p_values.genomic_inflation, (P,), 1e-9),
    "grm_sums": Case(relationship.grm_sums, (CALLS, PEOPLE)),
    "grm_sums with most missing": Case(relationship.grm_sums, (CALLS | np.uint8(0b11), PEOPLE)),
    "grm": Case(relationship.grm, SUMS),
    "principal_components": Case(relationship.principal_components, (RELATED, 2), 1e-8),
}


def arrays_of(value: Any) -> Iterator[Any]:
    """Arrays and numbers of an answer, whatever it is made of."""
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, tuple | list):
        for piece in value:
            yield from arrays_of(piece)
    else:
        yield value


@pytest.mark.parametrize("name", CASES)
def test_a_kernel__gives_what_it_gives_on_the_cpu(name: str, device: Backend, library: str) -> None:
    function, arguments, tolerance = CASES[name]
    expected = list(arrays_of(function(*arguments)))
    moved = [to_device(argument, device) if isinstance(argument, np.ndarray) else argument for argument in arguments]
    found = list(arrays_of(function(*moved)))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if not isinstance(theirs, np.ndarray):
            assert ours == pytest.approx(theirs, rel=tolerance, nan_ok=True) if isinstance(theirs, float) else ours == theirs
            continue
        assert library_of(ours) == library
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(to_host(ours), theirs, rtol=tolerance if theirs.dtype.kind == "f" else 0, atol=1e-14)


def test_every_kernel__has_a_case() -> None:
    names = set()
    for file in Path(pipeline.kernels.__path__[0]).glob("[a-z]*.py"):
        module = import_module(f"pipeline.kernels.{file.stem}")
        names |= {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        }
    assert names == {name.split()[0] for name in CASES} - {"Design"} | HOST_ONLY | PLAIN


def test_calls_that_cannot_be__are_refused_there_too(device: Backend) -> None:
    with pytest.raises(ValueError, match="A call is 0, 1, 2 ALT alleles, or 3 or -1 where it is missing; found 4"):
        genotypes.pack(to_device(np.array([[0, 4]], np.int8), device))
    with pytest.raises(DataError, match="share no called variant that varies"):
        relationship.grm(to_device(SUMS[0], device), to_device(SUMS[1] * 0, device))


def test_the_library__is_that_of_the_data(device: Backend, library: str) -> None:
    host, there = np.ones(3), to_device(np.ones(3), device)
    assert array_module(host) is np
    assert array_module(host, there).__name__ == library
    assert special_module(there).__name__ == ("cupyx.scipy.special" if library == "cupy" else "scipy.special")
    assert isinstance(to_host(there), np.ndarray)
