"""Inputs whose rows are places of a genome: the build that their positions are of, and that tables of two builds never meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pipeline.format import InputFormat, Mark
from pipeline.genome.builds import Build, build_field

REMEDY = (
    "so the same position is another place. Give inputs of one build (bcftools +liftover, CrossMap or UCSC liftOver move positions), or "
    "correct the input's `build`."
)


class PlacedInput(InputFormat):
    """Base of inputs of genotypes, variants or genes. The job says the build with `build`; a format whose header tells it says so too."""

    asides: ClassVar[frozenset[str]] = InputFormat.asides | {"build"}

    build: Build = build_field()

    def genome_build(self) -> str | None:
        """The genome build of the positions: by the job, else by the header; None where neither says it."""
        return self.build

    def marks(self) -> Sequence[Mark]:
        """The genome build, where it is known."""
        build = self.genome_build()
        return [Mark("genome builds", build, REMEDY)] if build else []
