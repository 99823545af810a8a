"""VCF, plain, gzipped or bgzipped: the hard calls of all samples, read in parallel and in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from pipeline.columns import VOCABULARY
from pipeline.errors import InputError
from pipeline.format import InputFormat
from pipeline.formats.bgzf import TextRange, plan_ranges, read_lines, text_size
from pipeline.formats.vcf_text import VcfHeader, parse_records, read_header
from pipeline.kernels.genotypes import packed_width
from pipeline.part import Part, Schema, added_counts

VARIANT = pl.Schema({name: VOCABULARY[name].dtype for name in ("chromosome", "base_pair_location", "variant_id", "ref", "alt")})
SAMPLE = pl.Schema({"sample_id": pl.String()})
TEXT_BYTES_LEAST, TEXT_BYTES_MOST = 16 << 20, 512 << 20  # text of one part; its calls take a sixteenth of that


@dataclass(frozen=True)
class VcfSource:
    """A range of a VCF's lines."""

    part: TextRange
    header: VcfHeader
    cheap: bool = False

    def load(self) -> Part:
        """Variants and packed calls; text is held a few megabytes at a time."""
        frames, calls, counts = [VARIANT.to_frame()], [np.zeros((0, packed_width(len(self.header.samples))), np.uint8)], [dict[str, int]()]
        for lines in read_lines(self.part):
            records = parse_records(lines, self.header)
            frames.append(records.variants)
            calls.append(records.calls)
            counts.append(asdict(records.counts))
        return Part(pl.concat(frames).rechunk(), {"calls": np.concatenate(calls)}, added_counts(counts))

    def interval(self, column: str) -> None:
        """Text has no statistics."""


class VcfInput(InputFormat):
    """Genotypes of one VCF, or of several of the same samples. Multi-allelic sites give one row per ALT allele."""

    name = "vcf"
    suffixes = (".vcf", ".vcf.gz", ".vcf.bgz")

    def _header(self) -> VcfHeader:
        headers = [read_header(file) for file in self.files()]
        for header in headers[1:]:
            if header.samples != headers[0].samples:
                raise InputError(
                    f"{header.path}: its samples are not those of {headers[0].path}, in their order; read it as an input of its own"
                )
        return headers[0]

    def table_schema(self) -> Schema:
        """The columns of a variant, and the samples of the header."""
        self._header()
        return Schema(VARIANT, {"calls": SAMPLE})

    def axes(self) -> Mapping[str, pl.DataFrame]:
        """The samples of the header line."""
        return {"calls": pl.DataFrame({"sample_id": list(self._header().samples)}, schema=SAMPLE)}

    def sources(self, parallel: int) -> Sequence[VcfSource]:
        """Ranges of whole lines, a few per task that can run at once."""
        files = self.files()
        size = sum(Path(file).stat().st_size for file in files)
        text = size if files[0].endswith(".vcf") else 20 * size
        target = min(max(text // (2 * parallel), TEXT_BYTES_LEAST), TEXT_BYTES_MOST)
        if self.parts:
            target = -(-sum(text_size(file) for file in files) // self.parts)
        return [VcfSource(part, read_header(file)) for file in files for part in plan_ranges(file, target)]
