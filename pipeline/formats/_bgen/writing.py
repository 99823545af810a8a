"""BGEN 1.2 (layout 2) of variants of two alleles, from calls or dosages; probabilities are of 8 or 16 bits. Not a format.

https://www.well.ox.ac.uk/~gav/bgen_format/spec/v1.2.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.formats._genotypes_written import alleles_checked, blocks
from pipeline.tables.part import Part

_ZLIB_LAYOUT_2_SAMPLES = 1 | 2 << 2 | 1 << 31
_HEADER_BYTES = 20
_DIPLOID, _MISSING = 2, 0x82
_LEVEL, _WITH_ZLIB_HEADER = 2, 15
LONGEST = 0xFFFF  # bytes of a name


def head_bytes(variants: int, people: Sequence[str]) -> bytes:
    """What stands before the variants: the header, and the people's ids."""
    names = b"".join(_named(name, "sample_id") for name in people)
    samples = struct.pack("<II", len(names) + 8, len(people)) + names
    header = struct.pack("<III4sI", _HEADER_BYTES, variants, len(people), b"bgen", _ZLIB_LAYOUT_2_SAMPLES)
    return struct.pack("<I", len(header) + len(samples)) + header + samples


def variant_bytes(part: Part, people: int, bits: int) -> Iterator[bytes]:
    """Each variant of a part; DataError for a place or an allele that a file cannot hold."""
    variants = alleles_checked(part.frame, "a BGEN file")
    for rows, codes, dosages in blocks(part, people):
        known = dosages if dosages is not None else np.where(codes < 3, codes, np.nan).astype(np.float32)
        stored = _probabilities(known, bits)
        for row, missing, values in zip(variants[rows].iter_rows(named=True), np.isnan(known), stored, strict=True):
            yield _variant(row, missing, values, bits)


def _probabilities(dosages: NDArray[np.float32], bits: int) -> NDArray[np.uint8 | np.uint16]:
    """Probabilities of no and of one copy of ALT, `[v, n, 2]` as a file has them: of the two calls beside a dosage, which have its mean."""
    most = (1 << bits) - 1
    upper = np.nan_to_num(dosages) > 1.0
    beside = np.rint(np.where(upper, np.nan_to_num(dosages) - 1.0, np.nan_to_num(dosages)).astype(np.float64) * most).astype(np.int64)
    first, second = np.where(upper, 0, most - beside), np.where(upper, most - beside, beside)
    stored = np.stack([first, second], axis=2)
    stored[np.isnan(dosages)] = 0
    return stored.astype(np.uint8 if bits == 8 else "<u2")


def _variant(row: dict[str, str | int], missing: NDArray[np.bool_], values: NDArray[np.uint8 | np.uint16], bits: int) -> bytes:
    """One variant: who it is, and its compressed genotypes."""
    head = struct.pack("<IHBB", len(missing), 2, _DIPLOID, _DIPLOID)
    data = head + np.where(missing, _MISSING, _DIPLOID).astype(np.uint8).tobytes() + bytes([0, bits]) + values.tobytes()
    packed = isal_zlib.compress(data, _LEVEL, _WITH_ZLIB_HEADER)
    names = b"".join(_named(str(row[name]), name) for name in ("variant_id", "variant_id", "chromosome"))
    alleles = b"".join(struct.pack("<I", len(str(row[name]))) + str(row[name]).encode() for name in ("ref", "alt"))
    return names + struct.pack("<IH", row["base_pair_location"], 2) + alleles + struct.pack("<II", len(packed) + 4, len(data)) + packed


def _named(text: str, what: str) -> bytes:
    name = text.encode()
    if len(name) > LONGEST:
        raise DataError(f"{what} {text[:40]!r}... has {len(name):,} bytes, and BGEN has room for {LONGEST:,}. Shorten it.")
    return struct.pack("<H", len(name)) + name
