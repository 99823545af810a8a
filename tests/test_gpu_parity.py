"""What benchmarks/gpu.py compares a GPU with, where nothing is there to compute it, is what the CPU gives."""

from __future__ import annotations

from benchmarks.gpu_parity import TOLERANCE, difference, live, recorded


def test_the_recorded_answers__are_those_of_the_cpu() -> None:
    found, expected = live(), recorded()
    assert found.keys() == expected.keys()
    apart = {name: difference(found[name], expected[name]) for name in found}
    assert max(apart.values()) <= TOLERANCE / 100, f"run benchmarks/gpu_parity.py: {apart}"
