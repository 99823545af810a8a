"""Cholesky factors by the LAPACK that SciPy brings, without the interpreter's lock: SciPy's own functions hold it, and threads would wait.

The routines are those that scipy.linalg.cython_lapack exports for compiled code. They check nothing, so arrays are checked here.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

import numpy as np
from numpy.ctypeslib import ndpointer

Array = Any
_INT = ctypes.POINTER(ctypes.c_int)
_KINDS: dict[str, Any] = {"char *": ctypes.c_char_p, "int *": _INT, "s *": ndpointer(np.float32)}


def cholesky_factor(matrix: Array) -> bool:
    """Put L of A = L L' into the lower triangle of a symmetric A, `float32[n, n]` in Fortran's order.

    Returns whether A is positive definite. Raises ValueError for another array.
    """
    size, failed = _square(matrix), ctypes.c_int()
    _routine("spotrf", "char *", "int *", "s *", "int *", "int *")(b"L", size, matrix, size, failed)
    return failed.value == 0


def cholesky_solved(factor: Array, right: Array) -> Array:
    """A^-1 B, `float32[n, t]`, in place of B, in Fortran's order, of the factor of A that `cholesky_factor` left.

    Raises ValueError for other arrays.
    """
    size, failed = _square(factor), ctypes.c_int()
    _check(right, len(factor))
    call = _routine("spotrs", "char *", "int *", "int *", "s *", "int *", "s *", "int *", "int *")
    call(b"L", size, ctypes.c_int(right.shape[1]), factor, size, right, size, failed)
    return right


def _square(matrix: Array) -> ctypes.c_int:
    """The size of a matrix that LAPACK can take."""
    _check(matrix, matrix.shape[-1])
    return ctypes.c_int(len(matrix))


def _check(matrix: Array, rows: int) -> None:
    """Raise ValueError for an array that LAPACK would misread."""
    if matrix.dtype != np.float32 or matrix.ndim != 2 or len(matrix) != rows or not matrix.flags.f_contiguous or not matrix.flags.writeable:
        raise ValueError(f"float32[{rows}, n] in Fortran's order is wanted, not {matrix.dtype}{list(matrix.shape)}")


@cache
def _routine(name: str, *kinds: str) -> Any:
    """A routine by its address, which ctypes calls without the lock. Raises RuntimeError where SciPy's takes other arguments."""
    from scipy.linalg import cython_lapack

    told, at = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    told.restype, told.argtypes = ctypes.c_char_p, [ctypes.py_object]
    at.restype, at.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = cython_lapack.__pyx_capi__[name]
    takes = told(capsule)
    if re.sub(r"__pyx_t_\w+_(?=s\b)", "", takes.decode()) != f"void ({', '.join(kinds)})":
        raise RuntimeError(f"SciPy's {name} takes {takes.decode()}, and ({', '.join(kinds)}) is wanted")
    return ctypes.CFUNCTYPE(None, *(_KINDS[kind] for kind in kinds))(at(capsule, takes))
