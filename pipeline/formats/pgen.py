"""PLINK 2's genotypes: .pgen, .pvar and .psam; `path` names the .pgen. Read by pgenlib, PLINK 2's own library; and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import InputError, PlaceError
from pipeline.files import Stamp, exists, is_url
from pipeline.format import CostlySource, Piece
from pipeline.formats._bgzip.blocks import reading
from pipeline.formats._genotypes import ARRAYS, GenotypeInput, Genotypes, remembered
from pipeline.formats._genotypes_written import GenotypeOutput, array_of, names_checked
from pipeline.formats._joined import join_files
from pipeline.formats._plink.ids import Ids, ids_field
from pipeline.formats._plink.pgen_cuts import cut_pgen
from pipeline.formats._plink.pgen_files import BLOCK_VARIANTS, PgenHeader, Pvar, read_pgen_header, read_psam, read_pvar
from pipeline.formats._plink.pgen_records import read_calls, read_dosages
from pipeline.formats._plink.pgen_writing import PVAR, head_bytes, psam_text, pvar_rows, record_bytes
from pipeline.formats._vcf.site_fields import FIELDS
from pipeline.genome.species import ChromosomeSet
from pipeline.kernels.genotypes import packed_width
from pipeline.pieces import as_file, ends_with, with_ending, with_more
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema


@dataclass(frozen=True)
class Fileset:
    """What is known without the genotypes: the .pgen's header, its .pvar and its people."""

    header: PgenHeader
    pvar: Pvar
    people: pl.DataFrame

    @property
    def rows(self) -> pl.DataFrame:
        """The rows of the .pvar."""
        return self.pvar.rows


@remembered
def _fileset(pgen: str, chromosomes: ChromosomeSet, ids: Ids, fields: tuple[str, ...], _stamps: tuple[Stamp, ...]) -> Fileset:
    """The fileset, read once while its three files are unchanged."""
    header, people = read_pgen_header(pgen), read_psam(_beside(pgen, ".psam"), ids)
    pvar = read_pvar(_beside(pgen, ".pvar"), chromosomes, fields)
    for what, ending, found, expected in (
        ("variants", ".pvar", pvar.variants, header.variants),
        ("people", ".psam", people.height, header.samples),
    ):
        if found != expected:
            raise InputError(f"{_beside(pgen, ending)}: has {found} {what} where {pgen} has {expected}; the files do not belong together")
    return Fileset(header, pvar, people)


def _beside(pgen: str, ending: str) -> str:
    """The .pvar or .psam of a .pgen; InputError where the path is no .pgen, or there is none."""
    if not ends_with(pgen, ".pgen"):
        raise InputError(f"{pgen}: the path of a pgen input names the .pgen file (its .pvar and .psam lie beside it)")
    file = with_ending(pgen, ending)
    if exists(file):
        return file
    if exists(packed := with_more(file, ".zst")):
        stem = with_ending(pgen, "")
        raise InputError(f"{packed}: is compressed; write it as plain text with: plink2 --pfile {stem} vzs --make-just-pvar --out {stem}")
    raise InputError(f"{file}: no such file; a pgen input is three files with one name, .pgen, .pvar and .psam")


