"""Parts on their way between workers, and to the host's memory or a disk: what of them goes as which buffers."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.allocator import count_on_device
from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.frames import DeviceFrame
from pipeline.tables.part import Part, frame_bytes, frame_size, read_frame


def register_with_dask() -> None:
    """Tell Dask the size and the wire form of parts and frames: without both a worker at its memory limit dies instead of spilling.

    Frames within other values are pickled. Polars' own way keeps Python's lock while it waits for threads of Polars' that may wait for that
    lock (docs/platform.md): a worker that spilled such a value while a query called Python stood still for good.
    """
    from dask.sizeof import sizeof
    from distributed.protocol import dask_deserialize, dask_serialize

    sizeof.register(Part, lambda part: part.nbytes + int(sizeof(part.beside)))
    sizeof.register(pl.DataFrame, frame_size)
    copyreg.pickle(pl.DataFrame, _pickled)
    dask_serialize.register(Part, serialize_part)
    dask_deserialize.register(Part, deserialize_part)
    dask_serialize.register(pl.DataFrame, lambda frame: ({}, [frame_bytes(frame)]))
    dask_deserialize.register(pl.DataFrame, lambda _header, frames: read_frame(frames[0]))


def register_with_gpus() -> None:
    """Tell Dask and dask-cuda of parts whose arrays lie on a GPU: the device limit counts them, UCX sends them from one GPU to another."""
    from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

    cuda_serialize.register(Part, serialize_device_part)
    cuda_deserialize.register(Part, deserialize_device_part)
    count_on_device(Part, lambda part: part.on_device)


def serialize_part(part: Part) -> tuple[dict[str, Any], list[Any]]:
    """Dask's wire form of a part: the frame as Arrow IPC and every array as its buffer, out of band and on the host."""
    arrays = {name: to_host(array) for name, array in part.arrays.items()}
    header = {
        "arrays": [(name, array.dtype.str, list(array.shape)) for name, array in arrays.items()],
        "on_device": part.arrays_on_device,
        "frame_on_device": isinstance(part.held, DeviceFrame),
        "counts": dict(part.counts),
        "beside": _packed(part.beside),
    }
    return header, [frame_bytes(part.frame), *(_buffer(array) for array in arrays.values())]


def deserialize_part(header: dict[str, Any], frames: list[Any]) -> Part:
    """The part that `serialize_part` wrote; arrays that were on a GPU go back to one, and so does the frame."""
    arrays: dict[str, Any] = {}
    for (name, dtype, shape), buffer in zip(header["arrays"], frames[1:], strict=True):
        if header["on_device"]:
            arrays[name] = to_device(np.frombuffer(buffer, dtype).reshape(shape), "gpu")
        else:
            arrays[name] = np.frombuffer(bytearray(buffer), dtype).reshape(shape)  # writable, unlike a view of the message
    frame = read_frame(frames[0])
    return Part(DeviceFrame.of_host(frame) if header["frame_on_device"] else frame, arrays, header["counts"], _unpacked(header["beside"]))


def serialize_device_part(part: Part) -> tuple[dict[str, Any], list[Any]]:
    """The wire form between GPUs (UCX): what lies on a GPU from there, with no way over the host; a frame of the host as Arrow IPC.

    Raises NotImplementedError for a part with nothing on a GPU; Dask then takes the other form.
    """
    from distributed.protocol.cuda import cuda_dumps

    if not part.on_device:
        raise NotImplementedError("a part that is on the host")
    headers, columns, frames = [], None, list[Any]()
    if isinstance(part.held, DeviceFrame):
        own, described, buffer = part.held.dumped()
        header, buffers = cuda_dumps(buffer)
        columns, frames = (own, header, 1 + len(buffers)), [described, *buffers]
    else:
        frames = [frame_bytes(part.held)]
    for name, array in part.arrays.items():
        header, buffers = cuda_dumps(array)
        headers.append((name, header, len(buffers)))
        frames += buffers
    return {"frame": columns, "arrays": headers, "counts": dict(part.counts), "beside": _packed(part.beside)}, frames


def deserialize_device_part(header: dict[str, Any], frames: list[Any]) -> Part:
    """The part that `serialize_device_part` wrote."""
    from distributed.protocol.cuda import cuda_loads

    arrays: dict[str, Any] = {}
    held: pl.DataFrame | DeviceFrame
    first = 1
    if header["frame"] is None:
        held = read_frame(frames[0])
    else:
        columns, described, first = header["frame"]
        held = DeviceFrame.loaded(columns, frames[0], cuda_loads(described, frames[1:first]))
    for name, described, buffers in header["arrays"]:
        arrays[name] = cuda_loads(described, frames[first : first + buffers])
        first += buffers
    return Part(held, arrays, header["counts"], _unpacked(header["beside"]))


def _packed(beside: Any) -> bytes:
    """What a task found beside its rows, for a header; nothing where that is nothing."""
    from distributed.protocol import pickle

    return b"" if beside is None else bytes(pickle.dumps(beside))


def _unpacked(packed: bytes) -> Any:
    from distributed.protocol import pickle

    return pickle.loads(packed) if packed else None


def _buffer(array: np.ndarray[Any, Any]) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B") if array.size else memoryview(b"")


def _pickled(frame: pl.DataFrame) -> tuple[Callable[[bytes], pl.DataFrame], tuple[bytes]]:
    return pl.read_ipc, (bytes(frame_bytes(frame)),)
