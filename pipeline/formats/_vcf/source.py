"""Ranges of a VCF's lines, which a task reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial

import polars as pl

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.format import CostlySource
from pipeline.formats._bad_rows import BadRow, quarantined
from pipeline.formats._bgzip.bad_lines import sift_range
from pipeline.formats._bgzip.blocks import TextRange
from pipeline.formats._bgzip.lines import read_lines
from pipeline.formats._vcf.header import VcfHeader
from pipeline.formats._vcf.region import Region
from pipeline.formats._vcf.site_fields import SiteField
from pipeline.formats._vcf.text import ARRAYS_OF, Field, VcfRecords, concat_records, parse_records
from pipeline.genome.species import HUMAN_SET, ChromosomeSet
from pipeline.tables.part import Part


@dataclass(frozen=True)
class VcfSource(CostlySource):
    """Ranges of a VCF's lines; of each the records of one region, where one is given."""

    ranges: tuple[tuple[TextRange, Region | None], ...]
    header: VcfHeader
    field: Field = "calls"
    chromosomes: ChromosomeSet = HUMAN_SET
    limits: Bounds = DEFAULTS
    sifts: bool = False
    sites: tuple[SiteField, ...] = ()

    def load(self) -> Part:
        """Variants and packed calls, or dosages; text is held a few megabytes at a time."""
        if self.sifts:
            found = self._sift()[0]
        else:
            chunks = ((lines, region) for part, region in self.ranges for lines in read_lines(part, self.limits))
            found = [parse_records(lines, self.header, self.field, region, self.sites) for lines, region in chunks]
        records = concat_records(found, self.header, self.field, self.sites)
        self.chromosomes.check(records.variants["chromosome"].unique(maintain_order=True), self.header.path)
        return Part(records.variants, {ARRAYS_OF[self.field]: records.array}, asdict(records.counts))

    def sifted(self) -> tuple[pl.DataFrame, int]:
        """The bad records of the ranges, and how many records they have with them."""
        good, bad = self._sift()
        return quarantined(self.header.path, bad), sum(records.counts.records for records in good) + len(bad)

    def _sift(self) -> tuple[list[VcfRecords], list[BadRow]]:
        parse, good, bad = (
            partial(parse_records, header=self.header, field=self.field, sites_of=self.sites),
            list[VcfRecords](),
            list[BadRow](),
        )
        for part, _ in self.ranges:
            found, refused = sift_range(part, self.limits, parse)
            good, bad = [*good, *found], [*bad, *refused]
        return good, bad
