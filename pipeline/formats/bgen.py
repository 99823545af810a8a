"""BGEN 1.1 to 1.3 genotype probabilities as ALT dosages or hard calls, read by the package bgen in ranges of variants; and 1.2 written.

A .bgi index beside the file is used where there is one; else every task finds its variants by their headers, or at a URL is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import InputError, PlaceError
from pipeline.files import Stamp, exists, is_url, stamp
from pipeline.format import CostlySource, Piece
from pipeline.formats._bgen.cutting import Stretch, cut_bgen, head_of, indexed
from pipeline.formats._bgen.sample_file import read_sample, sample_file, sample_text
from pipeline.formats._bgen.writing import head_bytes, variant_bytes
from pipeline.formats._genotypes import ARRAYS, GenotypeInput, Genotypes, remembered
from pipeline.formats._genotypes_written import GenotypeOutput, array_of, names_checked
from pipeline.formats._joined import join_files
from pipeline.formats._plink.ids import Ids, ids_field, named
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.genome.species import ChromosomeSet
from pipeline.kernels.dosages import call_codes
from pipeline.kernels.genotypes import MISSING, pack, packed_width
from pipeline.pieces import as_file, with_more
from pipeline.tables.part import Part, Schema

SITE = pl.Schema(dtypes_of(VARIANT))
BLOCK_VARIANTS = 256  # whose dosages are held beside the packed calls


@contextmanager
def _opened(path: str, pieces: Iterable[bytes] = ()) -> Iterator[Any]:
    """The package's reader, one a task; of these pieces, where the file is at a URL. InputError for what it says of the file."""
    from bgen import BgenReader

    try:
        with as_file(pieces, ".bgen") if is_url(path) else nullcontext(path) as place:
            opened = BgenReader(place)
        with opened as reader:
            yield reader
    except (ValueError, IndexError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as BGEN ({error}); copy it again, or write it again with qctool or plink2") from error


@remembered
def _summary(path: str, samples: str | None, ids: Ids, _stamps: tuple[Stamp, ...]) -> tuple[int, pl.DataFrame]:
    """The number of variants, and the people, read once while the files are unchanged."""
    count, head = head_of(path) if is_url(path) else (0, b"")
    with _opened(path, [head]) as reader:
        header, inside = reader.header, reader.samples
    count = count or header.nvariants
    if count > (size := stamp(path).size):
        raise InputError(f"{path}: says that it has {count:,} variants, and has {size:,} bytes; it is damaged, copy it again")
    beside = sample_file(path)
    if samples is None and header.has_sample_ids:
        people = named(path, pl.DataFrame({"sample_id": inside}, schema={"sample_id": pl.String()}))
    elif samples is not None or exists(beside):
        people = read_sample(samples or beside, ids)
    else:
        raise InputError(f"{path}: holds no sample ids, and there is no {beside}; name the file that has them with samples:")
    if people.height != header.nsamples:
        raise InputError(f"{samples or beside}: has {people.height} people where {path} has {header.nsamples}; they do not belong together")
    return count, people


@remembered
def _starts(path: str, variants: int, _stamps: tuple[Stamp, ...]) -> NDArray[np.int64]:
    """Where the variants of a file at a URL begin, and where the last ends; the index beside a file is checked, and read once."""
    if exists(index := with_more(path, ".bgi")):
        return indexed(path, index, variants)
    if is_url(path):
        what = f"a BGEN file at a URL is read by its index, and there is no {index}"
        raise InputError(f"{path}: {what}. Make it where the file lies on a disk (bgenix -g FILE -index), and put it beside")
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class BgenSource(CostlySource):
    """`count` variants of a file from `first` on, at a URL those of a stretch; `threshold` is None for dosages."""

    path: str
    n_samples: int
    first: int
    count: int
    ref_first: bool
    threshold: float | None
    chromosomes: ChromosomeSet
    stretch: Stretch | None = None

    def load(self) -> Part:
        """Their rows, and their dosages or packed calls; calls that no dosage is near enough for are missing, and counted."""
        rows, uncertain = list[tuple[Any, ...]](), 0
        kind, width = (np.float32, self.n_samples) if self.threshold is None else (np.uint8, packed_width(self.n_samples))
        array = np.empty((self.count, width), kind)
        pieces, first = (cut_bgen(self.path, self.stretch, self.count), 0) if self.stretch else ((), self.first)
        with _opened(self.path, pieces) as reader:
            for at in range(0, self.count, BLOCK_VARIANTS):
                block = [reader[first + i] for i in range(at, min(at + BLOCK_VARIANTS, self.count))]
                dosages = np.stack([self._dosages(variant) for variant in block])
                rows += [self._row(variant) for variant in block]
                if self.threshold is None:
                    array[at : at + len(block)] = dosages
                else:
                    codes = call_codes(dosages, self.threshold)
                    uncertain += int(np.count_nonzero(codes == MISSING) - np.count_nonzero(np.isnan(dosages)))
                    array[at : at + len(block)] = pack(codes)
        frame = pl.DataFrame(rows, schema=SITE, orient="row")
        self.chromosomes.check(frame["chromosome"].unique(maintain_order=True), self.path)
        name = ARRAYS["dosages" if self.threshold is None else "calls"]
        return Part(frame, {name: array}, {"calls_past_threshold": uncertain} if uncertain else {})

    def _dosages(self, variant: Any) -> NDArray[np.float32]:
        """ALT dosages 0 to 2, NaN where missing; those of haploid people count twice, as PLINK has them."""
        if len(variant.alleles) != 2:
            where = f"variant {variant.rsid} at {variant.chrom}:{variant.pos}"
            raise InputError(
                f"{self.path}: {where} has {len(variant.alleles)} alleles, and only two can be read; split it or leave it out with qctool"
            )
        dosages: NDArray[np.float32] = variant.alt_dosage  # refuses a ploidy past 2
        dosages = np.where(variant.ploidy == 1, 2 * dosages, dosages)
        return dosages if self.ref_first else 2 - dosages

    def _row(self, variant: Any) -> tuple[Any, ...]:
        first, second = variant.alleles
        ref, alt = (first, second) if self.ref_first else (second, first)
        chromosome = variant.chrom.lstrip("0") or variant.chrom
        chromosome = self.chromosomes.codes.get(chromosome, chromosome)
        named = next((name for name in (variant.rsid, variant.varid) if name not in ("", ".")), None)
        return chromosome, variant.pos, named or f"{chromosome}:{variant.pos}:{ref}:{alt}", ref, alt


class BgenInput(GenotypeInput):
    """Genotypes of one BGEN file of variants with two alleles; the people's ids are the file's, else those of the .sample beside it."""

    name = "bgen"
    suffixes = (".bgen",)

    field: Genotypes = Field("dosages", description="dosages: ALT dosages as float32. calls: hard calls of two bits.")
    hard_call_threshold: float = Field(
        0.1, ge=0, lt=0.5, description="For field: calls; a dosage further than this from 0, 1 and 2 is a missing call (PLINK's rule)."
    )
    ref_first: bool = Field(True, description="Whether the first allele is REF, as the format recommends; PLINK's and regenie's ref-first.")
    samples: str | None = Field(None, description="A .sample file with the people's ids; the ids in the file where it is not given.")
    ids: Ids = ids_field()

    def beside(self, path: str) -> Sequence[str]:
        """The file with the people's ids, where there is one, and at a URL the index."""
        index = [with_more(path, ".bgi")] if is_url(path) else []
        return [file for file in (self.samples or sample_file(path), *index) if exists(file)]

    def people(self) -> pl.DataFrame:
        """The people."""
        return self.of_species(self._bgen()[2])

    def reads(self) -> Genotypes:
        """As the job says."""
        return self.field

    def _bgen(self) -> tuple[str, int, pl.DataFrame]:
        """The file, its number of variants, and the people."""
        path, stamps = self.stamped()
        return path, *_summary(path, self.samples, self.ids, stamps)

    def _starts(self) -> NDArray[np.int64]:
        """Where the variants begin, where that is to be known."""
        path, stamps = self.stamped()
        index = with_more(path, ".bgi")
        return _starts(path, self._bgen()[1], (*stamps, *([stamp(index)] if exists(index) else ())))

    def table_schema(self) -> Schema:
        """A variant's columns, and the people; an index is checked. PlaceError where the package bgen is not installed."""
        if find_spec("bgen") is None:
            raise PlaceError("bgen, which reads .bgen files, is not installed. Install it with: pip install '.[genotypes]'")
        self._starts()
        return Schema(SITE, {self.array: self.people().schema})

    def rows(self) -> int | None:
        """Variants by the header."""
        return self._bgen()[1]

    def sources(self, parallel: int) -> Sequence[BgenSource]:
        """Ranges of variants, a few per task that can run at once."""
        path, variants, people = self._bgen()
        ranges = self.ranges(variants, people.height, parallel)
        threshold = self.hard_call_threshold if self.field == "calls" else None
        starts = self._starts().tolist() if is_url(path) else []
        return [
            BgenSource(
                path,
                people.height,
                first,
                count,
                self.ref_first,
                threshold,
                self.chromosome_set,
                (starts[first], starts[first + count]) if starts else None,
            )
            for first, count in ranges
        ]


class BgenOutput(GenotypeOutput):
    """One BGEN 1.2 file of a genotype table, NAME.bgen, REF first, with the people's ids inside, and NAME.sample with their sexes.

    A dosage is stored as the probabilities of the two calls beside it, in steps of 1 / 255 or 1 / 65,535; phase is not known here.
    """

    name = "bgen"
    label = "a BGEN file"

    bits: Literal[8, 16] = Field(16, description="Of a probability; 8 is what UK Biobank's files have, and what regenie reads fastest.")

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The part's variants."""
        people = axes[array_of(axes)].height
        with Path(f"{path}.bgen").open("wb") as file:
            file.writelines(variant_bytes(part, people, self.bits))
        return {"bgen": part.rows}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """The file, and the .sample beside it."""
        people, rows = axes[array_of(axes)], sum(piece.rows["bgen"] for piece in pieces)
        before = head_bytes(rows, names_checked(people, self.label))
        join_files(f"{stem}.bgen", [piece.file("bgen") for piece in pieces], before=before)
        join_files(f"{stem}.sample", [], before=sample_text(people))
        return {".bgen": rows, ".sample": None}
