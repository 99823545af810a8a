"""PLINK 2's genotypes: .pgen, .pvar and .psam; `path` names the .pgen. Read by pgenlib, PLINK 2's own library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import InputError, PlaceError
from pipeline.files import Stamp, exists, is_url
from pipeline.format import CostlySource
from pipeline.formats._bgzip.blocks import reading
from pipeline.formats._genotypes import ARRAYS, GenotypeInput, Genotypes, remembered
from pipeline.formats._plink.pgen_cuts import cut_pgen
from pipeline.formats._plink.pgen_files import BLOCK_VARIANTS, PgenHeader, Pvar, read_pgen_header, read_psam, read_pvar
from pipeline.genome.species import ChromosomeSet
from pipeline.kernels.genotypes import packed_width
from pipeline.pieces import as_file, ends_with, with_ending, with_more
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema

BLOCK_BYTES = 1 << 18  # of calls of a byte each: stays in a core's cache


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
def _fileset(pgen: str, chromosomes: ChromosomeSet, _stamps: tuple[Stamp, ...]) -> Fileset:
    """The fileset, read once while its three files are unchanged."""
    header, people = read_pgen_header(pgen), read_psam(_beside(pgen, ".psam"))
    pvar = read_pvar(_beside(pgen, ".pvar"), chromosomes)
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
    stamps: tuple[Stamp, ...]
    field: Genotypes
    first: int
    count: int

    def load(self) -> Part:
        """Their rows, and their packed calls or dosages; variants with phase, and with dosages that are read as calls, are counted."""
        files = _fileset(self.pgen, self.chromosomes, self.stamps)
        rows = files.rows.slice(self.first, self.count)
        index, allele = rows["index"].to_numpy(), rows["allele"].to_numpy()
        read = _read_calls if self.field == "calls" else _read_dosages
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
        return Part(rows.drop("index", "allele"), {ARRAYS[self.field]: array}, kept)

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
    np.maximum.at(alleles, files.rows["index"].to_numpy(), files.rows["allele"].to_numpy() + 1)
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


def _is_range(index: NDArray[np.uint32], allele: NDArray[np.uint32]) -> bool:
    """Whether rows are the first ALT alleles of variants that follow one another."""
    return bool((allele == 1).all()) and int(index[-1]) - int(index[0]) + 1 == len(index)


def _read_calls(reader: Any, index: NDArray[np.uint32], allele: NDArray[np.uint32], n_samples: int) -> NDArray[np.uint8]:
    """Packed calls, block by block: pgenlib's bytes are 0, 1, 2 or -9 (missing), whose two low bits are our code."""
    width = packed_width(n_samples)
    packed, step = np.empty((len(index), width), np.uint8), max(1, BLOCK_BYTES // (4 * width))
    bytes_ = np.zeros((step, 4 * width), np.int8)  # pgenlib leaves the padding as it is
    for at in range(0, len(index), step):
        some, which = index[at : at + step], allele[at : at + step]
        if _is_range(some, which):
            reader.read_range(int(some[0]), int(some[-1]) + 1, bytes_)
        else:
            for row, (variant, alt) in enumerate(zip(some.tolist(), which.tolist(), strict=True)):
                reader.read(variant, bytes_[row], alt)
        words = bytes_[: len(some)].view("<u4") & np.uint32(0x03030303)
        words |= words >> np.uint32(6)
        words |= words >> np.uint32(12)
        packed[at : at + step] = words
    return packed


def _read_dosages(reader: Any, index: NDArray[np.uint32], allele: NDArray[np.uint32], n_samples: int) -> NDArray[np.float32]:
    """ALT dosages, hard calls where a variant has none; pgenlib's -9 is NaN."""
    dosages = np.empty((len(index), n_samples), np.float32)
    if len(index) and _is_range(index, allele):
        reader.read_dosages_range(int(index[0]), int(index[-1]) + 1, dosages)
    else:
        for row, (variant, alt) in enumerate(zip(index.tolist(), allele.tolist(), strict=True)):
            reader.read_dosages(variant, dosages[row], alt)
    dosages[dosages < 0] = np.nan
    return dosages


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

    field: Genotypes = Field("calls", description="calls: hard calls of two bits. dosages: ALT dosages as float32.")

    def beside(self, path: str) -> Sequence[str]:
        """The .pvar and the .psam."""
        return [_beside(path, ending) for ending in (".pvar", ".psam")]

    def _files(self) -> Fileset:
        """What is known without the genotypes."""
        pgen, stamps = self.stamped()
        return _fileset(pgen, self.chromosome_set, stamps)

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
        return Schema(self._files().rows.drop("index", "allele").schema, {self.array: self.people().schema})

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
        return [PgenSource(pgen, self.chromosome_set, stamps, self.field, first, count) for first, count in ranges]
