"""Workbooks are zip archives: what their members come to is bounded before a reader unpacks them, whatever the archive says of it."""

from __future__ import annotations

import struct
import zipfile
import zlib
from io import BytesIO

from pipeline.bounds import PIECE_BYTES, Bounds

_LOCAL = struct.Struct("<4s5H3I2H")  # the head of a member, section 4.3.7 of the specification


def need_members(path: str, content: bytes, limits: Bounds) -> None:
    """Raise InputError where an archive's members come to more than its limits allow. What is no archive (an .xls) passes."""
    if not content.startswith(b"PK"):
        return
    inflated, size = 0, len(content)
    with zipfile.ZipFile(BytesIO(content)) as archive:
        members = archive.infolist()
    limits.need_room(path, size, sum(member.file_size for member in members))
    for member in members:
        _, _, _, _, _, _, _, _, _, name, extra = _LOCAL.unpack_from(content, member.header_offset)
        begin = member.header_offset + _LOCAL.size + name + extra
        data = content[begin : begin + member.compress_size]
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        while member.compress_type == zipfile.ZIP_DEFLATED and data and not unpacking.eof:
            inflated += len(unpacking.decompress(data, PIECE_BYTES))
            data = unpacking.unconsumed_tail
            limits.need_room(path, size, inflated)
