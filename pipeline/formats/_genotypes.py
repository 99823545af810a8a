"""What the formats of genotypes in one file share: its companions, how its variants are cut into parts, and whose calls they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from threading import Lock
from typing import ClassVar, Literal, TypeVar, TypeVarTuple

import polars as pl

from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.format import even_ranges
from pipeline.genome.inputs import SpeciesInput
from pipeline.kernels.genotypes import packed_width

PART_BYTES_LEAST, PART_BYTES_MOST = 4 << 20, 128 << 20  # of genotypes in a part, where `parts` does not say

Genotypes = Literal["calls", "dosages"]
"""What is read: hard calls of two bits, or ALT dosages as float32."""

ARRAYS: Mapping[Genotypes, str] = {"calls": "calls", "dosages": "alt_dosages"}
"""The array of the genotype table, by what is read."""


Given = TypeVarTuple("Given")
Found = TypeVar("Found")


def remembered(read: Callable[[*Given], Found]) -> Callable[[*Given], Found]:
    """A reading of files by their stamps, done once while these are unchanged: of threads that ask at once, one reads."""
    cached, lock = lru_cache(maxsize=16)(read), Lock()

    @wraps(read)
    def asked(*values: *Given) -> Found:
        """What is remembered, else what is read now."""
        with lock:
            return cached(*values)

    return asked


class GenotypeInput(SpeciesInput):
    """Base of inputs of one genotype file, with what lies beside it, which are read by ranges of their variants."""

    in_pieces: ClassVar[bool] = True

    def beside(self, path: str) -> Sequence[str]:
        """The files that belong to a genotype file. Raises InputError where one is missing."""
        raise NotImplementedError(f"{type(self).__name__} has no beside")

    def people(self) -> pl.DataFrame:
        """The people, in the order of their genotypes (`of_species`)."""
        raise NotImplementedError(f"{type(self).__name__} has no people")

    def reads(self) -> Genotypes:
        """What is read of each person."""
        return "calls"

    @property
    def array(self) -> str:
        """The name of the genotypes' array."""
        return ARRAYS[self.reads()]

    def file(self) -> str:
        """The one genotype file. Raises InputError where the path names several."""
        files = self.files()
        if len(files) > 1:
            raise InputError(f"{files[1]}: one {self.suffixes[0]} is one input; name {files[0]} and this one as inputs of their own")
        return files[0]

    def content(self) -> list[str]:
        """The genotype file and those beside it."""
        file = self.file()
        return [file, *self.beside(file)]

    def stamped(self) -> tuple[str, tuple[Stamp, ...]]:
        """The genotype file, and the stamps of all files: what was read of them is known by these."""
        files = self.content()
        return files[0], tuple(stamp(file) for file in files)

    def axes(self) -> Mapping[str, pl.DataFrame]:
        """The people."""
        return {self.array: self.people()}

    def ranges(self, variants: int, people: int, parallel: int) -> list[tuple[int, int]]:
        """First variant and number of variants of each part: as many as `parts`, else by size, a few per task that can run at once."""
        size = variants * (packed_width(people) if self.reads() == "calls" else 4 * people)
        return even_ranges(variants, self.parts or max(min(2 * parallel, size // PART_BYTES_LEAST + 1), size // PART_BYTES_MOST + 1))
