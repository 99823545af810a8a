"""PLINK binary genotypes: .bed, .bim and .fam; `path` names the .bed. Written as one fileset, whatever the parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pipeline.backend.arrays import to_host
from pipeline.errors import JobError
from pipeline.files import Stamp
from pipeline.format import CostlySource, JoinedOutput, Piece
from pipeline.formats._genotypes import GenotypeInput, remembered
from pipeline.formats._joined import join_files
from pipeline.formats._plink.bed_files import (
    BED_MAGIC,
    bed_rows,
    bed_shape_check,
    bim_and_fam,
    bim_rows,
    fam_rows,
    read_bed,
    read_bim,
    read_fam,
)
from pipeline.formats._plink.ids import Ids, ids_field
from pipeline.genome.columns import VARIANT
from pipeline.genome.species import ChromosomeSet
from pipeline.tables.part import Part, Schema


@remembered
def _fileset(bed: str, chromosomes: ChromosomeSet, ids: Ids, _stamps: tuple[Stamp, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Variants and people of a fileset, read once while its three files are unchanged."""
    bim, fam = bim_and_fam(bed)
    variants, people = read_bim(bim, chromosomes), read_fam(fam, ids)
    bed_shape_check(bed, variants.height, people.height)
    return variants, people


@dataclass(frozen=True)
class PlinkSource(CostlySource):
    """`count` variants of a fileset from `first` on."""

    bed: str
    chromosomes: ChromosomeSet
    ids: Ids
    stamps: tuple[Stamp, ...]
    first: int
    count: int

    def load(self) -> Part:
        """Their rows and packed calls."""
        variants, people = _fileset(self.bed, self.chromosomes, self.ids, self.stamps)
        return Part(variants.slice(self.first, self.count), {"calls": read_bed(self.bed, self.first, self.count, people.height)})


class PlinkInput(GenotypeInput):
    """Genotypes of one PLINK fileset; the .bim and .fam lie beside the .bed. Column 5 of the .bim is ALT, column 6 REF."""

    name = "plink"
    suffixes = (".bed",)
    dense = True

    ids: Ids = ids_field()

    def beside(self, path: str) -> Sequence[str]:
        """The .bim and the .fam."""
        return bim_and_fam(path)

    def _files(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The .bim and the .fam."""
        bed, stamps = self.stamped()
        return _fileset(bed, self.chromosome_set, self.ids, stamps)

    def people(self) -> pl.DataFrame:
        """The people of the .fam."""
        return self.of_species(self._files()[1])

    def table_schema(self) -> Schema:
        """The columns of the .bim and of the .fam; lengths of all three files are checked."""
        return Schema(self._files()[0].schema, {"calls": self.people().schema})

    def rows(self) -> int | None:
        """Lines of the .bim."""
        return self._files()[0].height

    def sources(self, parallel: int) -> Sequence[PlinkSource]:
        """Ranges of variants, a few per task that can run at once."""
        bed, stamps = self.stamped()
        variants, people = self._files()
        ranges = self.ranges(variants.height, people.height, parallel)
        return [PlinkSource(bed, self.chromosome_set, self.ids, stamps, first, count) for first, count in ranges]


class PlinkOutput(JoinedOutput):
    """One PLINK fileset of a genotype table's calls: NAME.bed, NAME.bim (A1 is ALT) and NAME.fam."""

    name = "plink"

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without calls, or without the columns of a .bim."""
        if "calls" not in schema.arrays:
            why = "it has dosages; read it with field: calls" if "alt_dosages" in schema.arrays else "calls come from a genotype input"
            raise JobError(f"a plink fileset holds hard calls, and this table has none ({why})")
        if missing := [name for name in VARIANT if name not in columns]:
            raise JobError(f"a plink fileset needs the column {missing[0]!r}, which is not written here. Needed: {', '.join(VARIANT)}")

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The part's rows of the .bed and of the .bim."""
        rows, samples = part.frame.height, axes["calls"].height
        Path(f"{path}.bed").write_bytes(bed_rows(to_host(part.arrays["calls"]), samples))
        Path(f"{path}.bim").write_bytes(bim_rows(part.frame))
        return {"bed": rows, "bim": rows}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """The fileset; the rows stand at the .bed."""
        join_files(f"{stem}.bed", [piece.file("bed") for piece in pieces], before=BED_MAGIC)
        join_files(f"{stem}.bim", [piece.file("bim") for piece in pieces])
        join_files(f"{stem}.fam", [], before=fam_rows(axes["calls"]))
        return {".bed": sum(piece.rows["bed"] for piece in pieces), ".bim": None, ".fam": None}
