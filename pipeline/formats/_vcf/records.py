"""Records of a VCF as split lines, for the plain code that reads what the compiled kernels leave, and the errors that name a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError

TAIL = 9
"""Index of a record's sample columns, the tenth field when it is split nine times."""

REMEDY = "correct the record, or take it out of the file (bcftools view --exclude or --targets)"


@dataclass(frozen=True)
class Records:
    """Records of a VCF, each split nine times at its tabs, with its number of ALT alleles `n_alts: int64[records]`."""

    path: str
    samples: tuple[str, ...]
    fields: Sequence[list[bytes]]
    n_alts: NDArray[np.int64]

    def take(self, chosen: NDArray[np.bool_]) -> Records:
        """The records that are chosen."""
        fields = self.fields if chosen.all() else [self.fields[i] for i in np.flatnonzero(chosen).tolist()]
        return Records(self.path, self.samples, fields, self.n_alts[chosen])

    def where(self, index: int) -> str:
        """Path and place of a record, for a message."""
        return f"{self.path}: record {b':'.join(self.fields[index][:2])[:80].decode(errors='replace')}"

    def keys(self, index: int) -> list[bytes]:
        """The keys of a record's FORMAT."""
        return self.fields[index][TAIL - 1].split(b":")

    def sample_fields(self, index: int) -> list[bytes]:
        """The sample columns of a record. InputError where they are not as many as the samples."""
        found = self.fields[index][TAIL].split(b"\t")
        if len(found) != len(self.samples):
            raise self.refuse_field_count(index)
        return found

    def check(self) -> None:
        """InputError for a record with too few fields, with a POS that is no number, or with an empty field."""
        for index, fields in enumerate(self.fields):
            if len(fields) <= TAIL:
                raise self.refuse_field_count(index)
            if not (fields[1].isdigit() and len(fields[1]) < 19):
                found = fields[1].decode(errors="replace")
                remedy = "correct the line or take it out of the file"
                raise InputError(f"{self.where(index)}: POS must be a number from 0, found {found!r}; {remedy}")
            for name, text in self._texts(fields):
                if not text or b"" in text.split(b","):
                    found = text.decode(errors="replace")
                    raise InputError(
                        f"{self.where(index)}: {name} is {found!r}, but no part of it may be empty; write '.' where there is none"
                    )

    @staticmethod
    def _texts(fields: list[bytes]) -> Iterator[tuple[str, bytes]]:
        """Name and text of the fields that must not be empty; only in ALT does a comma part anything."""
        for name, text in zip(("chromosome", "variant_id", "ref"), (fields[0], fields[2], fields[3]), strict=True):
            yield name, text.replace(b",", b";")
        yield "alt", fields[4]

    def refuse_field_count(self, index: int) -> InputError:
        """The error for a record that has too few or too many sample columns."""
        found, n_samples = b"\t".join(self.fields[index]).count(b"\t") + 1, len(self.samples)
        return InputError(
            f"{self.where(index)} has {found} fields where {TAIL + n_samples} are expected ({TAIL} and {n_samples} samples); "
            "is the file cut, or are its fields separated by something else than tabs?"
        )

    def refuse_sample(self, index: int, sample: int, text: str, what: str) -> InputError:
        """The error for what a record says of one sample."""
        return InputError(f"{self.where(index)}, sample {self.samples[sample]!r}: {text!r} {what}; {REMEDY}")
