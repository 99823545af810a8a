"""ALT dosages of VCF records, FORMAT field DS, GP or HDS, read field by field: what the compiled kernel leaves, and its oracle."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from pipeline.formats._vcf.records import Records

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MISSING = (b".", b"", b"nan", b"NaN", b"NAN")


def read_plain_dosages(records: Records) -> NDArray[np.float32]:
    """Dosages `float32[rows, samples]`, a row for each ALT allele of each record, NaN where missing (throughout in a record without DS).

    Where GT is haploid (no / or |), as of men on X, DS is of one copy, from 0 to 1, and counts twice. InputError, with record, sample and
    text, for what is no number of that range, for another number of values than of ALT alleles, and for too few or too many sample columns.
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
                    copies = 1 if keys[0] == b"GT" and not re.search(rb"[/|]", parts[0]) else 2
                    dosages[row : row + n_alts, sample] = _values(records, (index, sample), parts[place], copies)
        row += n_alts
    return dosages


def read_plain_sums(records: Records, key: str) -> NDArray[np.float32]:
    """The same of GP (probabilities of no, one and two copies; of none and one where haploid) or HDS (the dosage of each haplotype).

    Probabilities that do not add up to 1 count by their shares, as in PLINK 2. InputError, with record, sample and text, for what is none
    of these, and for a record of several ALT alleles.
    """
    dosages = np.full((int(records.n_alts.sum()), len(records.samples)), np.nan, np.float32)
    row = 0
    for index, n_alts in enumerate(records.n_alts.tolist()):
        keys, fields = records.keys(index), records.sample_fields(index)
        if key.encode() in keys and n_alts:
            place = keys.index(key.encode())
            for sample, field in enumerate(fields):
                parts = field.split(b":")
                if place < len(parts):
                    dosages[row, sample] = _sum(records, (index, sample), parts[place], key)
        row += n_alts
    return dosages


def _sum(records: Records, where: tuple[int, int], text: bytes, key: str) -> float:
    """The ALT dosage of one sample (`where`: record and sample)."""
    index, sample = where
    shown, parts = text.decode(errors="replace"), text.split(b",")
    if records.n_alts[index] > 1:
        wrong = f"is of {records.n_alts[index]} ALT alleles, and {key} is read of one. Split records by bcftools norm -m -"
        raise records.refuse_sample(index, sample, shown, wrong)
    values = [np.nan if part in _MISSING else float(part) if _NUMBER.fullmatch(part) else -1.0 for part in parts]
    several = (1, 2) if key == "HDS" else (2, 3)
    if all(np.isnan(values)):
        return np.nan
    between = all(np.isnan(value) or 0 <= value <= 1 for value in values)
    if len(values) not in several or not between or (key == "GP" and sum(values) == 0):
        what = "dosages of one or two haplotypes" if key == "HDS" else "probabilities of none, one and two copies, or of none and one"
        raise records.refuse_sample(index, sample, shown, f"is no {key} ({what}, each from 0 to 1)")
    if key == "HDS":
        return 2 * sum(values) / len(values)
    return 2 * sum(copies * value for copies, value in enumerate(values)) / (len(values) - 1) / sum(values)


def _values(records: Records, where: tuple[int, int], text: bytes, copies: int) -> list[float]:
    """The dosage of each ALT allele of one sample (`where`: record and sample) whose GT has so many copies."""
    index, sample = where
    n_alts, parts = int(records.n_alts[index]), text.split(b",")
    if text in _MISSING or not n_alts:
        return [np.nan] * n_alts
    shown = text.decode(errors="replace")
    if len(parts) != n_alts:
        raise records.refuse_sample(index, sample, shown, f"has {len(parts)} dosages, but the record has {n_alts} ALT allele(s)")
    values = [np.nan if part in _MISSING else float(part) if _NUMBER.fullmatch(part) else -1.0 for part in parts]
    if not all(np.isnan(value) or 0 <= value <= copies for value in values):
        of = "" if copies == 2 else ", as its GT is haploid,"
        raise records.refuse_sample(index, sample, shown, f"is no ALT dosage (DS is a number from 0 to {copies}{of} for each ALT allele)")
    return [value * 2 / copies for value in values]
