"""The samples of a genome scan: traits, covariates and sex in the order of a genotype table's people. Not a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError, StageError, under
from pipeline.genome.columns import need_known
from pipeline.genome.people import sexes
from pipeline.kernels.design import missingness_groups
from pipeline.kernels.variant_quality import FEMALE, MALE
from pipeline.stage import need_numeric
from pipeline.tables.part import Schema

SEX = "__sex__"
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
            replace(self, trait_names=tuple(self.trait_names[i] for i in group), traits=self.traits[:, group])
            for group in missingness_groups(self.traits)
        ]

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


def need_traits(samples: Schema, traits: Sequence[str], covariates: Sequence[str]) -> None:
    """Raise StageError where a samples table has not these traits and covariates, in numbers, or where one column is named twice."""
    need_known(samples, ("sample_id",), "samples")
    need_numeric(samples, traits, key="traits")
    need_numeric(samples, covariates, key="covariates")
    if both := sorted({*traits} & {*covariates}):
        raise StageError(f"{both[0]!r} is both a trait and a covariate; leave one of them out", key="covariates")
    for names, what in ((traits, "traits"), (covariates, "covariates")):
        if len({*names}) < len(names):
            raise StageError(f"{', '.join(names)} names a column twice", key=what)


def read_sheet(people: pl.DataFrame, rows: pl.DataFrame, traits: Sequence[str], covariates: Sequence[str]) -> Sheet:
    """The sheet of a genotype table's people from rows of the samples table, sex from its column `SEX` or else from the people.

    Raises DataError where the rows do not fit the people, or a sex is none.
    """
    aligned = aligned_sheet(people, rows)
    with under("sex" if SEX in aligned.columns else ""):
        sex = sexes(aligned, SEX) if SEX in aligned.columns else sexes(people)
    columns = {name: aligned[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in (*traits, *covariates)}
    return Sheet(
        trait_names=tuple(traits),
        covariate_names=tuple(covariates),
        traits=np.column_stack([columns[name] for name in traits]),
        covariates=np.column_stack([np.empty((aligned.height, 0)), *(columns[name] for name in covariates)]),
        sex=sex if sex is not None and sex.any() else None,
    )


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
