"""PLINK 2's fileset: the header of a .pgen (calls, phase, dosages), its .pvar (variants) and .psam (people).

A .pgen begins with its storage mode, its numbers of variants and samples, and, a block of 65,536 variants at a time, a type per variant
whose bits tell of phase and dosages (PLINK 2's file format specification, "PGEN").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.files import stamp
from pipeline.formats._bgzip.blocks import reading
from pipeline.formats._plink.bed_files import numbers, read_bim, read_columns, read_fam
from pipeline.formats._plink.ids import Ids, named
from pipeline.formats._vcf.header import infos_of
from pipeline.formats._vcf.site_fields import SiteField, by_allele, check_lengths, site_fields
from pipeline.genome.builds import build_in_text, build_of_contigs
from pipeline.genome.people import sex_of_code
from pipeline.genome.species import HUMAN_SET, ChromosomeSet
from pipeline.kernels.genotypes import packed_width
from pipeline.pieces import open_pieces

PGEN_MAGIC = b"\x6c\x1b"
BLOCK_VARIANTS = 1 << 16
HEAD_BYTES = 12  # before the tables of the header
FLAGS_STORED = 3  # in the highest bits of the last of them: a bit a variant tells whether its REF is provisional
_BED, _HARD_CALLS, _DOSAGES, _PHASED_DOSAGES, _STANDARD = 0x01, 0x02, 0x03, 0x04, 0x10  # storage modes
FIXED_WIDTHS: Mapping[int, Callable[[int], int]] = {
    _HARD_CALLS: packed_width,
    _DOSAGES: lambda samples: packed_width(samples) + 2 * samples,
    _PHASED_DOSAGES: lambda samples: packed_width(samples) + 4 * samples,
}
"""Bytes of every record, by the number of samples, of the storage modes in which all have as many."""

_PHASE_BITS, _DOSAGE_BITS = 0x90, 0x60  # of a variant's type: phase of hard calls or of dosages; dosages
_PSAM = {"IID": "sample_id", "FID": "family_id", "PAT": "father_id", "MAT": "mother_id", "SEX": "sex"}
_PVAR = {"CHROM": "chromosome", "POS": "base_pair_location", "ID": "variant_id", "REF": "ref", "ALT": "alt"}
_CONTIG = re.compile(r"##contig=<(?=.*\bID=([^,>]+))(?=.*\blength=(\d+))")


@dataclass(frozen=True)
class PgenHeader:
    """Variants and samples of a .pgen, and per variant whether it has phase and dosages, `bool[variants]` each."""

    variants: int
    samples: int
    phase: NDArray[np.bool_]
    dosages: NDArray[np.bool_]


def read_pgen_header(path: str | Path) -> PgenHeader:
    """The header of a .pgen. InputError for another file, and for one that keeps its index elsewhere or is in a mode that is not known."""
    with reading(path), open_pieces(path) as file:
        head = file.read(HEAD_BYTES)
        if len(head) < HEAD_BYTES or head[:2] != PGEN_MAGIC:
            raise InputError(f"{path}: is not a .pgen: it begins with {head[:2].hex(' ')}, not with {PGEN_MAGIC.hex(' ')}")
        mode, variants, samples, control = head[2], int.from_bytes(head[3:7], "little"), int.from_bytes(head[7:11], "little"), head[11]
        if mode == _BED:
            raise InputError(f"{path}: is a PLINK 1 .bed by its first bytes; read it with format: plink")
        if variants > 2 * (size := stamp(path).size):  # half a byte of each stands in the header at least
            raise InputError(f"{path}: says that it has {variants:,} variants, and has {size:,} bytes; it is damaged, copy it again")
        if mode not in (*FIXED_WIDTHS, _STANDARD):
            raise InputError(f"{path}: its storage mode {mode:#04x} is not known here; write it again with plink2 --make-pgen")
        if mode != _STANDARD:
            whole = np.zeros(variants, np.bool_)
            return PgenHeader(variants, samples, whole | (mode == _PHASED_DOSAGES), whole | (mode != _HARD_CALLS))
        file.seek(HEAD_BYTES + 8 * -(-variants // BLOCK_VARIANTS))
        types = np.zeros(variants, np.uint8)
        if control & 15 in range(4, 8):  # a byte a variant; with less there is room for neither phase nor dosages
            extra = (control & 3) + 1 + (control >> 4 & 3)  # bytes a variant of record lengths and allele counts
            for start in range(0, variants, BLOCK_VARIANTS):
                count = min(BLOCK_VARIANTS, variants - start)
                if len(kinds := file.read(count)) < count:
                    raise InputError(f"{path}: ends within its header, which says that it has {variants:,} variants; copy it again")
                types[start : start + count] = np.frombuffer(kinds, np.uint8)
                file.seek(extra * count + (-(-count // 8) if control >> 6 == FLAGS_STORED else 0), 1)
    return PgenHeader(variants, samples, (types & _PHASE_BITS) != 0, (types & _DOSAGE_BITS) != 0)


def _header(path: str | Path) -> tuple[list[str], list[str]]:
    """The ## lines of a table, and the names of the line that begins with one #; no names where there is no such line."""
    meta, line = list[str](), ""
    with reading(path), open_pieces(path) as file, TextIOWrapper(file, encoding="utf-8", errors="replace") as text:
        for line in text:
            if not line.startswith("##"):
                break
            meta.append(line)
        else:
            line = ""
    return meta, line.lstrip("#").split() if line.startswith("#") else []


