"""Variants as what they change, a stretch of the reference and the bases instead, and the transcripts that they meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.genome.chromosomes import chromosome_key
from pipeline.kernels.genetic_code import base_codes
from pipeline.kernels.ragged import Counts, Ragged, entries, shared_ends
from pipeline.stages.genomics._consequences.gene_models import GeneModels

_BIN_BITS = 14  # transcripts are looked up by bins of 16 kb
_RANK_BITS = 40
_BASES = "^[ACGTNacgtn]+$"


@dataclass(frozen=True)
class Changes:
    """Variants `v` without the bases that REF and ALT share at either end.

    `rows` are their columns, and `row`, the place of each among all. The reference changes from `first` to `last`, `int64[v]`; an
    insertion lies between `last` and `first`, which is the position after. `removed` and `added` are base codes of the + strand.
    """

    rows: pl.DataFrame
    first: Counts
    last: Counts
    removed: Ragged
    added: Ragged


def changes_of(frame: pl.DataFrame, autosomes: int) -> Changes:
    """The variants whose place and alleles are known: alleles of bases, that differ."""
    known = pl.all_horizontal(pl.col("ref", "alt").str.contains(_BASES)) & (
        pl.col("ref").str.to_uppercase() != pl.col("alt").str.to_uppercase()
    )
    placed = pl.col("chromosome", "base_pair_location").is_not_null()
    rows = frame.with_row_index("row").with_columns(key=chromosome_key(autosomes=autosomes)).filter(known, pl.all_horizontal(placed))
    ref, alt = _alleles(rows["ref"]), _alleles(rows["alt"])
    begin, end = shared_ends(ref, alt)
    removed, added = (Ragged(side.values, side.first + begin, side.length - begin - end) for side in (ref, alt))
    first = rows["base_pair_location"].cast(pl.Int64).to_numpy() + begin
    return Changes(rows, first, first + removed.length - 1, removed, added)


def _alleles(texts: pl.Series) -> Ragged:
    letters = np.frombuffer("".join(texts.to_list()).encode(), np.uint8)
    return Ragged.of(base_codes(letters), texts.str.len_bytes().cast(pl.Int64).to_numpy())


def met(changes: Changes, models: GeneModels) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of a variant and a transcript that it lies in, or reaches into, in the order of the variants."""
    ranks = {name: rank for rank, name in enumerate(models.transcripts["key"].unique(maintain_order=True).to_list())}
    key = changes.rows["key"].replace_strict(ranks, default=-1, return_dtype=pl.Int64).to_numpy()
    low, high = np.minimum(changes.first, changes.last), np.maximum(changes.first, changes.last)
    start, end = (models.transcripts[name].to_numpy() for name in ("start", "end"))
    bins, of = _binned(models.transcripts["key"].replace_strict(ranks, return_dtype=pl.Int64).to_numpy(), start, end)
    order = np.argsort(bins, kind="stable")
    bins, of = bins[order], of[order]
    asked, variant = _binned(key, low, high)
    begin, stop = np.searchsorted(bins, asked, side="left"), np.searchsorted(bins, asked, side="right")
    row, step = entries(stop - begin)
    variant, transcript, bin_number = variant[row], of[begin[row] + step], asked[row] & ((1 << _RANK_BITS) - 1)
    touched = (changes.last[variant] >= start[transcript]) & (changes.first[variant] <= end[transcript])
    touched &= bin_number == np.maximum(low[variant], start[transcript]) >> _BIN_BITS  # where both lie in several bins, the first of these
    return variant[touched], transcript[touched]


def _binned(rank: NDArray[np.int64], low: Counts, high: Counts) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The bins that stretches of chromosomes touch, as one number with the chromosome, and the stretch of each."""
    begin = low >> _BIN_BITS
    row, step = entries((high >> _BIN_BITS) - begin + 1)
    return (rank[row] << _RANK_BITS) + begin[row] + step, row
