"""The samples of a genome scan: traits, covariates and sex in the order of a genotype table's people. Not a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, StageError, under
from pipeline.genome.columns import need_known
from pipeline.genome.people import sexes
from pipeline.kernels.design import missingness_groups
from pipeline.kernels.variant_quality import FEMALE, MALE
from pipeline.stage import need_numeric
from pipeline.tables.columns import AXES, AXIS_IDS
from pipeline.tables.part import Part, Schema, hidden
from pipeline.tables.table import Table

SEX = "__sex__"
COVARIATES = (
    "Columns of the samples table to adjust for: numbers, or words, each against the most frequent; the intercept is always there. "
    "dosages, where genotype_features is joined in: the chosen variants."
)
MOST_WORDS = 100
"""Different words of a covariate: an id among the covariates has more."""
_SPANNED = 1e-8


@dataclass(frozen=True)
class Sheet:
    """Values of all `n` people of a genotype table; NaN (and 0 for sex) where unknown."""

    trait_names: tuple[str, ...]
    covariate_names: tuple[str, ...]
    traits: NDArray[np.float64]
    """`float64[n, t]`."""
    covariates: NDArray[np.float64]
    """`float64[n, c]`, without the intercept."""
    sex: NDArray[np.int8] | None
    """`int8[n]`: 1 male, 2 female, 0 unknown; None where nobody's is known."""
    log_odds: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    """Of binary traits with predictions, by maximum likelihood and by Firth's fit without a variant, `float64[t, n]`."""
    words: frozenset[str] = frozenset()
    """The covariates that say whether a column of words has one of them."""

    @property
    def males(self) -> NDArray[np.bool_]:
        """Who is known to be male, `bool[n]`."""
        return np.zeros(len(self.traits), bool) if self.sex is None else self.sex == MALE

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Who has all traits and covariates, `bool[n]`."""
        return np.asarray(~(np.isnan(self.traits).any(axis=1) | np.isnan(self.covariates).any(axis=1)), bool)

    def groups(self) -> list[Sheet]:
        """One sheet for the traits that are missing for the same people, in order of their first traits."""
        return [
            replace(self, trait_names=tuple(self.trait_names[i] for i in group), traits=self.traits[:, group])._with_words_that_vary()
            for group in missingness_groups(self.traits)
        ]

    def _with_words_that_vary(self) -> Sheet:
        """Without the words that nobody has, or all, of those who have the traits."""
        used = self.complete
        kept = [
            i
            for i, name in enumerate(self.covariate_names)
            if name not in self.words or (used.any() and np.ptp(self.covariates[used, i]) > 0)
        ]
        return replace(self, covariate_names=tuple(self.covariate_names[i] for i in kept), covariates=self.covariates[:, kept])

    def of_chromosome(self, kind: str) -> Sheet:
        """What a group's sheet (its traits are known for the same people) is on a sex chromosome.

        `x`: the people whose sex is known, sex a covariate unless the others explain it; `y`: males. A covariate that is constant among
        them is left out, as in PLINK.
        """
        keep = self.males if kind == "y" else self.males | (self.sex == FEMALE)
        traits, used = np.where(keep[:, None], self.traits, np.nan), keep & self.complete
        varied = [i for i in range(len(self.covariate_names)) if used.any() and np.ptp(self.covariates[used, i]) > 0]
        names, covariates = tuple(self.covariate_names[i] for i in varied), self.covariates[:, varied]
        if kind == "x" and not _explained(self.males[used], covariates[used]):
            names, covariates = (*names, "sex"), np.column_stack([covariates, self.males])
        return replace(self, traits=traits, covariate_names=names, covariates=covariates)


def _explained(sex: NDArray[np.bool_], covariates: NDArray[np.float64]) -> bool:
    """Whether intercept and covariates explain sex wholly."""
    scale = np.maximum(np.abs(covariates).max(axis=0, initial=0), 1e-300)
    columns = np.column_stack([np.ones(len(sex)), covariates / scale])
    left = sex - columns @ np.linalg.lstsq(columns, sex.astype(float), rcond=None)[0]
    return bool(np.linalg.norm(left) <= _SPANNED * np.sqrt(len(sex)))


def is_words(dtype: pl.DataType | None) -> bool:
    """Whether a covariate of this type stands for categories."""
    return dtype is not None and dtype in (pl.String, pl.Categorical, pl.Enum)


def sheet_columns(samples: pl.LazyFrame, traits: Sequence[str], covariates: Sequence[str]) -> list[pl.Expr]:
    """What is read of traits and covariates: numbers as Float64, words as text; variants ride along as an array."""
    schema = samples.collect_schema()
    arrays = [name for name in covariates if name in AXES and name not in schema]
    there = [
        pl.col(name).cast(pl.String if is_words(schema[name]) else pl.Float64) for name in (*traits, *covariates) if name not in arrays
    ]
    return [*there, *map(pl.col, hidden(samples) if arrays else [])]


def sheet_rows(samples: Table, needed: Callable[[pl.LazyFrame], pl.LazyFrame], covariates: Sequence[str]) -> Any:
    """The rows of a samples table as one part (a future of it): what `needed` picks, and covariates of variants, a structure each."""
    rows, arrays = samples.map(needed), [name for name in covariates if name in samples.axes]
    if arrays:
        rows = replace(rows.map_parts(_with_variants, tuple(arrays), *(samples.axes[name].value() for name in arrays)), axes={})
    return rows.value()


def _with_variants(part: Part, arrays: tuple[str, ...], *axes: Part) -> Part:
    """The rows with a column for each array: its variants by their ids, null for who lacks one of them."""
    columns = []
    for name, axis in zip(arrays, axes, strict=True):
        dosages = np.asarray(to_host(part.arrays[name]), float)
        frame = pl.DataFrame({variant: dosages[:, i] for i, variant in enumerate(axis.frame[AXIS_IDS[AXES[name]]])}, nan_to_null=True)
        whole = frame.select(pl.when(pl.all_horizontal(pl.all().is_not_null())).then(pl.struct(pl.all())).alias(name))
        columns.append(whole[name])
    return Part(part.frame.with_columns(columns))


def need_traits(samples: Schema, traits: Sequence[str], covariates: Sequence[str], *, words: bool = True) -> None:
    """Raise StageError where a samples table has not these traits and covariates, or where one column is named twice.

    Both are numbers; with `words` covariates may be words, or variants of genotype_features.
    """
    need_known(samples, ("sample_id",), "samples")
    need_numeric(samples, traits, key="traits")
    plain = [name for name in covariates if not (words and (is_words(samples.columns.get(name)) or name in samples.arrays))]
    need_numeric(samples, plain, key="covariates")
    for names, what in ((traits, "traits"), (covariates, "covariates")):
        if "sample_id" in names:
            raise StageError("'sample_id' is who people are, and explains nothing. Leave it out.", key=what)
    if both := sorted({*traits} & {*covariates}):
        raise StageError(f"{both[0]!r} is both a trait and a covariate; leave one of them out", key="covariates")
    for names, what in ((traits, "traits"), (covariates, "covariates")):
        if len({*names}) < len(names):
            raise StageError(f"{', '.join(names)} names a column twice", key=what)


def read_sheet(people: pl.DataFrame, rows: pl.DataFrame, traits: Sequence[str], covariates: Sequence[str]) -> Sheet:
    """The sheet of a genotype table's people from rows of the samples table, sex from its column `SEX` or else from the people.

    A covariate of words becomes columns COVARIATE=WORD of 0 and 1, for all words but the most frequent among those who have all covariates
    and a trait; one of variants the dosages of each, COVARIATE=VARIANT. Raises DataError where the rows do not fit the people, a sex is
    none, or words are too many, or one.
    """
    aligned = aligned_sheet(people, rows)
    with under("sex" if SEX in aligned.columns else ""):
        sex = sexes(aligned, SEX) if SEX in aligned.columns else sexes(people)
    used = aligned.filter(
        pl.all_horizontal(pl.lit(True), *(pl.col(name).is_not_null() for name in covariates)),
        pl.any_horizontal(pl.col(*traits).is_not_null()),
    )
    numbers, columns, words = {name: _numbers(aligned[name]) for name in traits}, dict[str, NDArray[np.float64]](), set[str]()
    for name in covariates:
        if aligned.schema[name] == pl.Struct:
            variants = aligned[name].struct.unnest()
            columns |= {f"{name}={variant}": _numbers(variants[variant]) for variant in variants.columns}
            continue
        if aligned.schema[name] != pl.String:
            columns[name] = _numbers(aligned[name])
            continue
        own = {f"{name}={word}": _numbers(aligned[name] == word) for word in _words(used[name])[1:]}
        columns, words = columns | own, words | {*own}
    return Sheet(
        trait_names=tuple(traits),
        covariate_names=tuple(columns),
        traits=np.column_stack([*numbers.values()]),
        covariates=np.column_stack([np.empty((aligned.height, 0)), *columns.values()]),
        sex=sex if sex is not None and sex.any() else None,
        words=frozenset(words),
    )


def _numbers(column: pl.Series) -> NDArray[np.float64]:
    return np.asarray(column.cast(pl.Float64).fill_null(float("nan")).to_numpy(), float)


def _words(column: pl.Series) -> list[str]:
    """The words of a covariate, the most frequent first, and of equally frequent ones in the order of the alphabet."""
    counted = column.value_counts().sort(["count", column.name], descending=[True, False])[column.name].to_list()
    if len(counted) > MOST_WORDS:
        text = f"covariate {column.name!r} has {len(counted):,} different words, such as {counted[0]!r}, and at most {MOST_WORDS} are taken"
        raise DataError(f"{text}. Is it an id? Leave it out, or put words together.", key="covariates")
    if len(counted) == 1:
        raise DataError(f"covariate {column.name!r} is {counted[0]!r} for everybody who has the traits. Leave it out.", key="covariates")
    return counted


def aligned_sheet(people: pl.DataFrame, sheet: pl.DataFrame) -> pl.DataFrame:
    """The sheet's rows in the order of a genotype table's people, nulls for people with no row.

    Raises DataError where the sheet names somebody twice, or none of the people.
    """
    twice = sheet.filter(pl.col("sample_id").is_duplicated())["sample_id"].unique(maintain_order=True).to_list()
    if twice:
        raise DataError(f"the samples table names {len(twice)} people twice, such as {twice[0]!r}. Give one row per person.")
    if sheet.is_empty():
        raise DataError("the samples table has no rows. Did the stages before it match or keep nobody?")
    aligned = people.select("sample_id").join(sheet, on="sample_id", how="left", maintain_order="left")
    if people.join(sheet, on="sample_id", how="semi").height == 0:
        ours, theirs = people["sample_id"].head(2).to_list(), sheet["sample_id"].head(2).to_list()
        raise DataError(f"no sample_id of the samples table ({theirs}) is in the genotype table ({ours}). Are the ids written alike?")
    return aligned
