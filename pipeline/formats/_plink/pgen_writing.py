"""A .pgen whose variants have records of one length, of hard calls or with dosages, and its .pvar and .psam (PLINK 2's specification)."""

from __future__ import annotations

import struct

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.formats._genotypes_written import alleles_checked, blocks
from pipeline.formats._plink.pgen_files import PGEN_MAGIC
from pipeline.kernels.genotypes import pack
from pipeline.tables.part import Part

_HARD_CALLS, _DOSAGES = 0x02, 0x03
_REF_KNOWN = 0x40  # no REF is provisional
_ONE, _NO_DOSAGE = 16_384, 65_535
PVAR = b"#CHROM\tPOS\tID\tREF\tALT\n"


def head_bytes(variants: int, people: int, *, dosages: bool) -> bytes:
    """What stands before the variants of a .pgen."""
    return PGEN_MAGIC + struct.pack("<BIIB", _DOSAGES if dosages else _HARD_CALLS, variants, people, _REF_KNOWN)


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
