"""What a GPU would be asked to launch, by CPU arrays: the plain versions run in the kernels' place."""

from __future__ import annotations

import pytest

from pipeline.backend import launch as seam


def run_plainly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have launches run the plain versions; gives the list to which their names are added."""
    names: list[str] = []

    def run(kernel: seam.DeviceKernel, _grid: tuple[int, ...], arguments: list[object]) -> None:
        names.append(kernel.name)
        kernel.plain(*arguments)

    monkeypatch.setattr(seam, "launch", run)
    return names
