"""Chromosomes by their names: how they are inherited, one name for each to compare positions by, and their order."""

from __future__ import annotations

import re

import polars as pl

AUTOSOMES = tuple(str(number) for number in range(1, 23))


def autosome_number(column: str = "chromosome") -> pl.Expr:
    """The autosome's number 1 to 22 (Int64), with or without a leading 'chr'; null for every other chromosome."""
    name = pl.col(column).str.to_lowercase().str.strip_prefix("chr")
    return pl.when(name.is_in(AUTOSOMES)).then(name).otherwise(None).cast(pl.Int64)


_KINDS = {"x": ("x", "23"), "y": ("y", "24"), "par": ("xy", "par1", "par2", "25"), "mt": ("mt", "m", "26")}


def chromosome_kind(column: str = "chromosome") -> pl.Expr:
    """How a chromosome is inherited (String): autosome, x, y, mt, par (pseudoautosomal, as X and Y share it); null for every other name.

    Names are read with or without a leading 'chr', in any case, and as PLINK's codes 23 to 26.
    """
    name = pl.col(column).str.to_lowercase().str.strip_prefix("chr")
    kinds = {code: kind for kind, codes in _KINDS.items() for code in codes} | dict.fromkeys(AUTOSOMES, "autosome")
    return name.replace_strict(list(kinds), list(kinds.values()), default=None, return_dtype=pl.String)


_ONE_NAME = {"23": "X", "x": "X", "24": "Y", "y": "Y", "25": "X", "xy": "X", "par1": "X", "par2": "X", "26": "MT", "m": "MT", "mt": "MT"}


def chromosome_key(column: str = "chromosome") -> pl.Expr:
    """One name of a chromosome (String), to compare positions by: chr1, 01 and 1 are 1; 23, chrX and the pseudoautosomal XY, PAR1 and PAR2,
    which are counted along X, are X; M, chrM and 26 are MT. Other names lose only a leading 'chr'.
    """
    bare = pl.col(column).cast(pl.String).str.replace("(?i)^chr", "").str.replace("^0+([1-9])", "$1")
    return bare.str.to_lowercase().replace_strict(list(_ONE_NAME), list(_ONE_NAME.values()), default=bare, return_dtype=pl.String)


_LAST = {"x": 23, "y": 24, "xy": 25, "m": 26, "mt": 26}


def natural_order(chromosome: str) -> tuple[int, str]:
    """What chromosomes are sorted by: numbers as numbers, then X, Y, XY, MT, then others by name."""
    name = re.sub("^chr", "", chromosome.lower())
    return (int(name) if name.isdecimal() else _LAST.get(name, 1_000), name)
