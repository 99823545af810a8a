"""Transcripts as arrays: their exons, and where among these what codes lies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.genome.chromosomes import chromosome_key
from pipeline.kernels.ragged import Counts, Ragged
from pipeline.tables.part import Part

NEEDED = ("chromosome", "start", "end", "strand", "feature", "gene_id", "gene_name", "transcript_id", "transcript_type", "phase")
EXON, CODING = "exon", ("CDS", "stop_codon")
REMEDY = "Read them with features: [exon, CDS, stop_codon] of a GTF."
_KEY = ("key", "transcript_id")
_POSITION_BITS = 40
STOP_CODON = 3


@dataclass(frozen=True)
class GeneModels:
    """Transcripts `t` in order of chromosome and start, and their exons `e`, one transcript's after the other's, by position.

    `transcripts` has key (the chromosome), start, end, low and high (the first and last position that codes; null where none does), phase
    and what they are called. `first_exon: int64[t + 1]`; `start, end: int64[e]`. The coding part of an exon is `low` to `high` (empty where
    high < low), and `before: int64[e]` bases come before it in the direction of the transcript, not counting those of an incomplete
    codon that it begins with. `coding`: of each transcript its base codes in that direction, whole codons; length 0 where nothing codes or
    bases are not known.
    """

    transcripts: pl.DataFrame
    first_exon: Counts
    start: Counts
    end: Counts
    low: Counts
    high: Counts
    before: Counts
    coding: Ragged

    @property
    def is_forward(self) -> NDArray[np.bool_]:
        """Which transcripts lie on the + strand, `bool[t]`."""
        return (self.transcripts["strand"] == "+").fill_null(value=True).to_numpy()

    @property
    def exon_transcript(self) -> NDArray[np.intp]:
        """The transcript of each exon, `int64[e]`."""
        return np.repeat(np.arange(len(self.first_exon) - 1), np.diff(self.first_exon))

    def codes(self) -> NDArray[np.bool_]:
        """Which transcripts have a coding part, `bool[t]`."""
        return self.transcripts["low"].is_not_null().to_numpy()

    def exons_between(self, transcript: NDArray[np.intp], first: Counts, last: Counts) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first exon of a transcript that ends at `first` or after, and the last one that starts at `last` or before.

        The first is after the last where no exon lies between.
        """
        at = self.exon_transcript << _POSITION_BITS
        begin = np.searchsorted(at + self.end, (transcript << _POSITION_BITS) + first, side="left")
        return begin, np.searchsorted(at + self.start, (transcript << _POSITION_BITS) + last, side="right") - 1


def gene_models(part: Part, autosomes: int) -> GeneModels:
    """Transcripts of an annotation's rows; their bases are not known yet.

    Raises DataError where there are no exons, or where a transcript has no identifier, lies on two strands, or is of two genes.
    """
    rows = part.frame.with_columns(key=chromosome_key(autosomes=autosomes))
    coding = rows.filter(pl.col("feature").is_in(CODING))
    exons = rows.filter(pl.col("feature") == EXON)
    exons = pl.concat([exons, coding.join(exons.select(_KEY).unique(), on=_KEY, how="anti")])  # an annotation may have coding parts alone
    if exons.is_empty():
        found = ", ".join(part.frame["feature"].unique().drop_nulls().sort().to_list()[:8]) or "no rows"
        raise DataError(f"the genes have no exons and no coding parts (they have: {found}). {REMEDY}")
    _check(exons)
    transcripts = _transcripts(exons, coding).with_row_index("transcript")
    pieces = _merged(exons.join(transcripts.select("transcript", *_KEY), on=_KEY).select("transcript", "start", "end"))
    return _arrays(transcripts.drop("transcript"), pieces)


