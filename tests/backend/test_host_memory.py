"""How much memory there is: the machine's, or what a group of processes may take where that is less."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.backend import memory


def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, limits: dict[str, str]) -> None:
    """A system whose groups of processes have these limits."""
    (tmp_path / "groups").write_text(told)
    for name, limit in limits.items():
        path = tmp_path / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_MOUNTED", tmp_path / "mounted")


def test_machine__without_limits_is_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups(tmp_path, monkeypatch, "0::/\n", {"memory.max": "max\n"})
    psutil = pytest.importorskip("psutil")
    assert memory.host_bytes() == psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("told", "limits"),
    [
        ("0::/job\n", {"memory.max": "max\n", "job/memory.max": "2000000\n"}),
        ("0::/job/step\n", {"job/memory.max": "2000000\n", "job/step/memory.max": "max\n"}),
        ("0::/of/another/view\n", {"memory.max": "2000000\n"}),
        ("7:cpu,memory:/slurm/job\n3:cpu:/\n", {"memory/slurm/job/memory.limit_in_bytes": "2000000\n"}),
    ],
)
def test_group__with_less_than_the_machine_counts(
    told: str, limits: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups(tmp_path, monkeypatch, told, limits)
    assert memory.host_bytes() == 2_000_000


def test_group__of_no_system_that_says_it_is_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "none")
    assert memory.host_bytes() > 2_000_000
