"""The chromosome set of a species: its autosomes, what the numbers after them stand for, and which names do not fit it.

PLINK's --chr-set: N autosomes, then X, Y, XY (pseudoautosomal) and MT as N + 1 to N + 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pipeline.errors import InputError
from pipeline.genome.chromosomes import HUMAN

SPECIES = {"human": HUMAN, "cow": 29, "dog": 38, "horse": 31, "mouse": 19, "sheep": 26}
"""Autosomes of the species that go by a name; as PLINK's --cow, --dog, --horse, --mouse and --sheep."""

MOST_AUTOSOMES = 95  # PLINK's too
_LETTERS = ("X", "Y", "XY", "MT")
_CHR_SET = re.compile(r"##chrSet=<.*?(haploid|autosome)(?:Autosome|Pair)Ct=(\d+)")
_SPELT = {"m": "mt", "par1": "xy", "par2": "xy"}

Letter = Literal["x", "y", "xy", "mt"]


def _counted(value: Any) -> Any:
    """The number of autosomes of a species that is named; ValueError where it is not known, or its lines are haploid throughout."""
    if not isinstance(value, str) or value.strip().isdecimal():
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{value} stands for PLINK's haploid chromosome sets, and inbred lines cannot be read as haploid here")
        return value
    name = value.strip().lower()
    if name == "rice":
        raise ValueError("rice is haploid throughout to PLINK (inbred lines), which cannot be read so here; say 12 to read it as diploid")
    if name not in SPECIES:
        raise ValueError(f"{value!r} is no species that is known here ({', '.join(SPECIES)}); give its number of autosomes")
    return SPECIES[name]


AutosomeCount = Annotated[
    int, Field(ge=1, le=MOST_AUTOSOMES), BeforeValidator(_counted, json_schema_input_type=Annotated[int, Field(ge=1)] | str)
]
"""A number of autosomes, or the name of a species."""


@dataclass(frozen=True)
class ChromosomeSet:
    """The chromosomes of a species: 1 to `autosomes`, and X, Y, XY and MT but for those that it is `without`."""

    autosomes: int = HUMAN
    without: tuple[Letter, ...] = ()

    @property
    def codes(self) -> Mapping[str, str]:
        """The letters that the numbers after the autosomes stand for."""
        numbered = enumerate(_LETTERS, self.autosomes + 1)
        return {str(number): letter for number, letter in numbered if letter.lower() not in self.without}

    def check(self, names: Iterable[str | None], where: str) -> None:
        """Raise InputError for the first name of a chromosome that the set has not, where a set is given; scaffolds and 0 are let be."""
        if self == HUMAN_SET:
            return
        for name in names:
            if name is not None and not self._fits(re.sub("^chr", "", name.lower())):
                raise InputError(
                    f"{where}: chromosome {name!r} is not in the chromosome set, {self}. Correct `chromosomes`: the number of autosomes, "
                    f"or a species ({', '.join(SPECIES)})."
                )

    def check_header(self, lines: Iterable[str], where: str) -> None:
        """Raise InputError where a header's ##chrSet line, which PLINK 2 writes of other species, says another number of autosomes."""
        for found in map(_CHR_SET.match, lines):
            if found and found[1] == "haploid":
                raise InputError(
                    f"{where}: its header says that all of its {found[2]} chromosomes are haploid (##chrSet), and inbred lines cannot be "
                    f"read as haploid here. To read them as diploid, write it again with plink2 --chr-set {found[2]}."
                )
            if found and int(found[2]) != self.autosomes:
                raise InputError(
                    f"{where}: its header says {found[2]} autosomes (##chrSet), and the input says {self.autosomes}. "
                    f"Say chromosomes: {found[2]}, or correct the header."
                )

    def _fits(self, name: str) -> bool:
        if name.isdecimal():
            return int(name) <= self.autosomes or str(int(name)) in self.codes
        return _SPELT.get(name, name) not in self.without

    def __str__(self) -> str:
        codes = ", ".join(f"{letter} {number}" for number, letter in self.codes.items())
        return f"{self.autosomes} autosomes" + (f" ({codes})" if codes else "")


HUMAN_SET = ChromosomeSet()
"""22 autosomes (X 23, Y 24, XY 25, MT 26)."""
