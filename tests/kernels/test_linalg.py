"""Factorizations: what fails on a GPU fails as on a CPU, where NumPy raises and CuPy says nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import pipeline.kernels
from pipeline.backend.arrays import checked_linalg
from pipeline.errors import DataError
from pipeline.kernels.factorials import log_factorials
from pipeline.kernels.randomized_pca import Krylov, krylov_step, ritz_pairs

KERNELS = sorted(Path(str(pipeline.kernels.__file__)).parent.rglob("*.py"))
FACTORIZATIONS = {"cholesky", "eigh", "eigvalsh", "inv", "lstsq", "qr", "solve", "svd"}


def on_any_backend(node: ast.AST) -> bool:
    """Whether a node is a call of `xp.linalg.FACTORIZATION`; NumPy's and SciPy's own names are the host's."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=root, attr="linalg"), attr=name)) if name in FACTORIZATIONS:
            return not (isinstance(root, ast.Name) and root.id in {"np", "scipy"})
    return False


def is_checked(node: ast.AST) -> bool:
    match node:
        case ast.With(items=[ast.withitem(context_expr=ast.Call(func=ast.Name(id="checked_linalg")))]):
            return True
    return False


def test_a_factorization_of_a_kernel__is_one_that_raises_where_it_fails() -> None:
    found, checked = 0, 0
    for tree in (ast.parse(path.read_text(encoding="utf-8")) for path in KERNELS):
        inside = {id(child) for node in ast.walk(tree) if is_checked(node) for child in ast.walk(node)}
        calls = [node for node in ast.walk(tree) if on_any_backend(node)]
        found += len(calls)
        checked += sum(id(call) in inside for call in calls)
    assert found >= 6
    assert checked == found


def test_cupy__is_told_to_raise_for_the_block_and_numpy_needs_no_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any] | str] = []

    @contextmanager
    def errstate(**what: Any) -> Iterator[None]:
        told.append(what)
        yield
        told.append("as before")

    cupyx = ModuleType("cupyx")
    cupyx.__dict__.update(errstate=errstate)
    monkeypatch.setitem(sys.modules, "cupyx", cupyx)
    with checked_linalg(np):
        assert told == []
    with checked_linalg(SimpleNamespace(__name__="cupy")):
        assert told == [{"linalg": "raise"}]
    assert told == [{"linalg": "raise"}, "as before"]


def test_axes_whose_factorization_gives_what_is_not_finite__are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Krylov((np.linalg.qr(np.arange(12.0).reshape(6, 2) ** 2)[0],), ())
    product = np.arange(12.0).reshape(6, 2) ** 3
    done = krylov_step(start, product)
    nothing = np.full(2, np.nan)
    monkeypatch.setattr(np.linalg, "svd", lambda a, **_: (a, nothing, a))
    with pytest.raises(DataError, match="an eigenvalue is not finite"):
        krylov_step(start, product)
    monkeypatch.setattr(np.linalg, "eigh", lambda a: (nothing, a))
    with pytest.raises(DataError, match="an eigenvalue is not finite"):
        ritz_pairs(Krylov(done.bases, done.products), 1)


@pytest.mark.parametrize("most", [0, 1, 7, 5_000])
def test_log_factorials__are_scipys_and_made_once(most: int) -> None:
    found = log_factorials(most, np.empty(0))
    assert found.tolist() == gammaln(np.arange(1, most + 2)).tolist()
    assert log_factorials(most, np.empty(0)) is found