def _check(exons: pl.DataFrame) -> None:
    nameless = exons.filter(pl.any_horizontal(pl.col(*_KEY, "gene_id").is_null()))
    if nameless.height:
        row = nameless.row(0, named=True)
        where = f"{row['feature']} {row['chromosome']}:{row['start']}-{row['end']}"
        raise DataError(f"{nameless.height} rows of genes lack transcript_id, gene_id or chromosome, such as {where}. {REMEDY}")
    for column, what in (("strand", "lies on several strands"), ("gene_id", "is of several genes")):
        several = exons.group_by(_KEY).agg(pl.col(column).unique().sort()).filter(pl.col(column).list.len() > 1).sort(_KEY)
        if several.height:
            names = ", ".join(map(str, several[column][0].to_list()[:3]))
            why = "GFF3 of Ensembl and NCBI names genes on lines of genes alone: give the GTF." if column == "gene_id" else REMEDY
            raise DataError(f"the transcript {several['transcript_id'][0]!r} {what} ({names}). {why}")


def _transcripts(exons: pl.DataFrame, coding: pl.DataFrame) -> pl.DataFrame:
    """A row a transcript: where it lies, what codes, the phase of what codes first, and its names."""
    names = [pl.col(name).min() for name in ("strand", "gene_id", "gene_name", "transcript_type")]  # min: whatever the order of the rows
    found = exons.group_by(_KEY).agg(pl.col("start").min(), pl.col("end").max(), *names)
    phase = pl.col("phase").filter(pl.col("feature") == "CDS")
    first = pl.when(pl.col("strand").first() == "-").then(phase.last()).otherwise(phase.first())
    parts = coding.sort("start").group_by(_KEY).agg(low=pl.col("start").min(), high=pl.col("end").max(), phase=first)
    return found.join(parts, on=_KEY, how="left").with_columns(pl.col("phase").fill_null(0)).sort("key", "start", "end", "transcript_id")


def _merged(exons: pl.DataFrame) -> pl.DataFrame:
    """The exons in order, those that touch made one: a coding part and the stop codon after it are no two exons."""
    rows = exons.sort("transcript", "start", "end")
    reach = pl.col("end").cum_max().shift(1).over("transcript")
    rows = rows.with_columns(piece=(reach.is_null() | (pl.col("start") > reach + 1)).cum_sum())
    return rows.group_by("piece", maintain_order=True).agg(pl.col("transcript").first(), pl.col("start").min(), pl.col("end").max())


def _arrays(transcripts: pl.DataFrame, exons: pl.DataFrame) -> GeneModels:
    of = exons["transcript"].to_numpy().astype(np.int64)
    start, end = exons["start"].to_numpy(), exons["end"].to_numpy()
    low = np.maximum(start, transcripts["low"].fill_null(0).to_numpy()[of])
    high = np.where(transcripts["low"].is_null().to_numpy()[of], low - 1, np.minimum(end, transcripts["high"].fill_null(0).to_numpy()[of]))
    width = np.maximum(high - low + 1, 0)
    first = np.searchsorted(of, np.arange(transcripts.height + 1))
    total = np.concatenate([[0], np.cumsum(width)])
    after = total[first[1:]][of] - total[1:]  # bases of later exons of the transcript
    before = np.where((transcripts["strand"] == "-").fill_null(value=False).to_numpy()[of], after, total[:-1] - total[first[:-1]][of])
    before -= transcripts["phase"].cast(pl.Int64).to_numpy()[of]
    nothing = Ragged(np.empty(0, np.uint8), *(np.zeros(transcripts.height, np.int64) for _ in range(2)))
    return GeneModels(transcripts, first, start, end, low, high, before, nothing)


def coding_parts(models: GeneModels) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The exons that code, each transcript's in its direction, and the transcripts of these."""
    exons = np.flatnonzero(models.high >= models.low)
    of = models.exon_transcript[exons]
    exons = exons[np.lexsort((np.where(models.is_forward[of], exons, -exons), of))]
    return exons, models.exon_transcript[exons]


def spread(length: Counts, most: int) -> list[slice]:
    """Rows of such lengths cut into stretches of at most so many entries each, or of one row."""
    cuts = np.unique(np.searchsorted(np.cumsum(length), np.arange(0, int(length.sum()) + most, most), side="right"))
    edges = [0, *cuts.tolist(), len(length)]
    return [slice(low, high) for low, high in pairwise(edges) if low < high]
