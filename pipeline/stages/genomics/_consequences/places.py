"""Where variants lie in the transcripts that they meet: splice sites, introns, untranslated and coding parts."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.ragged import Counts
from pipeline.stages.genomics._consequences.changes import Changes
from pipeline.stages.genomics._consequences.gene_models import GeneModels
from pipeline.stages.genomics._consequences.terms import BIT

_SITE, _REGION_EXON, _REGION_INTRON = 2, 3, 8  # bases of a splice site, and those around it that count as its region (Sequence Ontology)

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Met:
    """Pairs `p` of a variant and a transcript: which they are, `int64[p]` each, and where the first and last changed base lie."""

    variant: NDArray[np.intp]
    transcript: NDArray[np.intp]
    first: Counts
    last: Counts
    begin: NDArray[np.intp]
    """The first exon that ends at `first` or after; the last one of the transcript where there is none."""
    stop: NDArray[np.intp]
    """The last exon that starts at `last` or before; the first one of the transcript where there is none."""
    in_exon: Flags
    """Whether it changes bases of an exon, or lies between two."""

    @staticmethod
    def of(changes: Changes, models: GeneModels, pairs: tuple[NDArray[np.intp], NDArray[np.intp]]) -> Met:
        """The pairs with their places."""
        variant, transcript = pairs
        first, last = changes.first[variant], changes.last[variant]
        begin, stop = models.exons_between(transcript, first, last)
        lowest, highest = models.first_exon[transcript], models.first_exon[transcript + 1] - 1
        return Met(variant, transcript, first, last, np.minimum(begin, highest), np.maximum(stop, lowest), begin <= stop)

    def taken(self, rows: NDArray[np.intp]) -> Met:
        """Some of the pairs."""
        return Met(*(getattr(self, field.name)[rows] for field in fields(self)))

    def only_exonic(self, models: GeneModels) -> Flags:
        """Whether of the transcript only bases of one exon change."""
        start, end = (models.transcripts[name].to_numpy()[self.transcript] for name in ("start", "end"))
        whole = np.maximum(self.first, start) >= models.start[self.begin]
        whole &= np.minimum(self.last, end) <= models.end[self.begin]
        return np.asarray(self.in_exon & (self.begin == self.stop) & whole)


def places(met: Met, models: GeneModels) -> NDArray[np.int64]:
    """The terms that say where a pair's change lies: splice sites, introns, untranslated and coding parts, `int64[p]` of bits."""
    codes, forward = models.codes()[met.transcript], models.is_forward[met.transcript]
    bits = np.where(codes, _splice(met, models, forward), 0)
    intron = np.where(codes, BIT["intron_variant"], BIT["non_coding_transcript_variant"])
    bits |= np.where(met.only_exonic(models), 0, intron)
    bits |= np.where(met.in_exon & ~codes, BIT["non_coding_transcript_exon_variant"], 0)
    low, high = (models.transcripts[name].fill_null(0).to_numpy()[met.transcript] for name in ("low", "high"))
    first, last = np.maximum(met.first, models.start[met.begin]), np.minimum(met.last, models.end[met.stop])
    is_insertion = met.last < met.first
    left = np.where(is_insertion, met.first <= low, first < low)
    right = np.where(is_insertion, met.last >= high, last > high)
    five, three = BIT["5_prime_UTR_variant"], BIT["3_prime_UTR_variant"]
    untranslated = np.where(left, np.where(forward, five, three), 0) | np.where(right, np.where(forward, three, five), 0)
    bits |= np.where(met.in_exon & codes, untranslated, 0)
    coding = met.in_exon & codes & (first <= high) & (last >= low) & ~(is_insertion & (left | right))
    return np.asarray(bits | np.where(coding, BIT["coding_sequence_variant"], 0), np.int64)


def _splice(met: Met, models: GeneModels, forward: Flags) -> NDArray[np.int64]:
    """Bits of splice sites and regions that a change touches: at either end of the exons around it, and those between."""
    lowest, highest = models.first_exon[met.transcript], models.first_exon[met.transcript + 1] - 1
    donor, acceptor = BIT["splice_donor_variant"], BIT["splice_acceptor_variant"]
    left_site, right_site = np.where(forward, acceptor, donor), np.where(forward, donor, acceptor)
    bits = np.zeros(len(met.first), np.int64)
    for exon in (met.begin, met.stop):
        edge = models.start[exon]
        bits |= np.where(exon > lowest, _touched(met, edge - 1, -1, left_site), 0)
        edge = models.end[exon]
        bits |= np.where(exon < highest, _touched(met, edge + 1, 1, right_site), 0)
    bits |= np.where(met.in_exon & (met.begin < met.stop), left_site | right_site, 0)
    return np.where(bits & (donor | acceptor), bits & ~BIT["splice_region_variant"], bits)


def _touched(met: Met, edge: Counts, way: int, site: NDArray[np.int64]) -> NDArray[np.int64]:
    """What a change touches of an intron's end, whose outermost base is `edge`, from which the intron goes on in direction `way`."""

    def reaches(out: int, far: int) -> Flags:
        """Whether it touches the bases from `out` before the intron to the `far`th in it; an insertion touches what it lies between."""
        near, away = edge - way * out, edge + way * (far - 1)
        low, high = (near, away) if way > 0 else (away, near)
        return np.asarray((met.last >= low) & (met.first <= high))

    in_region = reaches(_REGION_EXON, _REGION_INTRON)
    return np.where(reaches(0, _SITE), site, np.where(in_region, BIT["splice_region_variant"], 0))
