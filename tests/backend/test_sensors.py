"""Sensors of power: what they say, counters that begin again, and in words why one says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.backend.sensors import GpuLook, Gpus, Rapl, SensorError
from tests.fake_sensors import RANGE, NVMLError, fake_gpus, fake_powercap, no_gpus


def test_gpus__say_watts_bytes_and_how_busy_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(monkeypatch, [1, 1, 250_000, 70_500], gpus=2)
    assert Gpus().read() == (GpuLook(250.0, 3 << 30, 0.5), GpuLook(70.5, 3 << 30, 0.5))


def test_gpus__that_do_not_show_or_do_not_tell_are_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpus(monkeypatch)
    with pytest.raises(SensorError, match="this machine shows no NVIDIA GPU"):
        Gpus()
    fake_gpus(monkeypatch, [NVMLError("Not Supported")])
    with pytest.raises(SensorError, match=r"NVML does not tell the power of a GPU \(Not Supported\)"):
        Gpus()


def test_rapl__adds_up_packages_and_not_their_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = fake_powercap(monkeypatch, tmp_path)
    rapl = Rapl()
    assert rapl.read() == 0
    one.write_text(str(1_000_000_000 + 2_500_000), encoding="ascii")
    two.write_text(str(1_000_000_000 + 500_000), encoding="ascii")
    (tmp_path / "intel-rapl:0:0" / "energy_uj").write_text("9999999999", encoding="ascii")
    assert rapl.read() == pytest.approx(3.0)
    assert rapl.read() == pytest.approx(3.0)


def test_rapl__counts_on_where_a_counter_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (counter,) = fake_powercap(monkeypatch, tmp_path, packages=1)
    counter.write_text(str(RANGE - 1_000_000), encoding="ascii")
    rapl = Rapl()
    counter.write_text("2000000", encoding="ascii")
    assert rapl.read() == pytest.approx(3.0)


def test_rapl__that_is_not_there_or_may_not_be_read_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (counter,) = fake_powercap(monkeypatch, tmp_path / "some", packages=1)
    counter.write_text("none", encoding="ascii")
    with pytest.raises(SensorError, match="energy_uj cannot be read"):
        Rapl()

    def forbidden(*_given: Any, **_options: Any) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", forbidden)
    with pytest.raises(SensorError, match="energy_uj may be read by root alone"):
        Rapl()
    monkeypatch.setattr("pipeline.backend.sensors.POWERCAP", tmp_path / "none")
    with pytest.raises(SensorError, match="none has no energy counter of a processor"):
        Rapl()
