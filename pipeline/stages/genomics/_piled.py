"""Variants of a stretch of the reference, from the alignments that reach into it. Not a stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.genome.columns import dtypes_of
from pipeline.kernels.cigars import Operations
from pipeline.kernels.diploid_calls import Support, call_genotypes, support_of
from pipeline.kernels.pileup import ALLELES, CODES, Reads, Window, passing, supported
from pipeline.stages.genomics._alignments import operations_of, side_by_side

COLUMNS = (
    "chromosome", "base_pair_location", "variant_id", "ref", "alt", "call_quality",
    "sample_id", "genotype", "genotype_quality", "depth", "ref_depth", "alt_depth",
)  # fmt: skip
INDEL_QUALITY = 40  # Phred: how often a read has an insertion or deletion of its own
GAP_ROOM = 12  # bases beside its own that a read must go on behind an insertion or deletion for the aligner to open a gap
_GENOTYPES = {-1: None, 0: "0/0", 1: "0/1", 2: "1/1"}
_INDEL = ["at", "length", "text"]
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


@dataclass(frozen=True)
class _Aligned:
    """The alignments that reach into a stretch, the samples that they are of, and of which of these each fragment is."""

    rows: pl.DataFrame
    stretch: Stretch
    names: pl.Series
    found: Operations
    reads: Reads
    of_fragment: Integers

    @property
    def width(self) -> int:
        """Bases of the stretch."""
        return self.stretch.high - self.stretch.low

    def sample(self, fragments: Integers) -> pl.Series:
        """The samples of fragments, as a column."""
        return pl.Series("sample", self.of_fragment[fragments], dtype=pl.Int64)


def call_stretch(rows: pl.DataFrame, stretch: Stretch, asked: Asked) -> pl.DataFrame:
    """A row a variant and sample: SNVs, insertions and deletions that begin in the stretch."""
    here = _aligned(rows, stretch)
    samples = len(here.names)
    window = Window(stretch.low, stretch.high, asked.min_base_quality)
    support = supported(here.found.aligned, here.reads, window, here.of_fragment, samples)
    shape = (here.width, samples, len(ALLELES))
    gone = _deleted(here) > support.reads.reshape(shape).sum(axis=2)
    told = Support(*(np.where(gone[:, :, None], 0, column.reshape(shape)) for column in support))
    return pl.concat([_substitutions(here, told, asked), _indels(here, asked)])


def _aligned(rows: pl.DataFrame, stretch: Stretch) -> _Aligned:
    names = rows["sample_id"].unique().sort()
    sample = rows["sample_id"].replace_strict(names, pl.int_range(len(names), eager=True), return_dtype=pl.Int64).to_numpy()
    fragment = rows.select((pl.concat_str("sample_id", "read_id", separator=" ").rank("dense") - 1).cast(pl.Int64)).to_series().to_numpy()
    of_fragment = np.zeros(int(fragment.max()) + 1, np.int64)
    of_fragment[fragment] = sample
    start, mapping = (rows[name].to_numpy().astype(np.int64) for name in ("base_pair_location", "mapping_quality"))
    bases, offsets = side_by_side(rows["bases"])
    reads = Reads(start - 1, mapping, fragment, bases, side_by_side(rows["base_qualities"])[0], offsets)
    return _Aligned(rows, stretch, names, operations_of(rows), reads, of_fragment)


def _deleted(here: _Aligned) -> Integers:
    """How many reads of each sample have a deletion over each position of a stretch, `[positions, samples]`.

    Where these are more than have a base, bases are of reads that end within the deletion, and tell nothing.
    """
    ops = here.found.chosen(here.found.code == _DELETED)
    begin = here.reads.start[ops.read] + ops.on_reference - here.stretch.low
    steps = np.zeros((here.width + 1, len(here.names)), np.int64)
    sample = here.of_fragment[here.reads.fragment[ops.read]]
    np.add.at(steps, (np.clip(begin, 0, here.width), sample), 1)
    np.add.at(steps, (np.clip(begin + ops.length, 0, here.width), sample), -1)
    found: Integers = steps.cumsum(axis=0)[: here.width]
    return found


def _substitutions(here: _Aligned, support: Support, asked: Asked) -> pl.DataFrame:
    """SNVs: of the bases that are not the reference's the one that its reads are surest of."""
    ref = CODES[np.frombuffer(here.stretch.bases[here.stretch.low : here.stretch.high], np.uint8)].astype(np.int64)
    mass, every, known = -support.wrong.sum(axis=1), np.arange(len(ref)), ref < len(ALLELES)
    mass[every[known], ref[known]] = -1
    alt = mass.argmax(axis=1)
    sites = np.flatnonzero(known & (support.reads.sum(axis=1)[every, alt] >= asked.min_reads))
    of_ref, of_alt = (Support(*(column[sites, :, allele[sites]] for column in support)) for allele in (ref, alt))
    letters = {name: [chr(ALLELES[at]) for at in allele[sites]] for name, allele in (("ref", ref), ("alt", alt))}
    alleles = pl.DataFrame(letters, schema=dict.fromkeys(letters, pl.String)).with_columns(pl.Series("at", sites))
    return _rows(here, alleles, (of_ref, of_alt, support.reads.sum(axis=2)[sites]), asked)


