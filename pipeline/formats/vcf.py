"""VCF, plain, gzipped or bgzipped: hard calls or dosages, read in parallel, by region where there is an index; and calls written as one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import polars as pl
from pydantic import AfterValidator, BeforeValidator, model_validator
from pydantic import Field as Key

from pipeline.errors import InputError, JobError
from pipeline.files import stamp
from pipeline.format import JoinedOutput, Piece
from pipeline.formats._bad_rows import BAD_ROWS, SiftedInput
from pipeline.formats._bgzip.blocks import EOF_BLOCK, TextRange
from pipeline.formats._bgzip.cutting import plan_ranges, text_size
from pipeline.formats._bgzip.tabix import index_beside, read_index
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats._genotypes_written import array_of, names_checked, need_genotypes
from pipeline.formats._joined import join_files
from pipeline.formats._vcf.genotype_lines import genotype_lines
from pipeline.formats._vcf.header import VcfHeader, read_header
from pipeline.formats._vcf.region import Region, check_indexable, contigs_of, plan_region, region_of, regions_of
from pipeline.formats._vcf.site_fields import SiteField, site_fields
from pipeline.formats._vcf.source import VcfSource
from pipeline.formats._vcf.text import ARRAYS_OF, KEYS, Field, columns_of
from pipeline.formats._vcf.writing import CALL, MORE, checked, fields_of, header_of, lines_of
from pipeline.genome.builds import Build, build_field
from pipeline.genome.inputs import SpeciesInput
from pipeline.pieces import ends_with
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema

SAMPLE = pl.Schema({"sample_id": pl.String()})
TEXT_RATIO = 20  # about what genotypes shrink to in bgzip
TEXT_BYTES_LEAST, TEXT_BYTES_MOST = 32 << 20, 512 << 20  # text of one part; its calls take a sixteenth of that
DOSAGES_SHARE = 4  # of that text for dosages, which take about as much as theirs does


def _listed(value: Any) -> Any:
    """One region as a list of one; a contig may be written as a number."""
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in values)


def _checked(regions: tuple[str, ...]) -> tuple[str, ...]:
    for region in regions:
        region_of(region)
    return regions


class VcfInput(SpeciesInput, SiftedInput):
    """Genotypes of one VCF, or of several of the same samples. Multi-allelic sites give one row per ALT allele."""

    name = "vcf"
    suffixes = (".vcf", ".vcf.gz", ".vcf.bgz")
    asides = SpeciesInput.asides | {"imported"}
    in_pieces = True
    counts: ClassVar[Mapping[str, Count]] = {
        **BAD_ROWS,
        "records": Count("records"),
        "multi_allelic": Count("with several ALT alleles"),
        "monomorphic": Count("without an ALT allele"),
        "symbolic": Count("symbolic alleles"),
        "without_gt": Count("without genotypes"),
        "without_ds": Count("without dosages"),
        "half_missing_calls": Count("half-missing calls (taken as missing)"),
        "haploid_calls": Count("haploid calls"),
    }

    field: Field = Key(
        "calls",
        description="calls: hard calls of GT. dosages: ALT dosages of DS (0 to 1 where GT is haploid), of probabilities, GP, or of "
        "haplotype_dosages, HDS. A record without is missing.",
    )
    fields: tuple[str, ...] = Key(
        (), description="QUAL, FILTER and INFO fields (R2, AF ...) to have as columns of the variants, for filter."
    )
    regions: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_checked)] = Key(
        (), description="Records whose POS lies in these (20:1000000-2000000, chrX), read by the file's .tbi or .csi index."
    )
    imported: bool = Key(
        False,
        alias="import",
        description="Keep the table as Parquet in the results folder: made once, and found again by the content of the files.",
    )

    def _headers(self) -> list[VcfHeader]:
        headers = [read_header(file, self.limits) for file in self.files()]
        for header in headers:
            if header.samples != headers[0].samples:
                raise InputError(
                    f"{header.path}: its samples are not those of {headers[0].path}, in their order; read it as an input of its own"
                )
            if self.field != "calls" and (key := KEYS[self.field]) not in header.formats:
                listed = ", ".join(header.formats) or "none"
                remedy = "read hard calls with field: calls, or DS, GP or HDS by dosages, probabilities or haplotype_dosages"
                raise InputError(f"{header.path}: its header has no FORMAT field {key} (it has: {listed}); {remedy}")
        return headers

    def table_schema(self) -> Schema:
        """The columns of a variant, and the samples of the header; regions and their indexes are checked."""
        headers = self._headers()
        for header in headers:
            self.chromosome_set.check_header(header.chromosome_set, header.path)
            self.chromosome_set.check(header.contigs, header.path)
        if self.regions:
            self._regions(headers)
        return Schema(columns_of(self._sites(headers)), {ARRAYS_OF[self.field]: self._people().schema})

    def content(self) -> list[str]:
        """The files, and where regions are read by them their indexes."""
        files = self.files()
        indexes = map(index_beside, files) if self.regions else ()
        return [*files, *(index for index in indexes if index is not None)]

    def axes(self) -> Mapping[str, pl.DataFrame]:
        """The samples of the header line."""
        return {ARRAYS_OF[self.field]: self._people()}

    def _people(self) -> pl.DataFrame:
        return self.of_species(pl.DataFrame({"sample_id": list(self._headers()[0].samples)}, schema=SAMPLE))

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

    def genome_build(self) -> str | None:
        """The build as the job states it, else the one that the headers tell of; None where they tell of none, or of several."""
        found = {header.build for header in self._headers()}
        return self.build or (found.pop() if len(found) == 1 else None)

    def _regions(self, headers: Sequence[VcfHeader]) -> list[Region]:
        """The regions, in the files' order, merged."""
        for header in headers:
            check_indexable(header.path)
        return regions_of(self.regions, [name for header in headers for name in contigs_of(header, read_index(header.path))])

    def sources(self, parallel: int) -> Sequence[VcfSource]:
        """Ranges of whole lines, a few per task that can run at once."""
        headers = self._headers()
        size = sum(stamp(header.path).size for header in headers)
        text = size if ends_with(headers[0].path, ".vcf") else TEXT_RATIO * size
        target = min(max(text // (4 * parallel), TEXT_BYTES_LEAST), TEXT_BYTES_MOST // (1 if self.field == "calls" else DOSAGES_SHARE))
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
        return VcfSource(tuple(ranges), header, self.field, self.chromosome_set, self.limits, self.sifts, self._sites([header]))

    def _sites(self, headers: Sequence[VcfHeader]) -> tuple[SiteField, ...]:
        """The fields that become columns; InputError where a file lacks one, or has it of another type."""
        found = [site_fields(self.fields, header) for header in headers]
        for header, fields in zip(headers, found, strict=True):
            if fields != found[0]:
                raise InputError(f"{header.path}: Number or Type of {', '.join(self.fields)} are not those of {headers[0].path}")
        return found[0]


class VcfOutput(JoinedOutput):
    """Genotypes as one bgzipped VCF, NAME.vcf.gz: of a genotype table, or of one with a row a variant and sample, as pileup_calls gives it.

    A genotype table has GT, always of two alleles, on X, Y and MT too, and DS where it has dosages; its rows are in the table's order. Of
    calls a row each there are GT, and GQ, DP, AD and QUAL where the columns are there; a sample without a row of a variant is missing.
    """

    name = "vcf"

    build: Build = build_field()

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without genotypes and without the columns of calls."""
        if schema.arrays:
            need_genotypes("a VCF", schema, columns)
        elif missing := [name for name in CALL if name not in columns]:
            needed = f"genotypes, or the columns {', '.join(CALL)} (see pileup_calls)"
            raise JobError(f"a VCF needs the column {missing[0]!r}, which is not written here. Needed: {needed}")

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The part's lines; of calls a row each not yet lines, for a variant's may lie in two parts."""
        if part.arrays:
            chromosomes = part.frame["chromosome"].unique(maintain_order=True).cast(pl.String).to_list()
            Path(f"{path}.json").write_text(json.dumps(chromosomes), encoding="utf-8")
            with Path(f"{path}.vcf").open("wb") as file:
                file.writelines(map(bgzip, genotype_lines(part, axes[array_of(axes)].height)))
            return {"vcf": part.rows, "json": 0}
        rows = checked(part.frame.select(name for name in (*CALL, *MORE) if name in part.frame.columns))
        rows.write_ipc(f"{path}.vcf", compression="lz4")
        return {"vcf": rows.height}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """The file; the samples of calls a row each in the order of their names."""
        if axes:
            array, found = array_of(axes), [json.loads(Path(piece.file("json")).read_text(encoding="utf-8")) for piece in pieces]
            chromosomes, fields = (
                [*dict.fromkeys(name for names in found for name in names)],
                ["GT", *["DS"] * (array != ARRAYS_OF["calls"])],
            )
            head = header_of(chromosomes, names_checked(axes[array], "a VCF"), fields, self.build)
            join_files(f"{stem}.vcf.gz", [piece.file("vcf") for piece in pieces], before=bgzip(head.encode()), after=EOF_BLOCK)
            return {".vcf.gz": sum(piece.rows["vcf"] for piece in pieces)}
        rows = pl.concat([pl.read_ipc(Path(piece.file("vcf")).read_bytes()) for piece in pieces])
        samples, fields = rows["sample_id"].unique().sort().to_list(), fields_of(rows.columns)
        header = header_of(rows["chromosome"].unique(maintain_order=True).to_list(), samples, fields, self.build)
        join_files(f"{stem}.vcf.gz", [], before=bgzip(header.encode() + lines_of(rows, samples, fields)), after=EOF_BLOCK)
        return {".vcf.gz": rows.height}
