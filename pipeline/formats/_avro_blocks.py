"""The blocks of an Avro file, walked before they are read: what they come to is bounded, and each ends with the file's own mark."""

from __future__ import annotations

import zlib
from typing import Any, BinaryIO

from pipeline.bounds import PIECE_BYTES, Bounds
from pipeline.errors import InputError
from pipeline.files import open_file, stamp

MARK_BYTES = 16
VARINT_BITS = 64


def need_blocks(path: str, limits: Bounds) -> None:
    """Raise InputError where a file's blocks are damaged, or its records come to more than its limits allow."""
    try:
        _walk(path, limits)
    except (ValueError, EOFError, KeyError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read whole ({error}). It is damaged: copy it again, or write it anew.") from error


def _walk(path: str, limits: Bounds) -> None:
    import fastavro

    size, inflated = stamp(path).size, 0
    with open_file(path) as file:
        head = fastavro.reader(file)
        schema: Any = head.writer_schema
        if not (isinstance(schema, dict) and schema.get("fields")):
            return  # no table: what reads its columns says so
        fields, codec = len(schema["fields"]), head.metadata.get("avro.codec", "null")
        file.seek(file.tell() - MARK_BYTES)
        mark = file.read(MARK_BYTES)
        while file.tell() < size:
            records, packed = _number(file), _number(file)
            if records < 0 or not 0 <= packed <= size - file.tell():
                raise ValueError(f"a block says {records} records in {packed} bytes")
            held = inflated + max(packed, records * fields)  # a value that is not null has a byte at least
            limits.need_room(path, size, held)
            data = file.read(packed)
            inflated = max(held, inflated + (_inflated(path, data, size, inflated, limits) if codec == "deflate" else packed))
            if file.read(MARK_BYTES) != mark:
                raise ValueError("a block does not end with the file's mark")


def _inflated(path: str, data: bytes, size: int, before: int, limits: Bounds) -> int:
    """The bytes that a block comes to, of which one piece at a time is held."""
    unpacking, found = zlib.decompressobj(-zlib.MAX_WBITS), 0
    while data and not unpacking.eof:
        found += len(unpacking.decompress(data, PIECE_BYTES))
        data = unpacking.unconsumed_tail
        limits.need_room(path, size, before + found)
    if not unpacking.eof:
        raise ValueError("a block is cut")
    return found


def _number(file: BinaryIO) -> int:
    """A whole number as Avro writes it: seven bits a byte, zigzag."""
    value, shift = 0, 0
    while shift < VARINT_BITS:
        if not (byte := file.read(1)):
            raise ValueError("it ends within a block")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value >> 1 ^ -(value & 1)
        shift += 7
    raise ValueError("a number of a block has no end")
