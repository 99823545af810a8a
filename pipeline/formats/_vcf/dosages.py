"""ALT dosages of VCF records, FORMAT field DS, read field by field: what the compiled kernel leaves, and its oracle."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from pipeline.formats._vcf.records import Records

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MISSING = (b".", b"", b"nan", b"NaN", b"NAN")


def read_plain_dosages(records: Records) -> NDArray[np.float32]:
    """Dosages `float32[rows, samples]`, a row for each ALT allele of each record, NaN where missing (throughout in a record without DS).

    InputError, with record, sample and text, for what is no number from 0 to 2, for another number of values than of ALT alleles, and for
    too few or too many sample columns.
    """
    dosages = np.full((int(records.n_alts.sum()), len(records.samples)), np.nan, np.float32)
    row = 0
    for index, n_alts in enumerate(records.n_alts.tolist()):
        keys, fields = records.keys(index), records.sample_fields(index)
        if b"DS" in keys:
            place = keys.index(b"DS")
            for sample, field in enumerate(fields):
                parts = field.split(b":")
                if place < len(parts):
                    dosages[row : row + n_alts, sample] = _values(records, index, sample, parts[place])
        row += n_alts
    return dosages


def _values(records: Records, index: int, sample: int, text: bytes) -> list[float]:
    """The dosage of each ALT allele of one sample."""
    n_alts, parts = int(records.n_alts[index]), text.split(b",")
    if text in _MISSING or not n_alts:
        return [np.nan] * n_alts
    shown = text.decode(errors="replace")
    if len(parts) != n_alts:
        raise records.refuse_sample(index, sample, shown, f"has {len(parts)} dosages, but the record has {n_alts} ALT allele(s)")
    values = [np.nan if part in _MISSING else float(part) if _NUMBER.fullmatch(part) else -1.0 for part in parts]
    if not all(np.isnan(value) or 0 <= value <= 2 for value in values):
        raise records.refuse_sample(index, sample, shown, "is no ALT dosage (DS is a number from 0 to 2 for each ALT allele)")
    return values
