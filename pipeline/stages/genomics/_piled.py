"""Variants of a stretch of the reference, from the alignments that reach into it. Not a stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.genome.columns import dtypes_of
from pipeline.kernels.cigars import Operations
from pipeline.kernels.diploid_calls import Calls, Support, call_genotypes, support_of
from pipeline.kernels.pileup import ALLELES, CODES, Passed, Reads, pile
from pipeline.stages.genomics._alignments import operations_of, side_by_side

COLUMNS = (
    "chromosome", "base_pair_location", "variant_id", "ref", "alt", "call_quality",
    "sample_id", "genotype", "genotype_quality", "depth", "ref_depth", "alt_depth",
)  # fmt: skip
INDEL_QUALITY = 40  # Phred: how often a read has an insertion or deletion of its own
GAP_ROOM = 12  # bases beside its own that a read must go on behind an insertion or deletion for the aligner to open a gap
_GENOTYPES = {-1: None, 0: "0/0", 1: "0/1", 2: "1/1"}
_INSERTED, _DELETED = ord("I"), ord("D")

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """What a call asks for: parameters of pileup_calls."""

    min_base_quality: int
    min_reads: int
    min_quality: float
    heterozygosity: float


@dataclass(frozen=True)
class Stretch:
    """The bases of a chromosome from `low` to before `high`, counted from 0."""

    chromosome: str
    bases: bytes
    low: int
    high: int


def call_stretch(rows: pl.DataFrame, stretch: Stretch, asked: Asked) -> pl.DataFrame:
    """A row a variant and sample: SNVs, insertions and deletions that begin in the stretch."""
    names = rows["sample_id"].unique().sort()
    sample = rows["sample_id"].replace_strict(names, pl.int_range(len(names), eager=True), return_dtype=pl.Int64).to_numpy()
    fragment = rows.select((pl.concat_str("sample_id", "read_id", separator=" ").rank("dense") - 1).cast(pl.Int64)).to_series().to_numpy()
    of_fragment = np.zeros(int(fragment.max()) + 1, np.int64)
    of_fragment[fragment] = sample
    bases, offsets = side_by_side(rows["bases"])
    numbers = (rows[name].to_numpy().astype(np.int64) for name in ("base_pair_location", "mapping_quality"))
    start, mapping = numbers
    reads = Reads(start - 1, mapping, fragment, bases, side_by_side(rows["base_qualities"])[0], offsets)
    found = operations_of(rows)
    based, passed = pile(found.aligned, reads, stretch.low, stretch.high, asked.min_base_quality)
    width, samples = stretch.high - stretch.low, len(names)
    support = support_of((based.at * samples + of_fragment[based.fragment]) * 4 + based.allele, based.quality, width * samples * 4)
    gone = _deleted(found, reads, of_fragment, stretch, samples) > support.reads.reshape(width, samples, 4).sum(axis=2)
    shaped = Support(*(np.where(gone[:, :, None], 0, column.reshape(width, samples, 4)) for column in support))
    substituted = _substitutions(shaped, stretch, names, asked)
    indels = _indels(rows, found, reads, of_fragment, passed, stretch, names, asked)
    return pl.concat([substituted, indels])


def _deleted(found: Operations, reads: Reads, of_fragment: Integers, stretch: Stretch, samples: int) -> Integers:
    """How many reads of each sample have a deletion over each position of a stretch, `[positions, samples]`.

    Where these are more than have a base, bases are of reads that end within the deletion, and tell nothing.
    """
    ops = found.chosen(found.code == _DELETED)
    begin = reads.start[ops.read] + ops.on_reference - stretch.low
    width = stretch.high - stretch.low
    steps = np.zeros((width + 1, samples), np.int64)
    sample = of_fragment[reads.fragment[ops.read]]
    np.add.at(steps, (np.clip(begin, 0, width), sample), 1)
    np.add.at(steps, (np.clip(begin + ops.length, 0, width), sample), -1)
    return steps.cumsum(axis=0)[:width]


def _substitutions(support: Support, stretch: Stretch, names: pl.Series, asked: Asked) -> pl.DataFrame:
    """SNVs: of the bases that are not the reference's the one that its reads are surest of."""
    ref = CODES[np.frombuffer(stretch.bases[stretch.low : stretch.high], np.uint8)].astype(np.int64)
    mass = -support.wrong.sum(axis=1)
    known = ref < len(ALLELES)
    mass[np.arange(len(ref))[known], ref[known]] = -1
    alt = mass.argmax(axis=1)
    reads = support.reads.sum(axis=1)[np.arange(len(ref)), alt]
    sites = np.flatnonzero(known & (reads >= asked.min_reads))
    of_ref, of_alt = (Support(*(column[sites, :, allele[sites]] for column in support)) for allele in (ref, alt))
    letters = [chr(letter) for letter in ALLELES]
    alleles = pl.DataFrame({"ref": [letters[at] for at in ref[sites]], "alt": [letters[at] for at in alt[sites]]}, schema={"ref": pl.String, "alt": pl.String})
    calls = call_genotypes(of_ref, of_alt, asked.heterozygosity)
    return _rows(alleles, stretch, sites + stretch.low, names, (of_ref, of_alt, support.reads.sum(axis=2)[sites]), calls, asked)