@dataclass(frozen=True)
class Pvar:
    """What a .pvar says: a row for each ALT allele, the number of variants, and the genome build that its header tells of.

    Columns: chromosome, base_pair_location, variant_id, ref, alt, the fields of QUAL, FILTER and INFO that are wanted, and `__index__` and
    `__allele__`, the variant's number from 0 and that of its ALT allele from 1. Names are as in a VCF: an id '.' is built, one of several
    alleles is completed by the allele; '.' as ALT gives no row.
    """

    rows: pl.DataFrame
    variants: int
    build: str | None


def read_pvar(path: str | Path, chromosomes: ChromosomeSet = HUMAN_SET, fields: Sequence[str] = ()) -> Pvar:
    """Read a .pvar, or one written as a .bim; `fields` are those of QUAL, FILTER and INFO that are wanted.

    InputError for a missing column or field, another number of fields in a line, a position that is no number, a chromosome of another
    species.
    """
    meta, names = _header(path)
    sites = site_fields(fields, str(path), infos_of([line.encode() for line in meta]))
    wanted = [*_PVAR, *{one.column: None for one in sites}]
    if not names:
        if sites:
            raise InputError(f"{path}: is written as a .bim, which has no {sites[0].name}; leave it out of fields")
        rows = read_bim(path, chromosomes).drop("centimorgan").with_row_index("__index__").with_columns(__allele__=pl.lit(1, pl.UInt32))
        return Pvar(rows, rows.height, None)
    if missing := [name for name in wanted if name not in names]:
        raise InputError(f"{path}: its header line has no column {missing[0]}; it has {', '.join(names)}")
    chromosomes.check_header(meta, str(path))
    text = read_columns(path, tuple(_PVAR.get(name, name) for name in names), skip=len(meta) + 1)
    chromosomes.check(text["chromosome"].unique(maintain_order=True), str(path))
    frame = text.select(
        pl.col("chromosome").replace(chromosomes.codes),
        numbers(path, text, "base_pair_location", pl.Int64(), skip=len(meta) + 1),
        *[*_PVAR.values()][2:],
        *(one.texts(text.__getitem__) for one in sites),
    )
    lengths = {match[1]: int(match[2]) for line in meta if (match := _CONTIG.match(line))}
    references = [line for line in meta if line.startswith("##reference=")]
    build = build_of_contigs(lengths) or build_in_text("".join(references))
    rows = _alleles(frame.with_row_index("__index__"), sites, str(path))
    return Pvar(rows.with_columns(one.typed(rows, str(path)) for one in sites), frame.height, build)


def _alleles(variants: pl.DataFrame, sites: Sequence[SiteField], path: str) -> pl.DataFrame:
    name, several = pl.col("variant_id"), pl.col("alt").str.contains(",", literal=True)
    rows = variants.filter(pl.col("alt") != ".").with_columns(__several__=several, __allele__=pl.lit(1, pl.UInt32))
    if rows["__several__"].any():
        lists = by_allele(sites)
        rows = rows.with_columns(pl.col("alt").str.split(","), **lists)
        check_lengths(rows, sites, path)
        rows = rows.explode("alt", *lists, empty_as_null=False)
        rows = rows.with_columns(__allele__=pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).over("__index__"))
    built = pl.format("{}:{}:{}:{}", "chromosome", "base_pair_location", "ref", "alt")
    completed = pl.format("{}:{}", "variant_id", "alt")
    return rows.with_columns(
        pl.when(name == ".").then(built).when("__several__").then(completed).otherwise(name).alias("variant_id")
    ).select(*_PVAR.values(), *(one.name for one in sites), "__index__", "__allele__")


def read_psam(path: str | Path, ids: Ids = "iid") -> pl.DataFrame:
    """People of a .psam (or of one written as a .fam): sample_id (by `ids`), and family_id, father_id, mother_id and sex where it has them.

    Sex is Int8, 1 male, 2 female, null unknown. InputError for a missing IID, another number of fields in a line, an id that stands twice.
    """
    meta, names = _header(path)
    if not names:
        return read_fam(path, ids).drop("phenotype")
    if "IID" not in names:
        raise InputError(f"{path}: its header line has no column IID; a .psam begins with #FID and IID, or with #IID")
    text = read_columns(path, tuple(_PSAM.get(name, name) for name in names), skip=len(meta) + 1)
    people = named(path, text.select(name for name in _PSAM.values() if name in text.columns), ids)
    if "sex" in people.columns:
        people = people.with_columns(sex_of_code())
    return people
