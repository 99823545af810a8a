"""What computes: versions of Python and of the libraries, and a digest of the code of ours that decides results."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "dask",
    "distributed",
    "polars",
    "numpy",
    "scipy",
    "numba",
    "pyarrow",
    "xgboost-cpu",
    "xgboost",
    "cudf-cu13",
    "cudf-polars-cu13",
    "cupy-cuda13x",
    "dask-cuda",
    "jax",
    "flax",
    "optax",
)
DECIDING = ("backend", "formats", "genome", "kernels", "neural", "sql", "stages", "tables")
"""Folders of the package whose code decides what comes out; the others decide where and when."""


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that are installed."""
    found = {"python": sys.version.split()[0]}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


@cache
def code_of(module: str) -> str:
    """Digest of the source that decides what a stage or a format gives: ours, and that of its own module where it is another package's."""
    own = sys.modules[module].__file__ if not module.startswith("pipeline.") else None
    return program() if own is None else hashlib.blake2b(program().encode() + Path(own).read_bytes(), digest_size=8).hexdigest()


@cache
def program() -> str:
    """Digest of the source of all stages, formats and kernels: whoever changes one gets no results of the one before."""
    root = Path(__file__).parents[1]
    files = [root / "stage.py", root / "format.py"]
    files += [path for folder in DECIDING for path in sorted((root / folder).rglob("*")) if path.suffix in {".py", ".ptx"}]
    total = hashlib.blake2b(digest_size=8)
    for path in files:
        total.update(path.read_bytes())
    return total.hexdigest()
