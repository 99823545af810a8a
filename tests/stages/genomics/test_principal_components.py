"""principal_components."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from sklearn.decomposition import PCA

from pipeline.errors import DataError
from pipeline.kernels.genotypes import pack
from pipeline.part import Part
from pipeline.session import ClusterSession
from pipeline.stage import StageError
from pipeline.stages.genomics.principal_components import PrincipalComponents
from tests.harness import plan_stage
from tests.kernels.plink_files import assert_printed, floats, needs_data, read_columns
from tests.stages.genomics.cohorts import HAPMAP3, Cohort, hapmap3, run, same_for_any_parts, small_cohort


def pca(components: int = 10, *, all_chromosomes: bool = False) -> PrincipalComponents:
    return PrincipalComponents(components=components, all_chromosomes=all_chromosomes)


def part_of(cohort: Cohort, rows: pl.Series) -> Cohort:
    index = rows.arg_true().to_numpy()
    return Cohort(Part(cohort.rows.frame[index], {"calls": cohort.rows.arrays["calls"][index]}), cohort.people)


@needs_data
def test_principal_components__are_what_plink_printed_for_hapmap3() -> None:
    found = run(pca(), {"genotypes": hapmap3()}, 4)
    assert_printed(found["eigenvalues"].frame["eigenvalue"], np.array((HAPMAP3 / "pca.eigenval").read_text().split()), 1.4e-6)
    table = read_columns(HAPMAP3 / "pca.eigenvec")
    axes = found[""].frame
    assert axes["sample_id"].to_list() == table["IID"].tolist()
    for number in range(1, 11):
        ours, printed = axes[f"pc{number}"].to_numpy(), floats(table[f"PC{number}"])
        assert abs(np.corrcoef(ours, printed)[0, 1]) > 0.999999999
    assert found[""].counts == {"variants_used": 14266, "people": 957}


@pytest.mark.parametrize("wide", [False, True])
def test_principal_components__are_the_same_in_any_parts_and_processes(wide: bool, workers: ClusterSession) -> None:
    found = same_for_any_parts(pca(4, all_chromosomes=wide), {"genotypes": small_cohort()}, workers)
    axes = {f"pc{i}": pl.Float64() for i in range(1, 5)}
    assert found[""].frame.schema == pl.Schema({"sample_id": pl.String(), **axes})
    assert found["eigenvalues"].frame.schema == pl.Schema({"component": pl.Int64(), "eigenvalue": pl.Float64()})
    assert found["eigenvalues"].frame["component"].to_list() == [1, 2, 3, 4]
    assert found[""].frame["sample_id"].to_list() == small_cohort().people["sample_id"].to_list()


def test_principal_components__look_at_autosomes_alone_unless_told_otherwise() -> None:
    cohort = small_cohort()
    autosomal = cohort.rows.frame["chromosome"].is_in(["1", "chr2"])
    narrow, alone = (run(pca(3), {"genotypes": data})[""] for data in (cohort, part_of(cohort, autosomal)))
    assert narrow.frame.equals(alone.frame)
    # Two of the 32 do not vary or have no call.
    assert narrow.counts["variants_used"] == int(autosomal.sum()) - 2
    wide = run(pca(3, all_chromosomes=True), {"genotypes": cohort})[""]
    assert wide.counts["variants_used"] == 58
    assert not np.allclose(wide.frame["pc1"], narrow.frame["pc1"], atol=1e-3)


def test_principal_components__equal_those_of_scikit_learn_without_missing_calls() -> None:
    rng = np.random.default_rng(3)
    calls = rng.binomial(2, rng.uniform(0.2, 0.8, (50, 1)), (50, 23)).astype(np.uint8)
    cohort = small_cohort(50, 23)
    found = run(pca(3, all_chromosomes=True), {"genotypes": Cohort(cohort.rows.replaced(calls=pack(calls)), cohort.people)}, 2)
    frequency = calls.mean(axis=1, keepdims=True) / 2
    standard = ((calls - 2 * frequency) / np.sqrt(2 * frequency * (1 - frequency))).T
    expected = PCA(3, svd_solver="full").fit(standard)
    np.testing.assert_allclose(found["eigenvalues"].frame["eigenvalue"], expected.singular_values_**2 / 50, rtol=1e-10)
    scores = expected.transform(standard) / expected.singular_values_
    ours = found[""].frame.select("pc1", "pc2", "pc3").to_numpy()
    np.testing.assert_allclose(np.abs((scores * ours).sum(axis=0)), 1, rtol=1e-10)


def test_principal_components__refuse_a_table_where_no_autosome_varies() -> None:
    cohort = small_cohort()
    for rows in (cohort.rows.frame["chromosome"] == "X", cohort.rows.frame["variant_id"] == "rs57", pl.Series([False] * 60)):
        with pytest.raises(DataError, match=r"stage tested: no autosomal variant varies among these people; .*all_chromosomes: true"):
            run(pca(3), {"genotypes": part_of(cohort, rows)})


def test_principal_components__refuse_more_components_than_people() -> None:
    with pytest.raises(DataError, match="stage tested: 42 components of 41 people; ask for at most as many as people"):
        run(pca(42), {"genotypes": small_cohort()})


def test_principal_components__refuse_people_who_share_no_variant() -> None:
    cohort = small_cohort(8, 3)
    calls = pack(np.array([[0, 3, 1], [3, 1, 2]] * 4, np.uint8))
    with pytest.raises(DataError, match=r"stage tested: 'p0' shares no .* with 1 of 3 people, .* Remove people with a low call rate"):
        run(pca(1, all_chromosomes=True), {"genotypes": Cohort(cohort.rows.replaced(calls=calls), cohort.people)})


def test_principal_components__refuse_zero_components_and_a_table_without_calls() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        pca(0)
    with pytest.raises(StageError, match="the table given as 'genotypes' has no calls"):
        plan_stage(pca(), {"genotypes": small_cohort().rows.frame})
