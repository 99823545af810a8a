"""VCF, plain, gzipped or bgzipped: hard calls or dosages, read in parallel, by region where there is an index; and calls written as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, model_validator
from pydantic import Field as Key

from pipeline.files import stamp
from pipeline.formats._bad_rows import BAD_ROWS, SiftedInput
from pipeline.formats._bgzip.blocks import TextRange
from pipeline.formats._bgzip.cutting import plan_ranges, text_size
from pipeline.formats._bgzip.tabix import index_beside, read_index
from pipeline.formats._vcf.header import VcfHeader, read_header
from pipeline.formats._vcf.inputs import TEXT_RATIO, RecordsInput
from pipeline.formats._vcf.outputs import RecordsOutput
from pipeline.formats._vcf.region import Region, check_indexable, contigs_of, plan_region, region_of, regions_of
from pipeline.formats._vcf.source import VcfSource
from pipeline.pieces import ends_with
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema


def _listed(value: Any) -> Any:
    """One region as a list of one; a contig may be written as a number."""
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in values)


def _checked(regions: tuple[str, ...]) -> tuple[str, ...]:
    for region in regions:
        region_of(region)
    return regions


class VcfInput(RecordsInput, SiftedInput):
    """Genotypes of one VCF, or of several of the same samples. Multi-allelic sites give one row per ALT allele."""

    name = "vcf"
    suffixes = (".vcf", ".vcf.gz", ".vcf.bgz")
    asides = RecordsInput.asides | {"imported"}
    counts: ClassVar[Mapping[str, Count]] = {**BAD_ROWS, **RecordsInput.counts}

    regions: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_checked)] = Key(
        (), description="Records whose POS lies in these (20:1000000-2000000, chrX), read by the file's .tbi or .csi index."
    )
    imported: bool = Key(
        False,
        alias="import",
        description="Keep the table as Parquet in the results folder: made once, and found again by the content of the files.",
    )

    def read_headers(self) -> Sequence[VcfHeader]:
        """The headers of the files."""
        return [read_header(file, self.limits) for file in self.files()]

    def table_schema(self) -> Schema:
        """The columns of a variant, and the samples of the header; regions and their indexes are checked."""
        schema = super().table_schema()
        if self.regions:
            self._regions(self.headers())
        return schema

    def content(self) -> list[str]:
        """The files, and where regions are read by them their indexes."""
        files = self.files()
        indexes = map(index_beside, files) if self.regions else ()
        return [*files, *(index for index in indexes if index is not None)]

    @model_validator(mode="after")
    def _sifts_whole_files(self) -> Self:
        if self.sifts and (self.regions or self.imported):
            raise ValueError("on_bad_rows: quarantine reads whole files, and goes with neither regions nor import")
        return self

    def sieves(self, parallel: int) -> Sequence[VcfSource]:
        """The ranges that are read."""
        return self.sources(parallel) if self.sifts else ()

    def keeps_table(self) -> bool:
        """As the job says."""
        return self.imported

    def _regions(self, headers: Sequence[VcfHeader]) -> list[Region]:
        """The regions, in the files' order, merged."""
        for header in headers:
            check_indexable(header.path)
        return regions_of(self.regions, [name for header in headers for name in contigs_of(header, read_index(header.path))])

    def sources(self, parallel: int) -> Sequence[VcfSource]:
        """Ranges of whole lines, a few per task that can run at once."""
        headers = self.headers()
        size = sum(stamp(header.path).size for header in headers)
        target = self.target_bytes(size if ends_with(headers[0].path, ".vcf") else TEXT_RATIO * size, parallel)
        if self.regions:
            return self._region_sources(headers, target)
        if self.parts:
            target = -(-sum(text_size(header.path) for header in headers) // self.parts)
        return [self._source([(part, None)], header) for header in headers for part in plan_ranges(header.path, target)]

    def _region_sources(self, headers: Sequence[VcfHeader], target: int) -> list[VcfSource]:
        """Ranges that the indexes name, by contig and position; small ones share a source. `parts` has no say in them."""
        regions, sources = self._regions(headers), list[VcfSource]()
        for header in headers:
            index, bunch = read_index(header.path), list[tuple[TextRange, Region | None]]()
            for region in regions:
                for part in plan_region(header.path, index, region, target):
                    if sum(known.end - known.start for known, _ in (*bunch, (part, region))) > target // TEXT_RATIO and bunch:
                        sources.append(self._source(bunch, header))
                        bunch = []
                    bunch.append((part, region))
            sources += [self._source(bunch, header)] if bunch else []
        return sources or [self._source([], headers[0])]

    def _source(self, ranges: Sequence[tuple[TextRange, Region | None]], header: VcfHeader) -> VcfSource:
        return VcfSource(tuple(ranges), header, self.field, self.chromosome_set, self.limits, self.sifts, self.sites([header]))


class VcfOutput(RecordsOutput):
    """Genotypes as one bgzipped VCF, NAME.vcf.gz: of a genotype table, or of one with a row a variant and sample, as pileup_calls gives it.

    A genotype table has GT, always of two alleles, on X, Y and MT too, and DS where it has dosages; its rows are in the table's order. Of
    calls a row each there are GT, and GQ, DP, AD and QUAL where the columns are there; a sample without a row of a variant is missing.
    """

    name = "vcf"
