"""project_components."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import take_samples
from pipeline.stages.genomics.principal_components import PrincipalComponents
from pipeline.stages.genomics.project_components import ProjectComponents
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import Cohort, Found, hapmap3, run, same_for_any_parts, small_cohort, with_calls

EXAMPLES = [
    StageExample(
        ProjectComponents(),
        {"genotypes": examples.GENOTYPES, "loadings": examples.LOADINGS},
        examples.AXES,
        {"pc1": examples.P_VALUES, "pc2": examples.P_VALUES},
    ),
    StageExample(
        ProjectComponents(),
        {"genotypes": examples.IMPUTED, "loadings": examples.LOADINGS},
        examples.IMPUTED_AXES,
        {"pc1": examples.P_VALUES, "pc2": examples.P_VALUES},
    ),
]

AXES = ["pc1", "pc2", "pc3"]

# PLINK 2.00a3.5 on HapMap 3's autosomal variants that nobody misses: --pca 4 allele-wts of every second person from the first on, then
# --score 2 5 variance-standardize of the others with these weights and frequencies; PC1_SUM to PC4_SUM of some of them.
PLINK = {
    "NA19835": (1142.69, 385.348, 223.388, 530.531),
    "NA12889": (-7.5336, -1514.89, 340.83, 32.508),
    "NA20875": (-584.201, -772.365, -1546.55, -12.7945),
    "NA21599": (873.57, 298.172, 96.8833, -770.536),
    "NA18862": (1345.05, 704.272, 100.71, 602.422),
}


def people_of(cohort: Cohort, index: NDArray[np.int64]) -> Cohort:
    calls = take_samples(cohort.rows.arrays["calls"], cohort.people.height, index)
    return Cohort(cohort.rows.replaced(calls=calls), cohort.people[index])


def variants_of(cohort: Cohort, chosen: Any) -> Cohort:
    rows = np.flatnonzero(chosen)
    return Cohort(Part(cohort.rows.frame[rows], {"calls": cohort.rows.arrays["calls"][rows]}), cohort.people)


def full_cohort() -> Cohort:
    """The small cohort with no missing call."""
    codes = small_cohort().codes.copy()
    codes[codes == 3] = 1
    return with_calls(small_cohort(), codes)


@cache
def found_axes() -> dict[str, Found]:
    return run(PrincipalComponents(components=3, all_chromosomes=True), {"genotypes": full_cohort()})


def loadings_of() -> pl.DataFrame:
    return found_axes()["loadings"].frame


def places(cohort: Cohort, loadings: pl.DataFrame, parts: int = 2) -> Found:
    return run(ProjectComponents(), {"genotypes": cohort, "loadings": loadings}, parts)[""]


@needs_data
def test_project_components__place_people_where_plink_does() -> None:
    everyone = hapmap3()
    full = variants_of(everyone, (everyone.codes < 3).all(axis=1))
    known, new = (people_of(full, np.arange(first, full.people.height, 2)) for first in (0, 1))
    axes = run(PrincipalComponents(components=4), {"genotypes": known}, 2)
    eigenvalues, variants = axes["eigenvalues"].frame["eigenvalue"].to_numpy(), axes[""].counts["variants_used"]
    placed = places(new, axes["loadings"].frame).frame
    # PLINK's weights are of both alleles and of unit length: its sums are ours times the number of variants and the axis' deviation.
    sums = placed.select("pc1", "pc2", "pc3", "pc4").to_numpy() * variants * np.sqrt(eigenvalues)
    rows = [placed["sample_id"].to_list().index(name) for name in PLINK]
    printed = np.array(list(PLINK.values()))
    signs = np.sign((sums[rows] * printed).sum(axis=0))
    # PLINK read six digits of every weight and frequency.
    np.testing.assert_allclose(signs * sums[rows], printed, rtol=5e-6, atol=1e-3)


def test_project_components__put_the_people_of_the_axes_where_they_were() -> None:
    found = places(full_cohort(), loadings_of())
    np.testing.assert_allclose(found.frame.select(AXES).to_numpy(), found_axes()[""].frame.select(AXES).to_numpy(), atol=1e-12)
    assert found.counts == {"loadings_in": 59, "loadings_unmatched": 0, "other_alleles": 0, "loadings_out": 59}
    assert found.frame["variants_used"].unique().to_list() == [59]


def test_project_components__are_the_same_in_any_parts_and_processes(workers: ClusterSession) -> None:
    found = same_for_any_parts(ProjectComponents(), {"genotypes": small_cohort(), "loadings": loadings_of()}, workers)[""].frame
    assert found.schema == pl.Schema({"sample_id": pl.String(), **dict.fromkeys(AXES, pl.Float64()), "variants_used": pl.Int64()})
    assert found["variants_used"].to_list() == (np.delete(small_cohort().codes, 57, axis=0) < 3).sum(axis=0).tolist()


def test_project_components__turn_round_swapped_alleles_and_leave_out_others() -> None:
    cohort = full_cohort()
    turned = np.arange(60) % 3 == 0
    codes = np.where(turned[:, None], 2 - cohort.codes, cohort.codes).astype(np.uint8)
    frame = cohort.rows.frame
    swapped = frame.with_columns(
        ref=pl.when(pl.Series(turned)).then("alt").otherwise("ref"), alt=pl.when(pl.Series(turned)).then("ref").otherwise("alt")
    )
    found = places(with_calls(Cohort(cohort.rows.replaced(swapped), cohort.people), codes), loadings_of())
    np.testing.assert_allclose(found.frame.select(AXES).to_numpy(), found_axes()[""].frame.select(AXES).to_numpy(), atol=1e-12)
    strange = frame.with_columns(alt=pl.when(pl.col("variant_id") == "rs4").then(pl.lit("N")).otherwise("alt"))[1:]
    part = Part(strange, {"calls": cohort.rows.arrays["calls"][1:]})
    less = places(Cohort(part, cohort.people), loadings_of())
    assert less.counts == {"loadings_in": 59, "loadings_unmatched": 1, "other_alleles": 1, "loadings_out": 57}
    used = loadings_of().filter(~pl.col("variant_id").is_in(["rs0", "rs4"]))
    stretch = (loadings_of().select(AXES).to_numpy() ** 2).sum(axis=0) / (used.select(AXES).to_numpy() ** 2).sum(axis=0)
    alone = places(cohort, used).frame.select(AXES).to_numpy()
    np.testing.assert_allclose(less.frame.select(AXES).to_numpy(), alone * stretch, atol=1e-12)


def test_project_components__have_no_place_without_calls_or_on_an_axis_without_loadings() -> None:
    codes = full_cohort().codes.copy()
    codes[:, 7] = 3
    loadings = loadings_of().with_columns(pc2=pl.lit(None, pl.Float64))
    found = places(with_calls(small_cohort(), codes), loadings).frame
    assert found.row(7) == ("p7", None, None, None, 0)
    assert found["pc2"].null_count() == 41
    assert found["pc1"].null_count() == 1


def test_project_components__refuse_loadings_that_do_not_fit() -> None:
    loadings = loadings_of()
    cases = [
        (loadings.with_columns(variant_id="x" + pl.col("variant_id")), r"none of the 59 loadings is in the genotype table; .*'xrs0'"),
        (loadings.with_columns(alt=pl.lit("N")), "none of the 59 loadings has its alleles in the genotype table"),
        (
            pl.concat([loadings, loadings[3:4].with_columns(ref="alt", alt="ref")]),
            "the loadings name 'rs3' with the same alleles more than",
        ),
        (loadings.with_columns(alt_frequency=pl.lit(1.0)), "the loadings give 'rs0' an alt_frequency of 1.0"),
        (loadings.with_columns(alt_frequency=pl.lit(None, pl.Float64)), "the loadings give 'rs0' an alt_frequency of None"),
    ]
    for given, message in cases:
        with pytest.raises(DataError, match=f"stage tested: {message}"):
            places(full_cohort(), given)


def test_project_components__refuse_a_variant_that_the_genotypes_have_twice() -> None:
    cohort = full_cohort()
    rows = np.array([*range(60), 2])
    twice = Cohort(Part(cohort.rows.frame[rows], {"calls": cohort.rows.arrays["calls"][rows]}), cohort.people)
    with pytest.raises(DataError, match="stage tested: 1 loadings meet several variants of the genotype table each, such as 'rs2'"):
        places(twice, loadings_of())


def test_project_components__refuse_tables_without_their_columns() -> None:
    cohort, loadings = small_cohort(), loadings_of()
    cases: list[tuple[Any, pl.DataFrame, str]] = [
        (cohort.rows.frame, loadings, "the table given as 'genotypes' has no calls"),
        (cohort.rows, loadings.drop(AXES), "the table given as 'loadings' has no columns pc1, pc2"),
        (cohort.rows, loadings.drop("alt"), "the table given as 'loadings' has no column 'alt'"),
        (cohort.rows, loadings.cast({"pc1": pl.String}), "column 'pc1' is String, and numbers are needed"),
    ]
    for genotypes, given, message in cases:
        with pytest.raises(StageError, match=message):
            plan_stage(ProjectComponents(), {"genotypes": genotypes, "loadings": given}, {"calls": cohort.people})
