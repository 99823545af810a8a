"""What inputs of VCF and of BCF share: which field is read, which columns there are, and whose genotypes they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import polars as pl
from pydantic import Field as Key

from pipeline.errors import InputError
from pipeline.formats._vcf.header import VcfHeader
from pipeline.formats._vcf.site_fields import FIELDS, SiteField, site_fields
from pipeline.formats._vcf.text import ARRAYS_OF, KEYS, Field, columns_of
from pipeline.genome.inputs import SpeciesInput
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema

SAMPLE = pl.Schema({"sample_id": pl.String()})
TEXT_RATIO = 20  # about what genotypes shrink to in bgzip
TEXT_BYTES_LEAST, TEXT_BYTES_MOST = 32 << 20, 512 << 20  # text of one part; its calls take a sixteenth of that
DOSAGES_SHARE = 4  # of that text for dosages, which take about as much as theirs does


class RecordsInput(SpeciesInput):
    """Base of inputs of genotypes whose records are those of a VCF."""

    in_pieces = True
    counts: ClassVar[Mapping[str, Count]] = {
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
    fields: tuple[str, ...] = FIELDS

    def read_headers(self) -> Sequence[VcfHeader]:
        """The headers of the files."""
        raise NotImplementedError(f"{type(self).__name__} has no read_headers")

    def headers(self) -> Sequence[VcfHeader]:
        """The headers. InputError where samples differ, or the wanted field is not there."""
        headers = self.read_headers()
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
        """The columns of a variant, and the samples of the header."""
        headers = self.headers()
        for header in headers:
            self.chromosome_set.check_header(header.chromosome_set, header.path)
            self.chromosome_set.check(header.contigs, header.path)
        return Schema(columns_of(self.sites(headers)), {ARRAYS_OF[self.field]: self._people().schema})

    def axes(self) -> Mapping[str, pl.DataFrame]:
        """The samples of the header line."""
        return {ARRAYS_OF[self.field]: self._people()}

    def _people(self) -> pl.DataFrame:
        return self.of_species(pl.DataFrame({"sample_id": list(self.headers()[0].samples)}, schema=SAMPLE))

    def genome_build(self) -> str | None:
        """The build as the job states it, else the one that the headers tell of; None where they tell of none, or of several."""
        found = {header.build for header in self.headers()}
        return self.build or (found.pop() if len(found) == 1 else None)

    def target_bytes(self, text: int, parallel: int) -> int:
        """How much text a part has, of so much: a few parts per task that can run at once."""
        most = TEXT_BYTES_MOST // (1 if self.field == "calls" else DOSAGES_SHARE)
        return min(max(text // (4 * parallel), TEXT_BYTES_LEAST), most)

    def sites(self, headers: Sequence[VcfHeader]) -> tuple[SiteField, ...]:
        """The fields that become columns; InputError where a file lacks one, or has it of another type."""
        found = [site_fields(self.fields, header.path, header.infos) for header in headers]
        for header, fields in zip(headers, found, strict=True):
            if fields != found[0]:
                raise InputError(f"{header.path}: Number or Type of {', '.join(self.fields)} are not those of {headers[0].path}")
        return found[0]
