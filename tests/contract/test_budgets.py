"""What kernels and the shipped genomics job may ask of a GPU at most: launches, waits and device memory, counted on the stand-in.

A launch from Python costs ten microseconds and a wait fifteen, so these numbers are the time of all but the largest work. They are to fall:
who makes a kernel cheaper writes the lower number here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu_kernels import OF_PAIRS, OF_VARIANTS, Cohort, simulated
from pipeline.api import Run, load
from pipeline.backend import memory
from tests.gpu.test_jobs import assert_runs_alike
from tests.standin.budget import MIB, Budget, spending
from tests.standin.counts import DEVICE_BYTES, Counts, card_of, held, measured
from tests.standin.machine import gpu
from tests.standin.modules import installed

pytestmark = pytest.mark.contract

GENOMICS = Path(__file__).parents[2] / "jobs" / "genomics.yaml"
WIDE, LONG = (4000, 2500), (64, 500_000)
LESS, SQUARE = (64, 50_000), (200, 600)  # where the host, which computes it all, would take minutes

BUDGETS: dict[tuple[str, tuple[int, int]], Budget] = {
    #                                                          launches  waits    MiB
    ("calls per variant", WIDE): Budget(                             1,    0,     1),
    ("calls per variant", LONG): Budget(                             1,    0,     1),
    ("calls per sample", WIDE): Budget(                              2,    0,     1),
    ("calls per sample", LONG): Budget(                              2,    0,    16),
    ("half of the people taken", WIDE): Budget(                      1,    1,     2),
    ("half of the people taken", LONG): Budget(                      1,    1,     6),
    ("Hardy-Weinberg, exact", WIDE): Budget(                        13,    2,     1),
    ("Hardy-Weinberg, exact", LONG): Budget(                        15,    3,     1),
    ("linear GWAS, 1 trait", WIDE): Budget(                         17,    0,    82),
    ("linear GWAS, 1 trait", LONG): Budget(                         17,    0,   291),
    ("linear GWAS, 100 traits", WIDE): Budget(                      17,    0,   139),
    ("linear GWAS, means for missing", WIDE): Budget(               18,    0,    82),
    ("linear GWAS, means for missing", LESS): Budget(               18,    0,    30),
    ("logistic GWAS, Firth below 0.05", WIDE): Budget(              63,    2,    83),
    ("logistic GWAS, Firth below 0.05", LESS): Budget(              63,    2,    48),
    ("p-values of t", WIDE): Budget(                                 2,    0,     1),
    ("calls standardized", WIDE): Budget(                            1,    0,    77),
    ("calls standardized", LONG): Budget(                            1,    0,   245),
    ("a pass of principal components", WIDE): Budget(               18,    0,    78),
    ("a pass of principal components", LONG): Budget(               18,    0,   428),
    ("pruning", SQUARE): Budget(                                     2,    2,     1),
    ("clumping around one lead", WIDE): Budget(                      1,    0,     1),
    ("clumping around one lead", LONG): Budget(                      1,    0,     1),
    ("polygenic score", WIDE): Budget(                              22,    1,     1),
    ("polygenic score", LONG): Budget(                              22,    1,    12),
    ("relationship sums", SQUARE): Budget(                          20,    0,     9),
    ("kinship", SQUARE): Budget(                                    16,    3,    16),
    ("10 principal components, exact", SQUARE): Budget(             24,    2,     3),
}  # fmt: skip
# It was 90,000 launches and 2,800 waits before there were kernels of our own; 3,000 launches was the aim.
JOB = Budget(launches=1_250, waits=165, mib=80)
JOB_KERNELS = 115
"""Kernels of the shipped genomics job that NVRTC compiles the first time a machine meets them."""


SCALE = 200
"""A card a two-hundredth of an H200 holds of 2,500 people what an H200 holds of 500,000."""
OF_PEOPLE = (
    *("calls per variant", "calls per sample", "half of the people taken", "linear GWAS, 1 trait", "linear GWAS, means for missing"),
    *("a pass of principal components", "polygenic score"),
)
"""Kernels that would need a whole card, were all their variants decoded at once."""


@pytest.fixture
def cupy() -> Iterator[Any]:
    """CuPy, by the stand-in."""
    with installed() as module:
        yield module


def cohort(cupy: Any, variants: int, samples: int) -> Cohort:
    """Simulated calls on the device."""
    return Cohort(cupy.asarray(simulated(variants, samples)), samples)


@contextmanager
def model(monkeypatch: pytest.MonkeyPatch, scale: int) -> Iterator[None]:
    """A scale model of an H200, blocks of work and all."""
    monkeypatch.setattr(memory, "MOST", memory.MOST // scale)
    with card_of(DEVICE_BYTES // scale):
        yield


@pytest.mark.parametrize(("name", "shape"), BUDGETS, ids=lambda value: value if isinstance(value, str) else "{:,}x{:,}".format(*value))
def test_a_kernel__keeps_within_its_budget(name: str, shape: tuple[int, int], cupy: Any) -> None:
    work = (OF_VARIANTS | OF_PAIRS)[name](cohort(cupy, *shape))
    with spending() as spent:
        work.run()
    assert not spent.beyond(BUDGETS[name, shape])


def test_every_kernel__has_a_budget() -> None:
    assert {name for name, _ in BUDGETS} == set(OF_VARIANTS | OF_PAIRS) - {"linear GWAS, 2,048 traits"}


@pytest.mark.parametrize("name", OF_PEOPLE)
def test_a_kernel_on_500_000_people__takes_less_than_half_of_the_card(name: str, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with model(monkeypatch, SCALE):
        work, half = OF_VARIANTS[name](cohort(cupy, 20_000, 500_000 // SCALE)), held.capacity / 2 / MIB
        with spending() as spent:
            work.run()
    assert not spent.beyond(Budget(10**6, 10**6, half))


def test_linear_gwas_of_200_000_variants__is_launched_in_30_ms(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with model(monkeypatch, 200_000 // WIDE[0]):  # as many blocks of a fiftieth of the variants
        work = OF_VARIANTS["linear GWAS, 1 trait"](cohort(cupy, *WIDE))
        with measured() as found:
            work.run()
    assert found.overhead < 0.030, found.dearest()


@pytest.fixture(scope="module")
def genomics(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Counts]:
    """The shipped genomics job on the device, and what it asked of it as a whole."""
    pytest.importorskip("xgboost")
    with gpu(), measured() as found:
        run = load(GENOMICS, backend="gpu", cluster="local", results=str(tmp_path_factory.mktemp("job"))).run()
    return run, found


def test_the_shipped_genomics_job__gives_what_it_gives_on_the_cpu(genomics: tuple[Run, Counts], tmp_path: Path) -> None:
    found, expected = genomics[0], load(GENOMICS, cluster="local", results=str(tmp_path)).run()
    assert (found.record["backend"], expected.record["backend"]) == ("gpu", "cpu")
    assert_runs_alike(found, expected)


def test_the_shipped_genomics_job__keeps_within_its_budget(genomics: tuple[Run, Counts]) -> None:
    counts = genomics[1]
    assert counts.launches <= JOB.launches, counts.dearest()
    assert counts.waits <= JOB.waits, counts.dearest()
    assert counts.peak <= JOB.mib * MIB


def test_the_shipped_genomics_job__compiles_few_kernels(genomics: tuple[Run, Counts]) -> None:
    assert len(genomics[1].kernels) <= JOB_KERNELS
