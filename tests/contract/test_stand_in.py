"""The stand-in refuses what CuPy refuses, gives the types that CuPy gives, and counts what a device would be asked to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pipeline.backend.arrays import array_module, special_module, to_host
from pipeline.backend.launch import DeviceKernel
from tests.standin.budget import MIB, Budget, spending
from tests.standin.counts import card_of, held, measured
from tests.standin.modules import installed

pytestmark = pytest.mark.contract


@pytest.fixture
def cupy() -> Iterator[Any]:
    """CuPy, by the stand-in."""
    with installed() as module:
        yield module


@pytest.fixture
def square(cupy: Any) -> Any:
    """`float64[3, 3]` there."""
    return cupy.asarray(np.arange(9.0).reshape(3, 3))


def _totals(rows: Any, sums: Any) -> None:
    """Write the sums of rows."""
    sums[:] = rows.sum(axis=1)


TOTALS = DeviceKernel(_totals, "uint8[:,::1] int64[::1]", _totals)
HOST = np.ones(3)
REFUSED: dict[str, tuple[Callable[[Any, Any], Any], type[Exception] | tuple[type[Exception], ...], str]] = {
    "a host array in an operator": (lambda _, a: a + HOST, TypeError, "a host array where cupy.add wants"),
    "a host array on its left": (lambda _, a: HOST * a, TypeError, "a host array where cupy.multiply wants"),
    "a host array in a function": (lambda cupy, _: cupy.sqrt(HOST), TypeError, "a host array where cupy.sqrt wants"),
    "a host array among those joined": (lambda cupy, a: cupy.concatenate([a[0], HOST]), TypeError, "a host array where cupy.concatenate"),
    "a host array as result": (lambda cupy, a: cupy.add(a[0], 1, out=HOST), TypeError, "a host array where cupy.add wants"),
    "a host array put into a slice": (
        lambda _, a: a.__setitem__(0, HOST),
        ValueError,
        "non-scalar numpy.ndarray cannot be used for fill",
    ),
    "a list in a function": (lambda cupy, _: cupy.sqrt([1.0]), TypeError, "Unsupported type <class 'list'>"),
    "a list in a reduction": (lambda cupy, _: cupy.sum([1.0]), TypeError, "Unsupported type <class 'list'>"),
    "a conversion in silence": (lambda _, a: np.asarray(a), TypeError, "Implicit conversion to a NumPy array is not allowed"),
    "a function that CuPy has not": (lambda cupy, _: cupy.setxor1d_all, AttributeError, "CuPy's has none"),
    "a function of NumPy's that CuPy has not": (lambda cupy, _: cupy.busday_count, AttributeError, "CuPy's has none"),
    "a keyword that CuPy has not": (lambda cupy, a: cupy.sum(a, where=a > 1), TypeError, r"cupy\.sum\(a, axis=None.*'where'"),
    "a keyword that its ufuncs have not": (lambda cupy, a: cupy.sqrt(a, where=a > 1), TypeError, "Wrong arguments {'where'}"),
    "types that a ufunc has no loop for": (lambda cupy, a: cupy.bitwise_and(a, a), TypeError, "Wrong type|not supported"),
    "another sort than the stable one": (lambda cupy, a: cupy.argsort(a, kind="quicksort"), (TypeError, ValueError), "kind"),
    "objects": (lambda cupy, _: cupy.asarray(["x"]), ValueError, "Unsupported dtype"),
    "a kernel of ours on a host array": (
        lambda cupy, _: TOTALS(1, np.zeros((1, 1), np.uint8), cupy.zeros(1, np.int64)),
        TypeError,
        "does not lie on the device",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cupy_refuses__is_refused(what: str, cupy: Any, square: Any) -> None:
    work, error, said = REFUSED[what]
    with pytest.raises(error, match=said):
        work(cupy, square)


def test_what_stands_in__is_what_kernels_find(cupy: Any, square: Any) -> None:
    assert array_module(square) is cupy
    assert special_module(square).__name__ == "cupyx.scipy.special"
    assert isinstance(to_host(square), np.ndarray)


def test_the_real_library__is_back_afterwards() -> None:
    import cupy as before

    with installed() as module:
        import cupy as within

        assert within is module
    import cupy as after

    assert after is before


def test_types__are_those_of_cupys_loops(cupy: Any) -> None:
    small = cupy.asarray(np.arange(3, dtype=np.int8))
    for name in ("sqrt", "add", "true_divide", "bitwise_count"):
        function = getattr(cupy, name)
        arguments = (small,) * function.nin
        loop = next(loop for loop in function.types if all(np.can_cast("b", char, "safe") for char in loop.split("->")[0]))
        assert function(*arguments).dtype == np.dtype(loop.split("->")[1])


def test_a_factorization_that_fails__does_not_raise(cupy: Any) -> None:
    matrices = cupy.asarray(np.stack([np.eye(2), -np.eye(2)]))
    found = to_host(cupy.linalg.cholesky(matrices))
    np.testing.assert_array_equal(found[0], np.eye(2))
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize(
    ("work", "launches", "waits"),
    [
        (lambda _, a: a + a, 1, 0),
        (lambda _, a: (a + 1).sum(axis=0), 2, 0),
        (lambda _, a: a.T[1:].reshape(2, 3), 0, 0),
        (lambda _, a: a[a > 3], 4, 1),
        (lambda _, a: a.__setitem__(a > 3, 0.0), 2, 0),
        (lambda cupy, a: cupy.nonzero(a), 4, 1),
        (lambda _, a: float(a[0, 0]), 0, 1),
        (lambda cupy, a: cupy.concatenate([a, a, a]), 3, 0),
        (lambda cupy, _: TOTALS(2, cupy.ones((2, 5), np.uint8), cupy.zeros(2, np.int64)), 3, 0),
    ],
    ids=["operator", "two", "views", "mask", "masked write", "nonzero", "number", "join", "kernel"],
)
def test_work__is_counted(work: Callable[[Any, Any], Any], launches: int, waits: int, cupy: Any, square: Any) -> None:
    with measured() as found:
        work(cupy, square)
    assert (found.launches, found.waits) == (launches, waits)


def test_a_kernel_of_ours__is_computed_by_its_plain_version_in_place(cupy: Any) -> None:
    sums = cupy.zeros(3, np.int64)
    with measured() as found:
        TOTALS(3, cupy.asarray(np.arange(6, dtype=np.uint8).reshape(3, 2)), sums[:])
    assert to_host(sums).tolist() == [1, 5, 9]
    assert (found.launches, found.touched) == (1, 6 + 24)


def test_more_than_the_card_holds__is_out_of_memory(cupy: Any) -> None:
    with card_of(held.alive + 2048), pytest.raises(MemoryError, match="Out of memory allocating 4,096 bytes"):
        cupy.zeros(4096, np.uint8)


def test_bytes_and_products__are_counted(cupy: Any) -> None:
    host = np.ones((4, 6))
    with measured() as found:
        there = cupy.asarray(host)
        product = there @ there.T
        product.get()
    assert (found.sent, found.fetched, found.copies) == (host.nbytes, 16 * 8, 2)
    assert found.flops == 2 * 4 * 6 * 4
    assert found.touched == 2 * host.nbytes + 16 * 8
    assert found.overhead == pytest.approx(25e-6)
    assert found.seconds > found.overhead


def test_memory__is_counted_while_it_is_alive_and_views_share_it(cupy: Any) -> None:
    before = held.alive
    with measured() as found:
        whole = cupy.zeros((1024, 1024), np.uint8)
        views = whole[:512], whole.T, whole.reshape(-1), cupy.broadcast_to(whole, (9, 1024, 1024))
        assert held.alive - before == 1 << 20
        second = whole + 1
        assert held.alive - before == 2 << 20
        del whole, second
        assert held.alive - before == 1 << 20
        del views
    assert held.alive == before
    assert found.peak - before == 2 << 20


def test_kernels_to_compile__are_told_apart_by_their_types_and_axes(cupy: Any, square: Any) -> None:
    with measured() as found:
        for _ in range(3):
            cupy.sqrt(square)
    assert len(found.kernels) == 1
    with measured() as found:
        cupy.sqrt(square), cupy.sqrt(square.astype(np.float32)), cupy.sqrt(square[:, 1:]), square @ square
    assert len(found.kernels) == 4


def test_what_is_beyond_a_budget__is_said_with_what_was_asked(cupy: Any, square: Any) -> None:
    with spending() as spent:
        kept = float((square + cupy.zeros((512, 1024, 1), np.float64)[..., 0].sum())[0, 0])
    assert kept == 0
    asked = spent.counts
    assert not spent.beyond(Budget(asked.launches, asked.waits, asked.peak / MIB))
    assert spent.beyond(Budget(asked.launches - 1, asked.waits, 3)).startswith("launches and mib: Budget(launches=")
