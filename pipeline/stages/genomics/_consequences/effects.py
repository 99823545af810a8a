"""What variants do to the proteins of the transcripts that they meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.coding_changes import START_CODON, CodingChanges, are_equal, has
from pipeline.kernels.genetic_code import ANY, START, STOP, complement, translated
from pipeline.kernels.ragged import Counts, Ragged, entries
from pipeline.stages.genomics._consequences.changes import Changes
from pipeline.stages.genomics._consequences.gene_models import STOP_CODON, GeneModels
from pipeline.stages.genomics._consequences.places import Flags, Met
from pipeline.stages.genomics._consequences.terms import BIT


@dataclass(frozen=True)
class Effects:
    """Of pairs `row` whose change lies in whole codons of a coding sequence: terms, first amino acid from 1, amino acids, and REF's fit."""

    row: NDArray[np.intp]
    bits: NDArray[np.int64]
    position: Counts
    before: Ragged
    after: Ragged
    in_frame: Flags
    fits: Flags


@dataclass(frozen=True)
class Ends:
    """How the coding sequences of transcripts begin and end, `bool[t]` each: with a start codon, with a stop codon."""

    start: Flags
    stop: Flags
    mitochondrial: Flags
    """Whether codons are read by the mitochondria's code."""

    @staticmethod
    def of(models: GeneModels) -> Ends:
        """As the annotation has the sequences: those that begin in the middle of a codon have no start, those that end there no stop."""
        whole = (models.high - models.low + 1).clip(0)
        total = np.bincount(models.exon_transcript, weights=whole, minlength=len(models.first_exon) - 1)
        phase = models.transcripts["phase"].to_numpy()
        mitochondrial = (models.transcripts["key"] == "MT").to_numpy()
        known = models.coding.length >= STOP_CODON
        begin, end = (
            _codon_is(models.coding, at, known, mitochondrial, letter)
            for at, letter in ((models.coding.first, START), (models.coding.first + models.coding.length - STOP_CODON, STOP))
        )
        return Ends(begin & (phase == 0), end & (models.coding.length + phase == total), mitochondrial)


def _codon_is(coding: Ragged, at: Counts, known: Flags, mitochondrial: Flags, letter: int) -> Flags:
    found = np.zeros(len(at), bool)
    codons = coding.values[at[known][:, None] + np.arange(STOP_CODON)]
    found[known] = translated(codons, mitochondrial[known]) == letter
    return found


def effects(met: Met, changes: Changes, models: GeneModels, bits: NDArray[np.int64], ends: Ends) -> Effects:
    """What changes within one exon's coding part do to the amino acids."""
    exon = met.begin
    inside = met.only_exonic(models) & (met.first >= models.low[exon]) & (met.last <= models.high[exon])
    inside &= (bits & BIT["coding_sequence_variant"]) > 0
    forward = models.is_forward[met.transcript]
    at = models.before[exon] + np.where(forward, met.first - models.low[exon], models.high[exon] - met.last)
    removed = met.last - met.first + 1
    inside &= (at >= 0) & (at + np.maximum(removed, 1) <= models.coding.length[met.transcript])
    row = np.flatnonzero(inside)
    transcript, variant, forward = met.transcript[row], met.variant[row], forward[row]
    own, new = (_directed(side.taken(variant), forward) for side in (changes.removed, changes.added))
    coding = models.coding.taken(transcript)
    change = CodingChanges(coding, at[row], removed[row], new, ends.mitochondrial[transcript])
    place, step = entries(own.length)
    differs = own.values != coding.values[coding.first[place] + at[row][place] + step]
    fits = np.bincount(place[differs], minlength=len(row)) == 0
    before, after = change.before(), change.after()
    found = _terms(change, before, after, (ends.start[transcript], ends.stop[transcript]))
    return Effects(row, found, change.begin // 3 + 1, before, after, change.is_in_frame, fits)


def _directed(alleles: Ragged, forward: Flags) -> Ragged:
    """Alleles in the direction of their transcripts, one after the other."""
    row, step = entries(alleles.length)
    bases = alleles.values[alleles.first[row] + np.where(forward[row], step, alleles.length[row] - 1 - step)]
    return Ragged.of(np.where(forward[row], bases, complement(bases)), alleles.length)


def _terms(change: CodingChanges, before: Ragged, after: Ragged, ends: tuple[Flags, Flags]) -> NDArray[np.int64]:
    """Bits of what becomes of the amino acids; `ends` says which sequences begin with a start codon, and end with a stop codon."""
    in_frame, same_length = change.is_in_frame, change.removed == change.added.length
    longer, equal = change.added.length > change.removed, are_equal(before, after)
    stopped, stops = has(before, STOP), has(after, STOP)
    loses_start = ends[0] & (change.at < START_CODON) & (change.at + change.removed > 0) & ~change.keeps_start()
    silent, is_last = equal & same_length, ends[1] & (change.end == change.coding.length)
    gained, lost = in_frame & stops & ~stopped, stopped & ~stops & (same_length | is_last)
    bits = np.zeros(len(in_frame), np.int64)
    for term, where in (
        ("synonymous_variant", silent & ~(stopped & is_last)),
        ("stop_retained_variant", in_frame & stopped & stops & is_last & (silent | ~same_length)),
        ("stop_gained", gained),
        ("stop_lost", lost),
        ("missense_variant", same_length & ~equal & ~gained & ~lost & ~loses_start),
        ("inframe_insertion", in_frame & longer),
        ("inframe_deletion", in_frame & ~longer & ~same_length),
        ("frameshift_variant", ~in_frame),
        ("start_lost", loses_start),
    ):
        bits[where] |= BIT[term]
    unknown = in_frame & same_length & (has(before, ANY) | has(after, ANY))
    bits[unknown] = BIT["coding_sequence_variant"]
    return bits


def across_ends(met: Met, models: GeneModels, ends: Ends) -> NDArray[np.int64]:
    """Of changes across an end of an exon's coding part, whether start and stop codon are among what changes, `int64[p]` of bits."""
    forward = models.is_forward[met.transcript]
    near, far = np.where(forward, met.begin, met.stop), np.where(forward, met.stop, met.begin)
    bases = [np.where(forward, met.first, met.last), np.where(forward, met.last, met.first)]
    first, last = (_coding_place(models, exon, base, forward) for exon, base in zip((near, far), bases, strict=True))
    length = models.coding.length[met.transcript]
    none = models.high < models.low  # exons without a coding part lie beyond the start, or the stop
    touches_start = ends.start[met.transcript] & (none[near] | (first < START_CODON))
    touches_stop = ends.stop[met.transcript] & (none[far] | (last >= length - STOP_CODON))
    bits: NDArray[np.int64] = np.where(touches_start, BIT["start_lost"], 0) | np.where(touches_stop, BIT["stop_lost"], 0)
    return bits


def _coding_place(models: GeneModels, exon: NDArray[np.intp], base: Counts, forward: Flags) -> Counts:
    """The place in the coding sequence of a position, or of the exon's nearest base that codes."""
    low, high = models.low[exon], models.high[exon]
    base = np.clip(base, low, np.maximum(low, high))
    return np.asarray(models.before[exon] + np.where(forward, base - low, high - base))
