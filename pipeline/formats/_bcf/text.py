"""One record of a BCF as the fields of a VCF's line: what the compiled kernel leaves to plain code, and QUAL, FILTER and INFO."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats._bcf.header import BcfHeader

_FIXED = struct.Struct("<IIiiifHHI")
_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 3: np.dtype("<i4"), 5: np.dtype("<u4"), 7: np.dtype("<u1")}
_FLOAT, _CHAR = 5, 7
_MISSING_FLOAT, _END_FLOAT = 0x7F800001, 0x7F800002


class _Reader:
    """Typed values, one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def typed(self) -> tuple[int, int]:
        """Kind and count of the values that come."""
        byte = self.data[self.at]
        self.at += 1
        return byte & 15, (self.integer() if byte >> 4 == 15 else byte >> 4)

    def integer(self) -> int:
        """A typed whole number."""
        return int(self.values(*self.typed())[0])

    def values(self, kind: int, count: int) -> NDArray[Any]:
        """The values; floats as their bits."""
        if kind == 0:
            return np.empty(0, np.uint8)
        found = np.frombuffer(self.data, _TYPES[kind], count, self.at)
        self.at += found.nbytes
        return found

    def text(self) -> str:
        """A typed value as a VCF writes it."""
        kind, count = self.typed()
        return _text(kind, self.values(kind, count))


def _text(kind: int, values: NDArray[Any]) -> str:
    """Values with commas between them, up to those that are none; `.` where there are none."""
    if kind == _CHAR:
        return values.tobytes().split(b"\0")[0].decode(errors="replace") or "."
    if kind == _FLOAT:
        shown = [_float(int(bits)) for bits in values if bits != _END_FLOAT]
    else:
        least = np.iinfo(values.dtype).min if len(values) else 0
        shown = ["." if value == least else str(value) for value in values.tolist() if value != least + 1]
    return ",".join(shown) or "."


def _float(bits: int) -> str:
    """The shortest digits that are this float again."""
    return "." if bits == _MISSING_FLOAT else str(np.uint32(bits).view(np.float32)).removesuffix(".0")


def _genotype(values: NDArray[Any]) -> str:
    """Alleles of one sample: two for each number, its last bit whether it is phased with the one before."""
    least = np.iinfo(values.dtype).min
    some = [value for value in values.tolist() if value != least + 1]
    alleles = ["." if value == least or value >> 1 == 0 else str((value >> 1) - 1) for value in some]
    return "".join(("" if at == 0 else "|" if some[at] & 1 else "/") + allele for at, allele in enumerate(alleles)) or "."


def record_fields(data: bytes, at: int, header: BcfHeader, *, genotypes: bool = True) -> list[bytes]:
    """The ten fields of the record that begins at a byte, the last all samples' with tabs between; without `genotypes` the first eight.

    InputError for a record that is damaged.
    """
    try:
        return [field.encode() for field in _fields(data, at, header, genotypes)]
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise InputError(f"{header.vcf.path}: a record is damaged ({error}); copy the file, or write it again") from error


def _fields(data: bytes, at: int, header: BcfHeader, genotypes: bool) -> list[str]:
    shared, _, contig, position, _, quality, n_info, n_alleles, counts = _FIXED.unpack_from(data, at)
    reader = _Reader(data, at + _FIXED.size)
    name, alleles = reader.text(), [reader.text() for _ in range(n_alleles)]
    filters = [header.names[number] for number in reader.values(*reader.typed()).tolist()]
    infos = []
    for _ in range(n_info):
        key = header.names[reader.integer()]
        kind, count = reader.typed()
        infos.append(key if kind == 0 else f"{key}={_text(kind, reader.values(kind, count))}")
    quality_text = _float(struct.unpack("<I", struct.pack("<f", quality))[0]) if quality == quality else "."
    fields = [header.contigs[contig], str(position + 1), name, alleles[0], ",".join(alleles[1:]) or ".", quality_text]
    fields += [";".join(filters) or ".", ";".join(infos) or "."]
    if not genotypes:
        return fields
    keys, columns, reader.at, samples = list[str](), list[list[str]](), at + 8 + shared, counts & 0xFFFFFF
    for _ in range(counts >> 24):
        keys.append(header.names[reader.integer()])
        kind, count = reader.typed()
        values = reader.values(kind, count * samples).reshape(samples, -1)
        columns.append([_genotype(own) if keys[-1] == "GT" else _text(kind, own) for own in values])
    return [*fields, ":".join(keys), "\t".join(":".join(one) for one in zip(*columns, strict=True))]
