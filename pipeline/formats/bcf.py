"""BCF: the records of a VCF in binary, read in parallel; and genotypes written as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import polars as pl

from pipeline.bounds import Bounds
from pipeline.errors import PlaceError
from pipeline.files import stamp
from pipeline.format import CostlySource, Piece
from pipeline.formats._bcf.header import BcfHeader, read_bcf_header
from pipeline.formats._bcf.records import parse_records
from pipeline.formats._bcf.stretches import read_records
from pipeline.formats._bgzip.blocks import TextRange
from pipeline.formats._bgzip.cutting import cut_blocks, text_size
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._vcf.header import VcfHeader
from pipeline.formats._vcf.inputs import TEXT_RATIO, RecordsInput
from pipeline.formats._vcf.outputs import RecordsOutput
from pipeline.formats._vcf.site_fields import SiteField
from pipeline.formats._vcf.text import ARRAYS_OF, Field, concat_records
from pipeline.genome.species import ChromosomeSet
from pipeline.tables.part import Part, Schema

_LOCK = Lock()  # bcftools keeps its state in the process


@dataclass(frozen=True)
class BcfSource(CostlySource):
    """A range of a BCF's blocks: the records that begin in it."""

    part: TextRange
    header: BcfHeader
    field: Field
    chromosomes: ChromosomeSet
    limits: Bounds
    sites: tuple[SiteField, ...]

    def load(self) -> Part:
        """Variants and packed calls, or dosages; a few megabytes of records are held at a time."""
        found = [parse_records(data, self.header, self.field, self.sites) for data in read_records(self.part, self.header, self.limits)]
        records = concat_records(found, self.header.vcf, self.field, self.sites)
        self.chromosomes.check(records.variants["chromosome"].unique(maintain_order=True), self.header.vcf.path)
        return Part(records.variants, {ARRAYS_OF[self.field]: records.array}, asdict(records.counts))


class BcfInput(RecordsInput, BoundedInput):
    """Genotypes of one BCF, or of several of the same samples, as `vcf` reads them; an index beside it is not needed."""

    name = "bcf"
    suffixes = (".bcf",)

    def read_headers(self) -> Sequence[VcfHeader]:
        """The headers of the files."""
        return [read_bcf_header(file, self.limits).vcf for file in self.files()]

    def sources(self, parallel: int) -> Sequence[BcfSource]:
        """Ranges of blocks, a few per task that can run at once."""
        headers = self.headers()
        target = self.target_bytes(TEXT_RATIO * sum(stamp(header.path).size for header in headers), parallel)
        if self.parts:
            target = -(-sum(text_size(header.path) for header in headers) // self.parts)
        known = [read_bcf_header(header.path, self.limits) for header in headers]
        return [
            BcfSource(part, header, self.field, self.chromosome_set, self.limits, self.sites([header.vcf]))
            for header in known
            for part in cut_blocks(header.vcf.path, target, header.block, skip=header.skip)
        ]


class BcfOutput(RecordsOutput):
    """The same as `vcf` writes, in binary: NAME.bcf. pysam, which carries bcftools, makes it of the lines."""

    name = "bcf"
    member = "bcf"

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table that is no genotypes; PlaceError where pysam is not installed."""
        super().check(schema, columns)
        if find_spec("pysam") is None:
            raise PlaceError("pysam, which writes BCF files, is not installed. Install it with: pip install '.[align]'")

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """A VCF beside it, which bcftools rewrites."""
        from pysam import bcftools

        with TemporaryDirectory(dir=Path(stem).parent) as folder, _LOCK:
            (rows,) = super().join(pieces, axes, f"{folder}/whole").values()
            bcftools.view("--no-version", "-O", "b", "-o", f"{folder}/whole.bcf", f"{folder}/whole.vcf.gz", catch_stdout=False)
            Path(f"{folder}/whole.bcf").replace(f"{stem}.bcf")
        return {".bcf": rows}