@dataclass(frozen=True)
class PgenSource(CostlySource):
    """`count` rows of a fileset from `first` on."""

    pgen: str
    chromosomes: ChromosomeSet
    ids: Ids
    fields: tuple[str, ...]
    stamps: tuple[Stamp, ...]
    field: Genotypes
    first: int
    count: int

    def load(self) -> Part:
        """Their rows, and their packed calls or dosages; variants with phase, and with dosages that are read as calls, are counted."""
        files = _fileset(self.pgen, self.chromosomes, self.ids, self.fields, self.stamps)
        rows = files.rows.slice(self.first, self.count)
        index, allele = rows["__index__"].to_numpy(), rows["__allele__"].to_numpy()
        read = read_calls if self.field == "calls" else read_dosages
        found = [_no_rows(self.field, files.people.height)]
        for some in self._stretches(index):
            with _reader(self.pgen, files, index[some]) as (reader, before):
                found.append(read(reader, index[some] - np.uint32(before), allele[some], files.people.height))
        array = found[1] if len(found) == 2 else np.concatenate(found)
        known = index[allele == 1]  # the rows of a variant's other alleles may be another part's
        counts = {"variants_with_phase": int(files.header.phase[known].sum())}
        if self.field == "calls":
            counts["variants_with_dosages"] = int(files.header.dosages[known].sum())
        kept = {name: count for name, count in counts.items() if count}
        return Part(rows.drop("__index__", "__allele__"), {ARRAYS[self.field]: array}, kept)

    def _stretches(self, index: NDArray[np.uint32]) -> list[slice]:
        """The rows that are read at once: all, or at a URL those of each block of variants."""
        if not is_url(self.pgen):
            return [slice(0, len(index))]
        starts = np.flatnonzero(np.diff(index // BLOCK_VARIANTS, prepend=-1)).tolist()
        return [slice(low, high) for low, high in pairwise([*starts, len(index)])]


def _no_rows(field: Genotypes, people: int) -> NDArray[Any]:
    return np.empty((0, packed_width(people)), np.uint8) if field == "calls" else np.empty((0, people), np.float32)


@contextmanager
def _reader(pgen: str, files: Fileset, index: NDArray[np.uint32]) -> Iterator[tuple[Any, int]]:
    """pgenlib's reader of some variants, one a task (it cannot be shared), and the number of variants before those that it has.

    InputError for what it says of the file.
    """
    import pgenlib

    alleles = np.full(files.header.variants, 2, np.uintp)
    np.maximum.at(alleles, files.rows["__index__"].to_numpy(), files.rows["__allele__"].to_numpy() + 1)
    offsets = np.concatenate([np.zeros(1, np.uintp), np.cumsum(alleles, dtype=np.uintp)]) if alleles.max(initial=2) > 2 else None
    before, pieces = 0, tuple[bytes, ...]()
    try:
        if is_url(pgen):
            with reading(pgen):
                cut = cut_pgen(pgen, int(index[0]), int(index[-1]) + 1)
            offsets = None if offsets is None else offsets[cut.first : int(index[-1]) + 2] - offsets[cut.first]
            before, pieces = cut.first, cut.pieces
        with as_file(pieces, ".pgen") if is_url(pgen) else nullcontext(pgen) as path:
            opened = pgenlib.PgenReader(path.encode(), raw_sample_ct=files.header.samples, allele_idx_offsets=offsets)
        with opened as reader:
            yield reader, before
    except RuntimeError as error:
        text = str(error).strip("b'\"\\n ")
        raise InputError(f"{pgen}: cannot be read ({text}); write it again with plink2 --make-pgen, or copy it again") from error


class PgenInput(GenotypeInput):
    """Genotypes of one PLINK 2 fileset; the .pvar and .psam lie beside the .pgen. A site of several ALT alleles gives one row for each.

    Phase is left out. Calls are PLINK's hard calls; of variants with dosages they are those that PLINK rounded them to.
    """

    name = "pgen"
    suffixes = (".pgen",)
    counts: ClassVar[Mapping[str, Count]] = {
        "variants_with_phase": Count("variants with phase"),
        "variants_with_dosages": Count("variants with dosages"),
    }

    ids: Ids = ids_field()
    field: Genotypes = Field("calls", description="calls: hard calls of two bits. dosages: ALT dosages as float32.")
    fields: tuple[str, ...] = FIELDS

    def beside(self, path: str) -> Sequence[str]:
        """The .pvar and the .psam."""
        return [_beside(path, ending) for ending in (".pvar", ".psam")]

    def _files(self) -> Fileset:
        """What is known without the genotypes."""
        pgen, stamps = self.stamped()
        return _fileset(pgen, self.chromosome_set, self.ids, self.fields, stamps)

    def people(self) -> pl.DataFrame:
        """The people of the .psam."""
        return self.of_species(self._files().people)

    def reads(self) -> Genotypes:
        """As the job says."""
        return self.field

    def table_schema(self) -> Schema:
        """The columns of the .pvar and of the .psam. PlaceError where pgenlib is not installed."""
        if find_spec("pgenlib") is None:
            raise PlaceError("pgenlib, which reads .pgen files, is not installed. Install it with: pip install '.[genotypes]'")
        return Schema(self._files().rows.drop("__index__", "__allele__").schema, {self.array: self.people().schema})

    def genome_build(self) -> str | None:
        """As the job says, else as the .pvar's header tells."""
        return self.build or self._files().pvar.build

    def rows(self) -> int | None:
        """ALT alleles of the .pvar."""
        return self._files().rows.height

    def sources(self, parallel: int) -> Sequence[PgenSource]:
        """Ranges of rows, a few per task that can run at once."""
        pgen, stamps = self.stamped()
        files = self._files()
        ranges = self.ranges(files.rows.height, files.people.height, parallel)
        return [PgenSource(pgen, self.chromosome_set, self.ids, self.fields, stamps, self.field, first, count) for first, count in ranges]


class PgenOutput(GenotypeOutput):
    """One PLINK 2 fileset of a genotype table: NAME.pgen, NAME.pvar and NAME.psam; dosages in PLINK's steps of 1 / 16,384."""

    name = "pgen"
    label = "a pgen fileset"

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The part's records of the .pgen, and lines of the .pvar."""
        Path(f"{path}.pvar").write_bytes(pvar_rows(part))
        Path(f"{path}.pgen").write_bytes(record_bytes(part, axes[array_of(axes)].height))
        return {"pgen": part.rows, "pvar": part.rows}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """The fileset; the rows stand at the .pgen."""
        array, rows = array_of(axes), sum(piece.rows["pgen"] for piece in pieces)
        people = len(names_checked(axes[array], self.label))
        before = head_bytes(rows, people, dosages=array == ARRAYS["dosages"])
        join_files(f"{stem}.pgen", [piece.file("pgen") for piece in pieces], before=before)
        join_files(f"{stem}.pvar", [piece.file("pvar") for piece in pieces], before=PVAR)
        join_files(f"{stem}.psam", [], before=psam_text(axes[array]))
        return {".pgen": rows, ".pvar": None, ".psam": None}
