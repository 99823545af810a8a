"""What a change of a coding sequence makes of its codons: the amino acids before and after, and whether the frame stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.genetic_code import START, translated
from pipeline.kernels.ragged import Counts, Ragged, entries

Flags = NDArray[np.bool_]
START_CODON = 3  # its bases


@dataclass(frozen=True)
class CodingChanges:
    """Changes of coding sequences, a row each: of `removed` bases from `at` on, `added` bases stand instead.

    `coding` are the sequences' base codes in the direction of their transcripts, in whole codons; `at: int64[n]` counts from 0 in the
    sequence. `mitochondrial: bool[n]` says which are read by the mitochondria's code.
    """

    coding: Ragged
    at: Counts
    removed: Counts
    added: Ragged
    mitochondrial: Flags

    @property
    def is_in_frame(self) -> Flags:
        """Whether the codons after the change are read as before, `bool[n]`."""
        return np.asarray((self.added.length - self.removed) % 3 == 0)

    @property
    def begin(self) -> Counts:
        """The first base of the codon in which the change begins, `int64[n]`."""
        return self.at // 3 * 3

    @property
    def end(self) -> Counts:
        """The base after the last codon that is changed, `int64[n]`; an insertion between two codons changes none."""
        return -((self.at + self.removed) // -3) * 3

    def before(self) -> Ragged:
        """The amino acids of the codons that are changed."""
        row, place = entries(self.end - self.begin)
        return self._read(self.coding.values[self.coding.first[row] + self.begin[row] + place], (self.end - self.begin) // 3)

    def after(self) -> Ragged:
        """The amino acids that stand instead; none where the frame shifts."""
        length = np.where(self.is_in_frame, self.end - self.begin - self.removed + self.added.length, 0)
        row, place = entries(length)
        return self._read(self._changed(row, self.begin[row] + place), length // 3)

    def keeps_start(self) -> Flags:
        """Whether the first codon is a start still, `bool[n]`: by its first three bases after the change."""
        room = self.coding.length - self.removed + self.added.length >= START_CODON
        row, place = entries(np.where(room, START_CODON, 0))
        first = self._read(self._changed(row, place), room.astype(np.int64))
        found = np.zeros(len(room), bool)
        found[room] = first.values == START
        return found

    def _changed(self, row: NDArray[np.intp], place: Counts) -> NDArray[np.uint8]:
        """The base codes at places of changed sequences."""
        since = place - self.at[row]
        width = self.added.length[row]
        is_new = (since >= 0) & (since < width)
        old = self.coding.first[row] + place + np.where(since >= width, self.removed[row] - width, 0)
        new = self.added.first[row] + since
        found: NDArray[np.uint8] = self.coding.values[np.where(is_new, self.coding.first[row], old)]
        found[is_new] = self.added.values[new[is_new]]
        return found

    def _read(self, bases: NDArray[np.uint8], length: Counts) -> Ragged:
        """Amino acids of bases that make whole codons, row by row."""
        codes = np.repeat(self.mitochondrial, length)
        return Ragged.of(np.asarray(translated(bases.reshape(-1, 3), codes), np.uint8), length)


def has(amino_acids: Ragged, letter: int) -> Flags:
    """Which rows have a letter among their amino acids, `bool[n]`; the rows lie one after the other."""
    row, _ = entries(amino_acids.length)
    return np.bincount(row[amino_acids.values == letter], minlength=len(amino_acids.length)) > 0


def are_equal(left: Ragged, right: Ragged) -> Flags:
    """Which rows have the same amino acids, `bool[n]`; the rows of each lie one after the other."""
    same = left.length == right.length
    row, place = entries(np.where(same, left.length, 0))
    differs = left.values[left.first[row] + place] != right.values[right.first[row] + place]
    return np.asarray(same & (np.bincount(row[differs], minlength=len(same)) == 0))
