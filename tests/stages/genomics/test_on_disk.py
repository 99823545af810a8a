"""Matrices that lie on disk."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from pipeline.stages.genomics import _on_disk
from pipeline.stages.genomics._on_disk import OnDisk


def whole(matrix: OnDisk) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.concatenate([some.copy() for _, some in matrix.blocks()])


@pytest.mark.parametrize("step", [1, 100, 1 << 20])
def test_on_disk__gives_its_rows_and_goes_elsewhere(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_on_disk, "_STEP", step)
    numbers = np.arange(35, dtype=np.float64).reshape(7, 5)
    matrix = OnDisk(numbers.T[:4])
    assert np.array_equal(whole(matrix), numbers.T[:4])
    there = pickle.loads(pickle.dumps(matrix))
    assert there.path != matrix.path
    assert np.array_equal(whole(there), numbers.T[:4])


def test_on_disk__gives_one_entry_of_float32_here_and_elsewhere() -> None:
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array = OnDisk(numbers)
    for there in (array, pickle.loads(pickle.dumps(array))):
        assert np.array_equal(there.entry(1), numbers[1])
        assert there.entry(0).dtype == np.float32
    Path(array.path).write_bytes(b"1234")
    with pytest.raises(OSError, match="4 bytes were read where 48 were written"):
        array.entry(0)


def test_on_disk__is_gone_with_the_last_who_knows_it() -> None:
    matrix = OnDisk(np.ones((2, 2)))
    path = Path(matrix.path)
    assert path.stat().st_size == 32
    del matrix
    assert not path.exists()


def test_on_disk__says_when_its_file_was_cut_short() -> None:
    matrix = OnDisk(np.ones((2, 2)))
    Path(matrix.path).write_bytes(b"1234")
    with pytest.raises(OSError, match="4 bytes were read where 32 were written"):
        whole(matrix)
