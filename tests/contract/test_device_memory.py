"""Parts in dask-cuda's own memory of a worker: those on the GPU count against its limit, and beyond it go to the host and a disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.backend.arrays import array_module
from pipeline.backend.frames import DeviceFrame
from pipeline.tables.part import Part
from pipeline.tables.wire import register_with_dask, register_with_gpus
from tests.standin.frames import Container, installed

pytestmark = pytest.mark.contract

MB = 1_000_000
ROWS = 30_000


class DeviceArray:
    """An array that would lie on a GPU: it says where, tells its size, and comes to the host by `get` alone."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.dtype, self.shape, self.nbytes, self.size = held.dtype, held.shape, held.nbytes, held.size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.held.ctypes.data, False), "version": 3}

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def get(self) -> Any:
        return self.held.copy()


@pytest.fixture(autouse=True)
def _cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy as far as parts need it; what the library itself registers for its arrays is registered for ours."""
    from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

    cupy = ModuleType("cupy")
    cupy.__dict__.update(ndarray=DeviceArray, asarray=lambda array: array if isinstance(array, DeviceArray) else DeviceArray(array.copy()))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    cuda_serialize.register(DeviceArray, lambda array: ({"shape": array.shape}, [array]))
    cuda_deserialize.register(DeviceArray, lambda _header, frames: frames[0])
    register_with_dask()
    register_with_gpus()


def part(number: int, place: Any = DeviceArray) -> Part:
    """A part of some 30 MB of calls, all of them its number."""
    return Part(pl.DataFrame({"id": np.arange(ROWS)}), {"calls": place(np.full((ROWS, 1_000), number, np.uint8))}, {"lost": number})


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    """A worker's memory with a device limit of 100 MB and a host limit of 80."""
    from dask_cuda.device_host_file import DeviceHostFile

    return DeviceHostFile(str(tmp_path), device_memory_limit=100 * MB, memory_limit=80 * MB)


def test_parts_on_the_gpu__spill_from_it_beyond_its_limit_and_come_back(memory: Any) -> None:
    for number in range(6):
        memory[f"p{number}"] = part(number)
    assert sorted(memory.device) == ["p3", "p4", "p5"], "three of 30 MB are under the limit"
    assert sum(held.nbytes for held in memory.device.values()) <= 100 * MB
    assert sorted([*memory.host, *memory.disk]) == ["p0", "p1", "p2"]
    assert len(memory.disk) == 1, "two of the three are all that the host may hold"
    for number in (0, 5, 1):
        back = memory[f"p{number}"]
        assert array_module(back.arrays["calls"]) is sys.modules["cupy"]
        assert (back.arrays["calls"].get() == number).all()
        assert back.frame["id"].to_list() == list(range(ROWS))
        assert back.counts == {"lost": number}
    assert sum(held.nbytes for held in memory.device.values()) <= 100 * MB


def test_parts_of_host_arrays_and_of_none__are_the_hosts(memory: Any) -> None:
    memory["host"], memory["frame"] = part(1, np.asarray), Part(pl.DataFrame({"x": [1]}))
    assert len(memory.device) == 0
    assert sorted(memory.host) == ["frame", "host"]


def test_a_part_between_gpus__goes_by_its_device_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed.protocol import deserialize, serialize

    monkeypatch.setattr(DeviceArray, "get", None)  # no way over the host
    ucx = ("cuda", "dask", "pickle", "error")
    given = Part(part(7).frame, {"calls": part(7).arrays["calls"], "dosages": part(3).arrays["calls"]}, {"lost": 7})
    header, frames = serialize(given, serializers=ucx)
    assert header["serializer"] == "cuda"
    assert [hasattr(frame, "__cuda_array_interface__") for frame in frames] == [False, True, True]
    back = deserialize(header, frames, deserializers=ucx)
    assert {name: array is given.arrays[name] for name, array in back.arrays.items()} == {"calls": True, "dosages": True}
    assert back.frame.equals(given.frame)
    assert back.counts == {"lost": 7}


def test_a_part_of_host_arrays__goes_by_host_buffers_over_ucx_too() -> None:
    from distributed.protocol import deserialize, serialize

    ucx = ("cuda", "dask", "pickle", "error")
    header, frames = serialize(part(4, np.asarray), serializers=ucx)
    assert header["serializer"] == "dask"
    back = deserialize(header, frames, deserializers=ucx)
    assert (back.arrays["calls"] == 4).all()


class Packed(Container):
    """cuDF's container, whose buffer is an array of this file."""

    def serialize(self, stream: Any) -> Any:
        header, (text, buffer) = super().serialize(stream)
        return header, (text, DeviceArray(buffer.host))

    @staticmethod
    def deserialize(header: Any, frames: Any, stream: Any) -> Container:
        buffer: Any = SimpleNamespace(host=frames[1].held)
        return Container.deserialize(header, (frames[0], buffer), stream)


@pytest.fixture
def _staying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Frames that stay on the device are of that container."""
    with installed():
        monkeypatch.setattr("cudf_polars.containers.DataFrame", Packed)
        yield


def staying(number: int) -> Part:
    """A part of some 30 MB of a frame on the device, all of it its number."""
    frame = pl.DataFrame([pl.Series(f"x{at}", np.full(ROWS, number, np.int64)) for at in range(125)])
    return Part(DeviceFrame(Packed(frame)), {}, {"lost": number})


@pytest.mark.usefixtures("_staying")
def test_frames_on_the_gpu__spill_from_it_beyond_its_limit_and_come_back(memory: Any) -> None:
    for number in range(6):
        memory[f"p{number}"] = staying(number)
    assert sorted(memory.device) == ["p3", "p4", "p5"]
    assert sorted([*memory.host, *memory.disk]) == ["p0", "p1", "p2"]
    for number in (0, 5, 1):
        back = memory[f"p{number}"]
        assert isinstance(back.held, DeviceFrame)
        assert back.frame.equals(staying(number).frame)
        assert back.counts == {"lost": number}


@pytest.mark.usefixtures("_staying")
def test_a_frame_between_gpus__goes_by_its_one_buffer_and_so_do_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed.protocol import deserialize, serialize

    monkeypatch.setattr(DeviceArray, "get", None)
    monkeypatch.setattr(Container, "to_polars", None)  # no way over the host
    ucx = ("cuda", "dask", "pickle", "error")
    given = Part(staying(7).held, part(3).arrays, {"lost": 7})
    header, frames = serialize(given, serializers=ucx)
    assert header["serializer"] == "cuda"
    assert [hasattr(frame, "__cuda_array_interface__") for frame in frames] == [False, True, True]
    back = deserialize(header, frames, deserializers=ucx)
    monkeypatch.undo()
    assert isinstance(back.held, DeviceFrame)
    assert back.held.held.rows_of().equals(staying(7).frame)
    assert back.arrays["calls"] is given.arrays["calls"]
    assert back.counts == {"lost": 7}
