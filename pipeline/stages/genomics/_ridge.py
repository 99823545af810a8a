"""What a whole-genome regression works on: its people, and blocks of neighbouring variants from parts of any size. Not a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError
from pipeline.genome.chromosomes import autosomes_of, chromosome_key, chromosome_kind, is_haploid, natural_order
from pipeline.genome.columns import VARIANT
from pipeline.kernels.genotypes import Array, call_counts, take_samples
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.stages.genomics._sheet import read_sheet
from pipeline.tables.part import Part, take

Kind = Literal["quantitative", "binary", "time_to_event"]
MODELLED = ("autosome", "haploid", "x", "par")
"""Chromosomes whose variants predict, as regenie has it: no Y and no MT."""


@dataclass(frozen=True)
class RidgeCohort:
    """The people of a whole-genome regression, those with a trait and all covariates, in the order of the genotypes."""

    index: NDArray[np.int64]
    """Their places among the people of the genotypes."""
    everyone: bool
    """Whether these are all of them."""
    sample_ids: pl.Series
    design: RidgeDesign
    autosomes: int
    """Of the species; below 0 in a haploid genome."""

    @classmethod
    def of(
        cls, people: Part, rows: Part, names: tuple[Sequence[str], Sequence[str]], folds: int, kind: Kind = "quantitative"
    ) -> RidgeCohort:
        """From the genotypes' people and rows of a samples table; `names` are of covariates and traits.

        Times to an event are minus where censored. Who lacks one of several binary traits or times is left out. Raises DataError where
        the rows do not fit.
        """
        covariates, traits = names
        sheet = read_sheet(people.frame, rows.frame, traits, covariates)
        lacking = np.isnan(sheet.traits)
        used = ~np.isnan(sheet.covariates).any(axis=1) & ~(lacking.all(axis=1) if kind == "quantitative" else lacking.any(axis=1))
        builds = {"quantitative": RidgeDesign.build, "binary": RidgeDesign.build_binary, "time_to_event": RidgeDesign.build_times}
        design = builds[kind](sheet.covariates[used], sheet.traits[used], (sheet.covariate_names, traits), folds)
        index = np.flatnonzero(used)
        return cls(index, bool(used.all()), people.frame["sample_id"][index], design, autosomes_of(people.frame))

    def chromosomes(self, found: Sequence[str]) -> list[str]:
        """The chromosomes that predictions may leave out: those with variants, the other autosomes, and X."""
        numbered = () if is_haploid(self.autosomes) else (*map(str, range(1, self.autosomes + 1)), "X")
        return sorted({*found, *numbered}, key=natural_order)

    def used(self, part: Part) -> Part:
        """A part's variants of autosomes and X that vary among these people: `chromosome` by one name, and these people's genotypes."""
        key = chromosome_key(autosomes=self.autosomes)
        names = [name for name in VARIANT if name in part.frame.columns and name != "chromosome"]
        frame = part.frame.select(key, *names, chromosome_kind(autosomes=self.autosomes).is_in(MODELLED).alias("counts"))
        rows = frame["counts"].fill_null(value=False).arg_true().to_numpy()
        (name,) = ["alt_dosages"] if "alt_dosages" in part.arrays else ["calls"]
        genotypes = part.arrays[name] if len(rows) == frame.height else take(part.arrays[name], rows)
        if not self.everyone:
            genotypes = genotypes[:, self._places(genotypes)] if name == "alt_dosages" else self._packed(genotypes, part)
        varies = np.flatnonzero(to_host(_varies(genotypes, len(self.index), packed=name == "calls")))
        if len(varies) < len(rows):
            rows, genotypes = rows[varies], take(genotypes, varies)
        return Part(frame.drop("counts")[rows], {name: genotypes})

    def _places(self, array: Array) -> Array:
        return array_module(array).asarray(self.index)

    def _packed(self, calls: Array, part: Part) -> Array:
        return take_samples(calls, 4 * part.arrays["calls"].shape[1], self.index)


def _varies(genotypes: Array, people: int, *, packed: bool) -> Array:
    """Which variants have two kinds of call, or two dosages, `bool[v]`."""
    xp = array_module(genotypes)
    if packed:
        return (call_counts(genotypes, people)[:, :3] > 0).sum(axis=1) > 1
    low, high = xp.where(xp.isnan(genotypes), xp.inf, genotypes), xp.where(xp.isnan(genotypes), -xp.inf, genotypes)
    return high.max(axis=1) > low.min(axis=1)


Run = tuple[str, int]
"""A chromosome, and how many neighbouring variants of a part lie on it."""


def runs_of(part: Part) -> list[list[Run]]:
    """The runs of a part, in order; a list of one, so that those of several parts join."""
    names = part.frame["chromosome"]
    starts = [*names.ne_missing(names.shift()).arg_true().to_list(), len(names)] if len(names) else []
    if starts and starts[0] != 0:
        starts = [0, *starts]
    return [[(str(names[low]), high - low) for low, high in pairwise(starts)]]


def joined_runs(several: list[list[list[Run]]]) -> list[list[Run]]:
    """The runs of several parts, a list a part."""
    return [runs for parts in several for runs in parts]


class Piece(NamedTuple):
    """Neighbouring rows of a part that lie in one block: which block, by its chromosome and number there, and whether it ends the block."""

    block: tuple[str, int]
    low: int
    high: int
    last: bool


def pieces_of(parts: Sequence[Sequence[Run]], size: int) -> Iterator[list[Piece]]:
    """Of each part the pieces of blocks of `size` variants, counted from a chromosome's first one, whichever parts they lie in."""
    totals: dict[str, int] = {}
    for runs in parts:
        for name, count in runs:
            totals[name] = totals.get(name, 0) + count
    before = dict.fromkeys(totals, 0)
    for runs in parts:
        pieces, row = list[Piece](), 0
        for name, count in runs:
            end = row + count
            while row < end:
                number, within = divmod(before[name], size)
                taken = min(end - row, size - within)
                before[name] += taken
                last = within + taken == size or before[name] == totals[name]
                pieces.append(Piece((name, number), row, row + taken, last))
                row += taken
        yield pieces


def piece_of(part: Part, low: int, high: int) -> Part:
    """Some of a part's rows."""
    return Part(part.frame[low:high], {name: array[low:high] for name, array in part.arrays.items()})


def need_variants(runs: Sequence[Sequence[Run]]) -> int:
    """How many variants there are. Raises DataError where there are none."""
    variants = sum(count for part in runs for _, count in part)
    if variants == 0:
        raise DataError("no autosomal or X variant varies among the people who have a trait and all covariates. Are the ids written alike?")
    return variants
