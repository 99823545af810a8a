"""The whole records of a range of a BCF.

Records have no mark between them. Where one begins is told by a few that lead from one to the next; and since every range must end just
where the one after it begins, a place that only looks like a record is an error and no wrong number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from pipeline.bounds import Bounds
from pipeline.errors import InputError
from pipeline.formats._bcf.header import BcfHeader
from pipeline.formats._bgzip.blocks import TRUNCATED, TextRange, reading
from pipeline.formats._bgzip.lines import CHUNK_BYTES, bgzf_pieces

_FIXED = struct.Struct("<IIiii4xHH3sB")  # lengths of the halves; CHROM, POS and rlen; QUAL; n_info, n_allele; n_sample, n_fmt
_SAMPLES_AT = 28
_LENGTHS = struct.Struct("<II")
_CHAIN = 4  # records that follow one another


def read_records(part: TextRange, header: BcfHeader, limits: Bounds) -> Iterator[bytes]:
    """The records that begin in a range, in chunks of about 4 MiB. InputError where they are cut or damaged, or beyond the limits."""
    with reading(part.path):
        text = _Text(replace(part, before=-1), header, limits)
        at = 0 if part.start == header.block and not part.is_cut else text.record_from(0)
        while text.owns(at):
            begin = at
            while at - begin < CHUNK_BYTES and text.owns(at):
                at = text.end_of(at)
            yield text.taken(begin, at)
        if at != text.record_from(text.inside):
            raise InputError(f"{part.path}: its records do not lead from one to the next; it is damaged, copy it or write it again")


class _Text:
    """The text of a range, whose first byte is 0, and of what comes after it, as far as it is asked for; what was taken is let go."""

    def __init__(self, part: TextRange, header: BcfHeader, limits: Bounds) -> None:
        self.path, self.header, self.limits = part.path, header, limits
        self.pieces, self.data, self.base = bgzf_pieces(part), bytearray(), 0
        self.inside, self.closed, self.whole = 0, False, False  # bytes of the range; whether these are all; whether the file has no more
        self.samples = len(header.vcf.samples).to_bytes(3, "little")

    @property
    def end(self) -> int:
        """One past the last byte that is here."""
        return self.base + len(self.data)

    def _more(self) -> None:
        text, inside = next(self.pieces, (b"", False))
        self.whole = not text and not inside
        self.closed = not inside
        self.data += text
        self.inside += len(text) if inside else 0

    def _reaches(self, to: int) -> bool:
        while self.end < to and not self.whole:
            self._more()
        return self.end >= to

    def owns(self, at: int) -> bool:
        """Whether a byte lies in the range."""
        while at >= self.inside and not self.closed:
            self._more()
        return at < self.inside

    def end_of(self, at: int) -> int:
        """One past the record that begins at a byte. InputError where the file ends before."""
        if self._reaches(at + _LENGTHS.size):
            length = int(sum(_LENGTHS.unpack_from(self.data, at - self.base)))
            self.limits.need_line(self.path, length, "a record")
            if self._reaches(at + _LENGTHS.size + length):
                return at + _LENGTHS.size + length
        raise InputError(f"{self.path}: {TRUNCATED.format('its last record is not whole')}")

    def taken(self, begin: int, end: int) -> bytes:
        """The bytes between; those before are let go."""
        del self.data[: begin - self.base]
        self.base = begin
        return bytes(self.data[: end - begin])

    def record_from(self, at: int) -> int:
        """Where the first record at or after a byte begins; where the file ends, where there is none."""
        while True:
            found = self.data.find(self.samples, at + _SAMPLES_AT - self.base)
            if found >= 0:
                at = self.base + found - _SAMPLES_AT
                if self._is_chain(at):
                    return at
                at += 1
            elif self.whole:
                return self.end
            else:
                at = max(at, self.end - _SAMPLES_AT - len(self.samples) + 1)
                self._more()

    def _is_chain(self, at: int) -> bool:
        """Whether a few records, or all that are left, follow one another from a byte on."""
        for number in range(_CHAIN):
            if not self._reaches(at + _FIXED.size):
                return number > 0 and at == self.end
            shared, own, contig, position, length, _, alleles, samples, _ = _FIXED.unpack_from(self.data, at - self.base)
            known = 0 <= contig < len(self.header.contigs) and position >= -1 and length >= 0 and alleles > 0
            if not known or samples != self.samples or shared < _FIXED.size - _LENGTHS.size or shared + own > self.limits.line_bytes:
                return False
            at += _LENGTHS.size + shared + own
        return self._reaches(at)
