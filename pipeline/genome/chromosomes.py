"""Chromosomes by their names: how they are inherited, one name for each to compare positions by, and their order.

What a number says depends on the species: after the autosomes come X, Y, XY (pseudoautosomal) and MT, as PLINK numbers them. Those of a
genotype table are told by a column `autosomes` of its people (`autosomes_of`), which a table of 22 autosomes does not have. A number
below 0 is PLINK's for inbred lines and other haploid genomes: so many chromosomes, each of which counts once, and no others but MT.
"""

from __future__ import annotations

import re

import polars as pl

from pipeline.errors import DataError

HUMAN = 22
AUTOSOME_COUNT = "autosomes"
AUTOSOMES = tuple(str(number) for number in range(1, HUMAN + 1))

ONE_COPY = frozenset({"y", "mt", "haploid"})
"""Kinds of chromosome of which everyone who counts has one copy: two that are written are one, a heterozygous call is half."""

_LETTERS = {"x": ("x",), "y": ("y",), "par": ("xy", "par1", "par2"), "mt": ("mt", "m")}  # in the order of their numbers


def autosomes_of(frame: pl.DataFrame) -> int:
    """The number of autosomes of the species that people, or results, are of: their column `autosomes`, 22 where there is none.

    It is below 0 where the genome is haploid throughout. Raises DataError for rows of several species, as tables that were read back and
    put together may be.
    """
    if AUTOSOME_COUNT not in frame.columns or frame.is_empty():
        return HUMAN
    found = frame[AUTOSOME_COUNT].cast(pl.Int64).fill_null(HUMAN).unique().sort().to_list()
    if len(found) > 1:
        sets = " and ".join(map(str, found))
        raise DataError(
            f"the rows are of several chromosome sets, {sets} {AUTOSOME_COUNT}, so the same number is another chromosome. Take them apart."
        )
    return int(found[0])


def is_haploid(autosomes: int) -> bool:
    """Whether everyone of a species has one copy of every chromosome, to PLINK and here: a number of autosomes below 0."""
    return autosomes < 0


def on_autosome(column: str = "chromosome", autosomes: int = HUMAN) -> pl.Expr:
    """Whether a chromosome is an autosome (Boolean), with or without a leading 'chr'; in a haploid genome all but MT count as such."""
    return chromosome_kind(column, autosomes).is_in(["autosome", "haploid"]).fill_null(value=False)


def chromosome_kind(column: str = "chromosome", autosomes: int = HUMAN) -> pl.Expr:
    """How a chromosome is inherited (String): autosome, x, y, mt, par (pseudoautosomal, as X and Y share it); null for every other name.

    Names are read with or without a leading 'chr' or 0, in any case, and as PLINK's codes after the autosomes: 23 to 26 for 22 of them.
    In a haploid genome all but MT, scaffolds too, are `haploid`, as PLINK has it.
    """
    name = pl.col(column).str.to_lowercase().str.strip_prefix("chr").str.replace("^0+(.)", "$1")
    if is_haploid(autosomes):
        return pl.when(name.is_in(_LETTERS["mt"])).then(pl.lit("mt")).otherwise(pl.lit("haploid"))
    kinds = {code: kind for kind, codes in _LETTERS.items() for code in codes} | dict.fromkeys(_numbers(autosomes), "autosome")
    kinds |= {str(autosomes + place): kind for place, kind in enumerate(_LETTERS, 1)}
    return name.replace_strict(list(kinds), list(kinds.values()), default=None, return_dtype=pl.String)


_ONE_NAME = {"x": "X", "y": "Y", "xy": "X", "par1": "X", "par2": "X", "m": "MT", "mt": "MT"}


def chromosome_key(column: str = "chromosome", autosomes: int = HUMAN) -> pl.Expr:
    """One name of a chromosome (String), to compare positions by: chr1, 01 and 1 are 1; chrX and the pseudoautosomal XY, PAR1 and PAR2,
    which are counted along X, are X; M and chrM are MT; PLINK's codes (23 to 26 after 22 autosomes) are X, Y, X and MT. Other names lose
    only a leading 'chr'.
    """
    bare = pl.col(column).cast(pl.String).str.replace("(?i)^chr", "").str.replace("^0+([1-9])", "$1")
    codes = {} if is_haploid(autosomes) else {str(autosomes + place): name for place, name in enumerate(("X", "Y", "X", "MT"), 1)}
    names = _ONE_NAME | codes
    return bare.str.to_lowercase().replace_strict(list(names), list(names.values()), default=bare, return_dtype=pl.String)


def _numbers(autosomes: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, autosomes + 1))


_LAST = {"x": 101, "y": 102, "xy": 103, "m": 104, "mt": 104}  # after the numbers of any species


def natural_order(chromosome: str) -> tuple[int, str]:
    """What chromosomes are sorted by: numbers as numbers, then X, Y, XY, MT, then others by name."""
    name = re.sub("^chr", "", chromosome.lower())
    return (int(name) if name.isdecimal() else _LAST.get(name, 1_000), name)
