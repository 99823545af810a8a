"""Inputs whose rows are places of a genome: its build, its species, and that tables of two of either never meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.format import InputFormat, Mark
from pipeline.genome.builds import MARK, Build, build_field
from pipeline.genome.chromosomes import AUTOSOME_COUNT, HUMAN, autosomes_of
from pipeline.genome.columns import VOCABULARY
from pipeline.genome.species import AutosomeCount, ChromosomeSet, Letter

REMEDY = (
    "so the same position is another place. Give inputs of one build (bcftools +liftover, CrossMap or UCSC liftOver move positions), or "
    "correct the input's `build`."
)
OTHER_SPECIES = "so the same number is another chromosome. Give inputs of one species, or correct the input's `chromosomes`."


class PlacedInput(InputFormat):
    """Base of inputs of genotypes, variants or genes. The job says the build with `build`; a format whose header tells it says so too."""

    asides: ClassVar[frozenset[str]] = InputFormat.asides | {"build"}

    build: Build = build_field()

    def genome_build(self) -> str | None:
        """The genome build of the positions: by the job, else by the header; None where neither says it."""
        return self.build

    def marks(self) -> Sequence[Mark]:
        """The genome build, where it is known, and the species of those whose genotypes the rows hold."""
        build = self.genome_build()
        return [*([Mark(MARK, build, REMEDY)] if build else []), *map(_species, self._autosomes())]

    def _autosomes(self) -> Sequence[int]:
        """The number of autosomes, where there are genotypes."""
        return [autosomes_of(people) for people in list(self.axes().values())[:1]]


class SpeciesInput(PlacedInput):
    """Base of inputs of genotypes. The job says the species with `chromosomes`; its people carry it to every stage."""

    chromosomes: AutosomeCount = Field(
        HUMAN,
        description="Number of autosomes, or human, cow, dog, horse, mouse, sheep; the numbers after them are X, Y, XY and MT. "
        "Below 0 (-10, rice): so many chromosomes, all haploid, as PLINK takes inbred lines.",
    )
    without: tuple[Letter, ...] = Field((), description="Which of x, y, xy and mt the species has not; a file that names one is refused.")

    @property
    def chromosome_set(self) -> ChromosomeSet:
        """The chromosomes of the species."""
        return ChromosomeSet(self.chromosomes, self.without)

    def _autosomes(self) -> Sequence[int]:
        return [self.chromosomes]

    def of_species(self, people: pl.DataFrame) -> pl.DataFrame:
        """The people with the number of autosomes, where it is not 22."""
        if self.chromosomes == HUMAN:
            return people
        return people.with_columns(pl.lit(self.chromosomes, VOCABULARY[AUTOSOME_COUNT].dtype).alias(AUTOSOME_COUNT))


def _species(autosomes: int) -> Mark:
    return Mark("chromosome sets", ChromosomeSet(autosomes).counted, OTHER_SPECIES)
