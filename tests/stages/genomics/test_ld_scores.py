"""ld_scores: those of ldsc, and sums of unbiased r^2 the slow way."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from pipeline.errors import DataError
from pipeline.stages.genomics.ld_scores import LdScores
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from tests import example_tables as examples
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import Cohort, hapmap3, run, same_for_any_parts
from tests.stages.genomics.test_dosages import certain
from tests.stages.genomics.test_ld_prune import odd_cohort

EXAMPLES = [StageExample(LdScores(kb=0.03), {"genotypes": examples.GENOTYPES}, examples.AXES, {"ld_score": 1e-9}, ordered=True)]

# ldsc 2.0.1 --l2 --ld-wind-kb 500 --chunk-size 1 of HapMap 3's chromosomes 20 to 22.
LDSC = {"rs6056599": 1.010192495, "rs11087392": 1.015606444, "rs6049002": 1.047472128, "rs6040442": 1.021643692, "rs6001402": 1.027911249}


@cache
def odd() -> Cohort:
    return odd_cohort(children=True)


def slow_scores(cohort: Cohort, places: NDArray[np.float64], reach: float) -> list[float | None]:
    founders = cohort.codes[:, (cohort.people["father_id"] == "0").to_numpy()]
    calls = np.where(founders == 3, np.nan, founders.astype(float))
    calls = np.where(
        np.isnan(calls), np.nansum(calls, axis=1, keepdims=True) / np.maximum((founders < 3).sum(axis=1, keepdims=True), 1), calls
    )
    chromosomes, people = cohort.rows.frame["chromosome"].to_list(), founders.shape[1]
    varies = np.ptp(calls, axis=1) > 1e-9
    found: list[float | None] = []
    for i in np.flatnonzero(np.isin(chromosomes, ["1", "2", "3"])):
        total = 0.0
        for j in np.flatnonzero(np.array(chromosomes) == chromosomes[i]):
            if abs(places[i] - places[j]) <= reach and varies[i] and varies[j]:
                square = np.corrcoef(calls[i], calls[j])[0, 1] ** 2
                total += square - (1 - square) / (people - 2)
        found.append(total if varies[i] else None)
    return found


def test_ld_scores__are_sums_of_unbiased_squares_over_autosomes(workers: ClusterSession) -> None:
    found = same_for_any_parts(LdScores(kb=3), {"genotypes": odd()}, workers)[""]
    expected = slow_scores(odd(), odd().rows.frame["base_pair_location"].cast(pl.Float64).to_numpy(), 3000)
    np.testing.assert_allclose(found.frame["ld_score"].cast(float).to_numpy(), np.array(expected, float), rtol=1e-12)
    assert found.counts == {"variants": 43, "not_autosomal": 42, "not_varying": 5}
    assert run(LdScores(kb=3), {"genotypes": odd()}, 85)[""].frame["ld_score"].to_numpy() == pytest.approx(
        found.frame["ld_score"].to_numpy(), rel=1e-12, nan_ok=True
    )


def test_ld_scores__go_by_a_genetic_map() -> None:
    centimorgan = np.cumsum(np.random.default_rng(4).uniform(0, 0.5, 85))
    mapped = Cohort(odd().rows.replaced(odd().rows.frame.with_columns(centimorgan=pl.Series(centimorgan))), odd().people)
    found = run(LdScores(cm=1), {"genotypes": mapped}, 5)[""].frame
    np.testing.assert_allclose(found["ld_score"].cast(float).to_numpy(), np.array(slow_scores(mapped, centimorgan, 1), float), rtol=1e-12)
    holes = Cohort(mapped.rows.replaced(mapped.rows.frame.with_columns(centimorgan=-pl.col("centimorgan"))), odd().people)
    with pytest.raises(DataError, match=r"centimorgan of chromosome '.+' falls, or is missing\. Give the genotypes a genetic map"):
        run(LdScores(cm=1), {"genotypes": holes}, 5)
    unmapped = mapped.rows.frame.with_columns(pl.col("base_pair_location") + 20_000_000, centimorgan=pl.lit(0.0))
    with pytest.raises(DataError, match=r"centimorgan is 0 up to 1:20020400: the genotypes have no genetic map"):
        run(LdScores(cm=1), {"genotypes": Cohort(mapped.rows.replaced(unmapped), odd().people)})


@needs_data
def test_ld_scores__are_those_of_ldsc_on_hapmap() -> None:
    rows = hapmap3().rows
    last = rows.frame["chromosome"].is_in(["20", "21", "22"]).arg_true().to_numpy()
    some = Cohort(Part(rows.frame[last], {"calls": rows.arrays["calls"][last]}), hapmap3().people)
    found = run(LdScores(kb=500), {"genotypes": some}, 3)[""].frame
    scores = dict(zip(found["variant_id"], found["ld_score"], strict=True))
    for name, score in LDSC.items():
        assert scores[name] == pytest.approx(score, abs=6e-10)
    assert found.filter(pl.col("minor_allele_frequency") > 0.05).height == 967


def test_ld_scores__refuse_two_reaches_and_few_founders() -> None:
    with pytest.raises(ValidationError, match="give either kb or cm"):
        LdScores(kb=1, cm=1)
    alone = odd().people.with_columns(father_id=pl.when(pl.col("sample_id") == "s1").then(pl.lit("0")).otherwise(pl.lit("s1")))
    with pytest.raises(DataError, match="LD scores are of three founders at least, and there are 1"):
        run(LdScores(kb=1), {"genotypes": Cohort(odd().rows, alone)})


def test_ld_scores__of_dosages_is_of_the_calls_nearest_to_them() -> None:
    found = run(LdScores(kb=3), {"genotypes": certain(odd())}, 3)[""].frame
    assert found.equals(run(LdScores(kb=3), {"genotypes": odd()}, 3)[""].frame)
    assert found.height > 40
