"""The chromosome set of a species: its autosomes, what the numbers after them stand for, and which names do not fit it.

PLINK's --chr-set: N autosomes, then X, Y, XY (pseudoautosomal) and MT as N + 1 to N + 4; -N for a genome that is haploid throughout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from pipeline.errors import InputError
from pipeline.genome.chromosomes import HUMAN, is_haploid

SPECIES = {"human": HUMAN, "cow": 29, "dog": 38, "horse": 31, "mouse": 19, "rice": -12, "sheep": 26}
"""Autosomes of the species that go by a name; as PLINK's --cow, --dog, --horse, --mouse, --rice and --sheep."""

MOST_AUTOSOMES = 95  # PLINK's too
_LETTERS = ("X", "Y", "XY", "MT")
_CHR_SET = re.compile(r"##chrSet=<.*?(haploid|autosome)(?:Autosome|Pair)Ct=(\d+)")
_SPELT = {"m": "mt", "par1": "xy", "par2": "xy"}

Letter = Literal["x", "y", "xy", "mt"]


def _counted(value: Any) -> Any:
    """The number of autosomes of a species that is named; ValueError where it is not known."""
    if not isinstance(value, str) or re.fullmatch(r"\s*-?\d+\s*", value):
        return value
    name = value.strip().lower()
    if name not in SPECIES:
        raise ValueError(f"{value!r} is no species that is known here ({', '.join(SPECIES)}); give its number of autosomes")
    return SPECIES[name]


def _some(value: int) -> int:
    if value == 0:
        raise ValueError("a species has autosomes; give their number, or -1 to -95 where all chromosomes are haploid (inbred lines)")
    return value


AutosomeCount = Annotated[
    int,
    Field(ge=-MOST_AUTOSOMES, le=MOST_AUTOSOMES),
    BeforeValidator(_counted, json_schema_input_type=int | str),
    AfterValidator(_some),
]
"""A number of autosomes, below 0 where the genome is haploid, or the name of a species."""


@dataclass(frozen=True)
class ChromosomeSet:
    """The chromosomes of a species: 1 to `autosomes`, and X, Y, XY and MT but for those that it is `without`.

    -N `autosomes` are 1 to N in a haploid genome, which has none of X, Y and XY, and MT by that name alone.
    """

    autosomes: int = HUMAN
    without: tuple[Letter, ...] = ()

    @property
    def codes(self) -> Mapping[str, str]:
        """The letters that the numbers after the autosomes stand for."""
        numbered = () if is_haploid(self.autosomes) else enumerate(_LETTERS, self.autosomes + 1)
        return {str(number): letter for number, letter in numbered if letter.lower() not in self.without}

    def check_names(self, names: Iterable[str | None], where: str) -> set[str]:
        """The names as one spells them (x, mt, 26). Raises InputError for the first that the set has not; scaffolds and 0 stay."""
        bare = ((name, re.sub("^chr", "", name.lower())) for name in names if name is not None)
        known = {name: _SPELT.get(word, word) for name, word in bare}
        for name, word in known.items():
            if not self._fits(word):
                raise InputError(f"{where}: chromosome {name!r} is not in the chromosome set, {self}. {self._remedy()}")
        return {*known.values()}

    def check(self, names: Iterable[str | None], where: str) -> None:
        """As `check_names`, of a file; and where nothing but the default says that it is of people, raise InputError for a number and its
        letter side by side (26 and MT), which are of another species.
        """
        known = self.check_names(names, where)
        twice = [(number, letter) for number, letter in self.codes.items() if {number, letter.lower()} <= known]
        if self == HUMAN_SET and twice:
            number, letter = twice[0]
            raise InputError(
                f"{where}: has chromosomes {number} and {letter}, which are one in the chromosome set, {self}. {self._remedy()}"
            )

    def check_header(self, lines: Iterable[str], where: str) -> None:
        """Raise InputError where a header's ##chrSet line, which PLINK 2 writes of other species, says another number of autosomes."""
        for found in map(_CHR_SET.match, lines):
            if found and (stated := ChromosomeSet(int(found[2]) * (-1 if found[1] == "haploid" else 1))).autosomes != self.autosomes:
                raise InputError(
                    f"{where}: its header says {stated.counted} (##chrSet), and the input says {self.counted}. "
                    f"Say chromosomes: {stated.autosomes}, or correct the header."
                )

    def _remedy(self) -> str:
        species = f"the number of autosomes, -1 to -{MOST_AUTOSOMES} in a haploid genome, or a species ({', '.join(SPECIES)})"
        if self == HUMAN_SET:
            return f"That is man's, which an input has unless it says another; give it `chromosomes`: {species}."
        return f"Correct `chromosomes`: {species}."

    def _fits(self, name: str) -> bool:
        if name.isdecimal():
            return int(name) <= abs(self.autosomes) or str(int(name)) in self.codes
        return name not in self.without and not (is_haploid(self.autosomes) and name in {"x", "y", "xy"})

    @property
    def counted(self) -> str:
        """How many autosomes, in words."""
        return f"{-self.autosomes} haploid chromosomes" if is_haploid(self.autosomes) else f"{self.autosomes} autosomes"

    def __str__(self) -> str:
        codes = ", ".join(f"{letter} {number}" for number, letter in self.codes.items())
        return self.counted + (f" ({codes})" if codes else "")


HUMAN_SET = ChromosomeSet()
"""22 autosomes (X 23, Y 24, XY 25, MT 26)."""
