"""Compiled kernels that are kept on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
import numpy as np
from pipeline.kernels.genotypes import call_counts
counts = call_counts(np.array([[0b11100100]], np.uint8), 4)
print(counts.tolist(), "numba.np.arraymath" in sys.modules)
from pipeline.kernels.compiled.jit import compiled
print(compiled(lambda a: a.sum())(np.ones(3)))
"""


@pytest.mark.process
def test_a_kept_kernel__is_loaded_without_what_compiling_takes(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    script = tmp_path / "kernel.py"  # numba keeps what comes from a file
    script.write_text(CODE, encoding="utf-8")
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")])
    said = [
        subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, env=environment).stdout.split("\n")
        for _ in range(2)
    ]
    assert [lines[0] for lines in said] == ["[[1, 1, 1, 1]] True", "[[1, 1, 1, 1]] False"]
    assert [lines[1] for lines in said] == ["3.0", "3.0"]


TWICE = """
import re, sys
from numba.core.registry import CPUDispatcher
from pipeline.run import main

assert main(sys.argv[1:]) == 0
for module in [each for name, each in sys.modules.items() if name.startswith("pipeline.kernels.compiled.")]:
    for name, kernel in vars(module).items():
        if isinstance(kernel, CPUDispatcher) and kernel.py_func.__module__ == module.__name__ and kernel.signatures:
            alike = [re.sub(r"'[ACF]', (True|False)", "", str(each)) for each in kernel.signatures]
            print(*["often", name, *kernel.signatures] if len({*alike}) < len(alike) else ["once", name])
"""


@pytest.mark.process
def test_kernels_of_the_example_job__are_compiled_once_and_not_for_each_order_of_an_array_in_memory(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", TWICE, "jobs/genomics.yaml", "--out", str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    ).stdout.split("\n")  # fmt: skip
    assert {"once wald_each", "once prune_windows", "once score_each", "once regress"} <= {*said}
    assert [line for line in said if line.startswith("often")] == []
