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
