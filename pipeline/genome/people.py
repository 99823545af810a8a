"""The people of a genotype table, by one rule for every stage: who is male, who female, and who is a founder.

Sex is 1 male, 2 female, 0 or null unknown, in whole numbers. A founder has no parent named in father_id or mother_id; '0', '' and null name
none, and either column counts where the other is not there.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import autosomes_of, is_haploid
from pipeline.kernels.variant_quality import FEMALE, MALE, People

UNKNOWN = 0
PARENTS = ("father_id", "mother_id")
_CODES = {"1": MALE, "M": MALE, "m": MALE, "2": FEMALE, "F": FEMALE, "f": FEMALE}


def sex_of_code(column: str = "sex") -> pl.Expr:
    """Sex (Int8) of the codes of PLINK's and Oxford's files: 1 or M, 2 or F, null for every other."""
    return pl.col(column).replace_strict(list(_CODES), list(_CODES.values()), default=None, return_dtype=pl.Int8)


def check_sex(columns: pl.Schema, column: str = "sex", *, key: str = "") -> None:
    """Raise StageError where a column of sexes is there and holds no numbers; `key` is the parameter that names it."""
    dtype = columns.get(column, pl.Null())
    if not (dtype.is_numeric() or dtype == pl.Null):
        text = f"the people's column {column!r} is {dtype}; it must be whole numbers, 1 male, 2 female, 0 or null unknown"
        raise StageError(text, key=key)


def sexes(people: pl.DataFrame, column: str = "sex") -> NDArray[np.int8] | None:
    """`int8[n]`: 1 male, 2 female, 0 unknown; None without such a column. Raises DataError, with person and value, for any other sex."""
    if column not in people.columns:
        return None
    sex = people[column].fill_null(UNKNOWN)
    wrong = people.filter(~sex.is_in([UNKNOWN, MALE, FEMALE]))
    if wrong.height:
        raise DataError(
            f"the sex of {wrong['sample_id'][0]!r} is {wrong[column][0]:g}; it must be 1 (male), 2 (female), 0 or null (unknown)"
        )
    return sex.cast(pl.Int8).to_numpy()


def males(people: pl.DataFrame) -> NDArray[np.bool_]:
    """Who is known to be male, `bool[n]`. Raises DataError for a sex that is none."""
    sex = sexes(people)
    return np.zeros(people.height, np.bool_) if sex is None else np.asarray(sex == MALE)


def founders(people: pl.DataFrame, remedy: str) -> NDArray[np.bool_]:
    """Who has no parent named, `bool[n]`. Raises DataError, with what to do about it, where nobody is a founder."""
    named = [pl.col(name).cast(pl.String).fill_null("0").is_in(["0", ""]).not_() for name in PARENTS if name in people.columns]
    if not named or people.is_empty():
        return np.ones(people.height, np.bool_)
    children = people.select(pl.any_horizontal(named)).to_series()
    if children.all():
        raise DataError(f"everyone has a parent named (father_id, mother_id), so there is no founder to count; {remedy}")
    return (~children).to_numpy()


def refuse_haploid(people: pl.DataFrame, why: str, remedy: str, *, key: str = "") -> None:
    """Raise DataError where a genome is haploid throughout (inbred lines), and what `key` asks for has no meaning there."""
    if is_haploid(autosomes_of(people)):
        stated = f"the input's `chromosomes` is {autosomes_of(people)}"
        raise DataError(f"{why} where all chromosomes are haploid ({stated}). {remedy}", key=key)


def counted_people(people: pl.DataFrame, founders_only: bool) -> People:
    """Founders, where only they count and not everyone is one, and sexes. Raises DataError as `founders` and `sexes` do."""
    counted = founders(people, "set founders_only: false") if founders_only else np.ones(people.height, np.bool_)
    return People(people.height, None if counted.all() else counted, sexes(people))
