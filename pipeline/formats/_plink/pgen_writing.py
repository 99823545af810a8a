"""A .pgen whose variants have records of one length, of hard calls or with dosages, and its .pvar and .psam (PLINK 2's specification).

Dosages are records of the standard mode, whose header says how long each is: PLINK 2.00a3.5 reads the mode of dosages with records of one
length (0x03) on one thread alone, and crashes on several.
"""

from __future__ import annotations

import struct

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.formats._genotypes_written import alleles_checked, blocks
from pipeline.formats._plink.pgen_files import BLOCK_VARIANTS, HEAD_BYTES, PGEN_MAGIC
from pipeline.kernels.genotypes import pack, packed_width
from pipeline.tables.part import Part

_HARD_CALLS, _STANDARD = 0x02, 0x10  # storage modes
_DOSAGE_OF_EACH = b"\x40"  # a record's type: two bits a call as they are, and a dosage a person
_TYPE_BYTES = 4  # in the last byte of the fixed header: types of a byte; plus the bytes of a length less one
_REF_KNOWN = 0x40  # no REF is provisional
_ONE, _NO_DOSAGE = 16_384, 65_535
PVAR = b"#CHROM\tPOS\tID\tREF\tALT\n"


def head_bytes(variants: int, people: int, *, dosages: bool) -> bytes:
    """What stands before the variants of a .pgen."""
    if not dosages:
        return PGEN_MAGIC + struct.pack("<BIIB", _HARD_CALLS, variants, people, _REF_KNOWN)
    length = packed_width(people) + 2 * people
    width = (length.bit_length() + 7) // 8
    head = PGEN_MAGIC + struct.pack("<BIIB", _STANDARD, variants, people, _TYPE_BYTES + width - 1 | _REF_KNOWN)
    starts = range(0, variants, BLOCK_VARIANTS)
    first = HEAD_BYTES + 8 * len(starts) + variants * (1 + width)
    counts = [min(BLOCK_VARIANTS, variants - start) for start in starts]
    tables = [_DOSAGE_OF_EACH * count + length.to_bytes(width, "little") * count for count in counts]
    return head + b"".join(struct.pack("<Q", first + start * length) for start in starts) + b"".join(tables)


def record_bytes(part: Part, people: int) -> bytes:
    """The records of a part: two bits a call, and where it has dosages these in steps of 1 / 16,384 behind."""
    found = []
    for _, codes, dosages in blocks(part, people):
        calls = pack(codes)
        found.append(calls.tobytes() if dosages is None else np.hstack([calls, _steps(dosages).view(np.uint8)]).tobytes())
    return b"".join(found)


def _steps(dosages: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Dosages `float32[v, n]` as PLINK 2 stores them, `uint16[v, n]`, missing ones too."""
    whole = np.rint(np.nan_to_num(dosages).astype(np.float64) * _ONE)
    return np.where(np.isnan(dosages), _NO_DOSAGE, whole).astype("<u2")


def pvar_rows(part: Part) -> bytes:
    """Lines of a .pvar; DataError for a place or an allele that it cannot hold."""
    rows = alleles_checked(part.frame, "a .pvar")
    return rows.write_csv(include_header=False, separator="\t", quote_style="never").encode()


def psam_text(people: pl.DataFrame) -> bytes:
    """A .psam: FID where it is known, IID, PAT and MAT where these are, SEX (NA unknown)."""
    names = {"family_id": "#FID", "sample_id": "IID", "father_id": "PAT", "mother_id": "MAT", "sex": "SEX"}
    has = [name for name in names if name in people.columns]
    heads = [names[name] for name in has]
    heads[0] = f"#{heads[0].lstrip('#')}"
    unknown = {"sex": "NA"}
    rows = people.select(pl.col(name).cast(pl.String).fill_null(unknown.get(name, "0")) for name in has)
    return ("\t".join(heads) + "\n" + rows.write_csv(include_header=False, separator="\t", quote_style="never")).encode()