def _indels(
    rows: pl.DataFrame, found: Operations, reads: Reads, of_fragment: Integers, passed: Passed, stretch: Stretch, names: pl.Series, asked: Asked,
) -> pl.DataFrame:  # fmt: skip
    """Insertions and deletions, at the base before them: of those of a base the one that most fragments have."""
    anchor = reads.start[found.read] + found.on_reference - 1
    is_one = np.isin(found.code, (_INSERTED, _DELETED)) & (found.on_reference > 0)
    ops = found.chosen(is_one & (anchor >= stretch.low) & (anchor < stretch.high))
    inserted = pl.Series(ops.code == _INSERTED)
    seen = pl.DataFrame(
        {
            "at": reads.start[ops.read] + ops.on_reference - 1 - stretch.low,
            "length": ops.length,
            "start": ops.on_read,
            "fragment": reads.fragment[ops.read],
            "mapping": reads.mapping_quality[ops.read],
            "bases": rows["bases"].gather(ops.read),
        }
    ).with_columns(inserted=inserted, sample=pl.Series(of_fragment[reads.fragment[ops.read]], dtype=pl.Int64))
    text = pl.when("inserted").then(pl.col("bases").str.slice("start", "length")).otherwise(pl.lit(""))
    length = pl.when("inserted").then(0).otherwise("length")
    alleles = ["at", "length", "text"]
    each = seen.select("at", length.alias("length"), text.alias("text"), "fragment", "mapping", "sample").group_by([*alleles, "fragment", "sample"]).agg(pl.col("mapping").max())
    ranked = each.group_by(alleles).len().filter(pl.col("len") >= asked.min_reads).sort("at", -pl.col("len").cast(pl.Int64), "length", "text")
    best = ranked.unique("at", keep="first", maintain_order=True).with_row_index("site")
    samples, sites = len(names), best["at"].to_numpy()
    chosen = each.join(best.select("site", *alleles), on=alleles)
    of_alt = _support(chosen["site"], chosen["sample"], chosen["mapping"], best.height, samples)
    wanted = np.zeros(stretch.high - stretch.low, np.bool_)
    wanted[sites] = True
    crossing = passed.of(wanted)
    over = pl.DataFrame({"at": crossing.at, "fragment": crossing.fragment, "mapping": crossing.quality, "room": crossing.room})
    size = pl.max_horizontal("length", pl.col("text").str.len_bytes().cast(pl.Int64))
    over = over.join(best.select("site", "at", size.alias("size")), on="at").filter(pl.col("room") >= pl.col("size") + GAP_ROOM)
    over = over.join(each.select("at", "fragment"), on=["at", "fragment"], how="anti").group_by("site", "fragment").agg(pl.col("mapping").max())
    over = over.with_columns(pl.Series("sample", of_fragment[over["fragment"].to_numpy()], dtype=pl.Int64))
    of_ref = _support(over["site"], over["sample"], over["mapping"], best.height, samples)
    before = [stretch.bases[stretch.low + at : stretch.low + at + 1].decode() for at in sites]
    gone = [stretch.bases[stretch.low + at : stretch.low + at + 1 + size].decode() for at, size in best.select("at", "length").iter_rows()]
    texts = pl.DataFrame({"ref": gone, "before": before}, schema={"ref": pl.String, "before": pl.String}).with_columns(alt=pl.col("before") + best["text"])
    calls = call_genotypes(of_ref, of_alt, asked.heterozygosity)
    return _rows(texts.select("ref", "alt"), stretch, sites + stretch.low, names, (of_ref, of_alt, of_ref.reads + of_alt.reads), calls, asked)


def _support(site: pl.Series, sample: pl.Series, mapping: pl.Series, sites: int, samples: int) -> Support:
    key = site.to_numpy().astype(np.int64) * samples + sample.to_numpy()
    quality = np.minimum(mapping.to_numpy().astype(np.int64), INDEL_QUALITY)
    return Support(*(column.reshape(sites, samples) for column in support_of(key, quality, sites * samples)))


def _rows(
    alleles: pl.DataFrame, stretch: Stretch, at: Integers, names: pl.Series, support: tuple[Support, Support, Integers], calls: Calls, asked: Asked
) -> pl.DataFrame:
    """The rows of sites of which a sample has ALT, and which are sure enough."""
    kept = np.flatnonzero((calls.site_quality >= asked.min_quality) & (calls.genotype > 0).any(axis=1))
    samples, repeated = len(names), np.repeat(kept, len(names))
    ref, alt, depth = support
    known = {
        "base_pair_location": at[repeated] + 1,
        "call_quality": calls.site_quality[repeated],
        "genotype_quality": calls.quality[kept].ravel(),
        "depth": depth[kept].ravel(),
        "ref_depth": ref.reads[kept].ravel(),
        "alt_depth": alt.reads[kept].ravel(),
    }
    table = alleles[repeated].with_columns(
        pl.lit(stretch.chromosome).alias("chromosome"),
        *(pl.Series(name, values) for name, values in known.items()),
        pl.Series("sample_id", names.gather(np.tile(np.arange(samples), len(kept))), dtype=pl.String),
        pl.Series("genotype", calls.genotype[kept].ravel()).replace_strict(_GENOTYPES, return_dtype=pl.String),
    )
    named = table.with_columns(pl.format("{}:{}:{}:{}", "chromosome", "base_pair_location", "ref", "alt").alias("variant_id"))
    return named.select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(COLUMNS).items())
