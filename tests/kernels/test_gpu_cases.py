"""Every kernel is compared on a GPU with what the CPU gives, or is said to be no work of a GPU's."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pipeline.kernels
from tests.gpu.test_kernels import CASES, HOST_ONLY, PLAIN


def test_every_kernel__has_a_case_on_a_gpu() -> None:
    names = set()
    for file in Path(pipeline.kernels.__path__[0]).glob("[a-z]*.py"):
        module = import_module(f"pipeline.kernels.{file.stem}")
        names |= {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        }
    cases = {name.split()[0] for name in CASES} - {"Design", "LogisticDesign"} | HOST_ONLY | PLAIN
    assert names == cases, f"every kernel has a case in CASES of tests/gpu/test_kernels.py, and no other: {sorted(names ^ cases)}"