def _seen(here: _Aligned) -> pl.DataFrame:
    """Insertions and deletions by the base before them (`at`), bases that are gone (`length`) or come (`text`), and fragment."""
    found, reads = here.found, here.reads
    anchor = reads.start[found.read] + found.on_reference - 1
    is_one = np.isin(found.code, (_INSERTED, _DELETED)) & (found.on_reference > 0)
    ops = found.chosen(is_one & (anchor >= here.stretch.low) & (anchor < here.stretch.high))
    fragment = reads.fragment[ops.read]
    known = {"length": ops.length, "start": ops.on_read, "fragment": fragment, "mapping": reads.mapping_quality[ops.read]}
    at = reads.start[ops.read] + ops.on_reference - 1 - here.stretch.low
    rows = pl.DataFrame({"at": at, **known}).with_columns(
        here.sample(fragment), here.rows["bases"].gather(ops.read), pl.Series("inserted", ops.code == _INSERTED)
    )
    text = pl.when("inserted").then(pl.col("bases").str.slice("start", "length")).otherwise(pl.lit("")).alias("text")
    length = pl.when("inserted").then(0).otherwise("length").alias("length")
    each = rows.select("at", length, text, "fragment", "mapping", "sample")
    return each.group_by([*_INDEL, "fragment", "sample"]).agg(pl.col("mapping").max())


def _indels(here: _Aligned, asked: Asked) -> pl.DataFrame:
    """Insertions and deletions: of those behind a base the one that most fragments have."""
    each = _seen(here)
    ranked = each.group_by(_INDEL).len().filter(pl.col("len") >= asked.min_reads)
    ranked = ranked.sort("at", "len", "length", "text", descending=[False, True, False, False])
    best = ranked.unique("at", keep="first", maintain_order=True).with_row_index("site")
    crossing = passing(here.found.aligned, here.reads, best["at"].to_numpy() + here.stretch.low)
    over = pl.DataFrame(
        {"site": crossing.site, "fragment": crossing.fragment, "mapping": crossing.quality, "room": crossing.room},
        schema_overrides={"site": best.schema["site"]},
    )
    size = pl.max_horizontal("length", pl.col("text").str.len_bytes().cast(pl.Int64)).alias("size")
    over = over.join(best.select("site", "at", size), on="site").filter(pl.col("room") >= pl.col("size") + GAP_ROOM)
    over = (
        over.join(each.select("at", "fragment"), on=["at", "fragment"], how="anti")
        .group_by("site", "fragment")
        .agg(pl.col("mapping").max())
    )
    of_ref = _support(here, over.with_columns(here.sample(over["fragment"].to_numpy())), best.height)
    of_alt = _support(here, each.join(best.select("site", *_INDEL), on=_INDEL), best.height)
    bases, low = here.stretch.bases, here.stretch.low
    texts = [(ref := bases[low + at : low + at + 1 + gone].decode(), ref[:1] + text) for at, gone, text in best.select(_INDEL).iter_rows()]
    alleles = pl.DataFrame(texts, schema={"ref": pl.String, "alt": pl.String}, orient="row").with_columns(best["at"])
    return _rows(here, alleles, (of_ref, of_alt, of_ref.reads + of_alt.reads), asked)


def _support(here: _Aligned, rows: pl.DataFrame, sites: int) -> Support:
    """Support of an allele at sites `[sites, samples]` by the fragments that have it."""
    samples = len(here.names)
    key = rows["site"].to_numpy().astype(np.int64) * samples + rows["sample"].to_numpy()
    quality = np.minimum(rows["mapping"].to_numpy().astype(np.int64), INDEL_QUALITY)
    return Support(*(column.reshape(sites, samples) for column in support_of(key, quality, sites * samples)))


def _rows(here: _Aligned, alleles: pl.DataFrame, support: tuple[Support, Support, Integers], asked: Asked) -> pl.DataFrame:
    """The rows of sites (ref, alt, at) of which a sample has ALT, and which are sure enough; support of both, and all reads."""
    ref, alt, depth = support
    calls = call_genotypes(ref, alt, asked.heterozygosity)
    kept = np.flatnonzero((calls.site_quality >= asked.min_quality) & (calls.genotype > 0).any(axis=1))
    samples = len(here.names)
    known = {
        "call_quality": calls.site_quality[np.repeat(kept, samples)],
        "genotype_quality": calls.quality[kept].ravel(),
        "depth": depth[kept].ravel(),
        "ref_depth": ref.reads[kept].ravel(),
        "alt_depth": alt.reads[kept].ravel(),
    }
    table = alleles[np.repeat(kept, samples)].with_columns(
        pl.lit(here.stretch.chromosome).alias("chromosome"),
        (pl.col("at") + here.stretch.low + 1).alias("base_pair_location"),
        *(pl.Series(name, np.asarray(values)) for name, values in known.items()),
        pl.Series("sample_id", here.names.gather(np.tile(np.arange(samples), len(kept))), dtype=pl.String),
        pl.Series("genotype", calls.genotype[kept].ravel()).replace_strict(_GENOTYPES, return_dtype=pl.String),
    )
    named = table.with_columns(pl.format("{}:{}:{}:{}", "chromosome", "base_pair_location", "ref", "alt").alias("variant_id"))
    return named.select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(COLUMNS).items())
