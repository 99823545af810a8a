"""principal_components."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from pipeline.errors import DataError, RunError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.principal_components import PrincipalComponents
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import assert_printed, floats, needs_data, read_columns
from tests.stages.genomics.cohorts import HAPMAP3, Cohort, assert_found_equal, hapmap3, run, same_for_any_parts, small_cohort, with_calls

AXIS_LIMITS = {"pc1": examples.EIGENVECTORS, "pc2": examples.EIGENVECTORS, "eigenvalue": examples.P_VALUES}
EXAMPLES = [
    StageExample(PrincipalComponents(components=2), {"genotypes": examples.GENOTYPES}, examples.AXES, AXIS_LIMITS),
    StageExample(
        PrincipalComponents(components=2, method="randomized"),
        {"genotypes": examples.GENOTYPES},
        examples.AXES,
        AXIS_LIMITS | {"residual": examples.EIGENVECTORS},
    ),
    StageExample(PrincipalComponents(components=2), {"genotypes": examples.IMPUTED}, examples.IMPUTED_AXES, AXIS_LIMITS),
]

Method = Literal["exact", "randomized"]
METHODS: tuple[Method, ...] = ("exact", "randomized")


def pca(components: int = 10, *, all_chromosomes: bool = False, method: Method = "exact", passes: int = 10) -> PrincipalComponents:
    return PrincipalComponents(components=components, all_chromosomes=all_chromosomes, method=method, passes=passes)


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


@needs_data
def test_principal_components__randomized_are_what_plink_approximated_for_hapmap3() -> None:
    found = run(pca(method="randomized"), {"genotypes": hapmap3()}, 3)
    assert_printed(found["eigenvalues"].frame["eigenvalue"], np.array((HAPMAP3 / "pca_approx.eigenval").read_text().split()), 1.4e-6)
    table = read_columns(HAPMAP3 / "pca_approx.eigenvec")
    together = [abs(np.corrcoef(found[""].frame[f"pc{i}"], floats(table[f"PC{i}"]))[0, 1]) for i in range(1, 11)]
    assert min(together[:5]) > 1 - 1e-10
    assert min(together) > 1 - 1e-6
    residual = found["eigenvalues"].frame["residual"]
    assert residual[0] < 1e-12
    assert residual[9] < 1e-3
    assert found[""].counts == {"variants_used": 14266, "people": 957}


@needs_data
def test_principal_components__randomized_are_near_the_exact_ones_of_hapmap3() -> None:
    exact, near = (run(pca(method=method), {"genotypes": hapmap3()})[""].frame for method in METHODS)
    together = [(exact[f"pc{i}"] * near[f"pc{i}"]).sum() for i in range(1, 11)]
    # The rest is in the missing calls: axes 8 to 10 have eigenvalues of 2.31, 2.26 and 2.21.
    assert min(together[:7]) > 0.9999
    assert min(together) > 0.999


@pytest.fixture
def in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix in tiles, however few people there are."""
    monkeypatch.setattr("pipeline.stages.genomics.principal_components.WHOLE", 20)
    monkeypatch.setattr("pipeline.stages.genomics._tiles._LEAST", 32)


@needs_data
@pytest.mark.usefixtures("in_tiles")
def test_principal_components__in_tiles_are_what_plink_printed_for_hapmap3() -> None:
    found = run(pca(), {"genotypes": hapmap3()}, 4)
    assert_printed(found["eigenvalues"].frame["eigenvalue"], np.array((HAPMAP3 / "pca.eigenval").read_text().split()), 1.4e-6)
    table = read_columns(HAPMAP3 / "pca.eigenvec")
    assert min(abs(np.corrcoef(found[""].frame[f"pc{i}"], floats(table[f"PC{i}"]))[0, 1]) for i in range(1, 11)) > 0.999999999
    assert (found["eigenvalues"].frame["residual"] <= 2e-10).all()


@pytest.mark.usefixtures("in_tiles")
def test_principal_components__in_tiles_are_those_of_the_whole_matrix(workers: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    found = same_for_any_parts(pca(4), {"genotypes": small_cohort()}, workers)
    monkeypatch.undo()
    assert_found_equal(found, run(pca(4), {"genotypes": small_cohort()}), "tiles")


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_principal_components__are_the_same_in_any_parts_and_processes(wide: bool, method: Method, workers: ClusterSession) -> None:
    found = same_for_any_parts(pca(4, all_chromosomes=wide, method=method), {"genotypes": small_cohort()}, workers)
    axes = {f"pc{i}": pl.Float64() for i in range(1, 5)}
    assert found[""].frame.schema == pl.Schema({"sample_id": pl.String(), **axes})
    assert found["eigenvalues"].frame.columns == ["component", "eigenvalue", "residual"]
    assert found["eigenvalues"].frame["component"].to_list() == [1, 2, 3, 4]
    assert (found["eigenvalues"].frame["residual"] < 1e-6).all()
    assert found[""].frame["sample_id"].to_list() == small_cohort().people["sample_id"].to_list()


def test_principal_components__have_loadings_that_give_them_back_where_no_call_is_missing() -> None:
    rng = np.random.default_rng(3)
    calls = rng.binomial(2, rng.uniform(0.2, 0.8, (60, 1)), (60, 23)).astype(np.uint8)
    cohort = with_calls(small_cohort(60, 23), calls)
    for method in METHODS:
        found = run(pca(3, all_chromosomes=True, method=method), {"genotypes": cohort}, 2)
        loadings = found["loadings"].frame
        assert loadings.columns == [*cohort.rows.frame.columns, "alt_frequency", "pc1", "pc2", "pc3"]
        f = calls.mean(axis=1, keepdims=True) / 2
        assert np.array_equal(loadings["alt_frequency"], f[:, 0])
        standard = (calls - 2 * f) / np.sqrt(2 * f * (1 - f))
        again = standard.T @ loadings.select("pc1", "pc2", "pc3").to_numpy()
        np.testing.assert_allclose(again, found[""].frame.select("pc1", "pc2", "pc3").to_numpy(), atol=1e-8)


def test_principal_components__have_no_loadings_on_an_axis_without_variance() -> None:
    cohort = with_calls(small_cohort(8, 3), np.array([[0, 1, 2], [2, 1, 1]] * 4, np.uint8))
    loadings = run(pca(3, all_chromosomes=True), {"genotypes": cohort})["loadings"].frame
    assert loadings["pc3"].null_count() == 8
    assert loadings["pc2"].null_count() == 0


def test_principal_components__randomized_depend_on_the_seed_alone_and_say_how_far_they_are() -> None:
    first, again = (run(pca(4, method="randomized", passes=2), {"genotypes": small_cohort()}) for _ in range(2))
    assert first[""].frame.equals(again[""].frame)
    exact = np.linalg.eigvalsh(mean_imputed(small_cohort()))[::-1][:4]
    values, residual = first["eigenvalues"].frame["eigenvalue"].to_numpy(), first["eigenvalues"].frame["residual"].to_numpy()
    assert (values <= exact * (1 + 1e-12)).all()
    # An eigenvalue lies within |Gv - value v| of each approximate one.
    for value, off in zip(values, residual, strict=True):
        assert np.abs(np.linalg.eigvalsh(mean_imputed(small_cohort())) - value).min() <= off * value
    assert residual.max() > 1e-6


def mean_imputed(cohort: Cohort) -> NDArray[np.float64]:
    """The relationship matrix of the autosomes with missing calls at their mean, by definition."""
    codes = cohort.codes[cohort.rows.frame["chromosome"].is_in(["1", "chr2"]).to_numpy()].astype(float)
    codes[codes == 3] = np.nan
    codes = codes[[len(set(row[~np.isnan(row)])) > 1 for row in codes]]
    f = np.nanmean(codes, axis=1, keepdims=True) / 2
    standard = np.nan_to_num((codes - 2 * f) / np.sqrt(2 * f * (1 - f)))
    product: NDArray[np.float64] = standard.T @ standard / len(standard)
    return product


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
    from sklearn.decomposition import PCA

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
    everyone = [pca(3), pca(3, method="randomized")]
    for rows in (cohort.rows.frame["chromosome"] == "X", cohort.rows.frame["variant_id"] == "rs57", pl.Series([False] * 60)):
        for stage in everyone:
            with pytest.raises(DataError, match=r"stage tested: no autosomal variant varies among these people; .*all_chromosomes: true"):
                run(stage, {"genotypes": part_of(cohort, rows)})


def test_principal_components__refuse_more_components_than_people() -> None:
    for method in METHODS:
        with pytest.raises(DataError, match="stage tested: 42 components of 41 people; ask for at most as many as people"):
            run(pca(42, method=method), {"genotypes": small_cohort()})


def test_principal_components__randomized_refuse_a_person_without_calls() -> None:
    codes = small_cohort().codes.copy()
    codes[:, 5] = 3
    with pytest.raises(DataError, match=r"stage tested: 'p5' has no called variant that varies\. .* low call rate"):
        run(pca(3, method="randomized"), {"genotypes": with_calls(small_cohort(), codes)})


def test_principal_components__refuse_more_people_than_a_matrix_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.genomics.principal_components.MOST_IN_TILES", 40)
    with pytest.raises(DataError, match=r"exact principal components are for 40 people at most, and these are 41\. Use method: randomized"):
        run(pca(3), {"genotypes": small_cohort()})


@pytest.mark.parametrize("whole", [100, 2])
def test_principal_components__refuse_people_who_share_no_variant(whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.genomics.principal_components.WHOLE", whole)
    cohort = small_cohort(8, 3)
    calls = pack(np.array([[0, 3, 1], [3, 1, 2]] * 4, np.uint8))
    with pytest.raises(DataError, match=r"stage tested: 'p0' shares no .* with 1 of 3 people, .* Remove people with a low call rate"):
        run(pca(1, all_chromosomes=True), {"genotypes": Cohort(cohort.rows.replaced(calls=calls), cohort.people)})


def test_principal_components__refuse_zero_components_and_a_table_without_calls() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        pca(0)
    with pytest.raises(StageError, match="the table given as 'genotypes' has no calls"):
        plan_stage(pca(), {"genotypes": small_cohort().rows.frame})


def test_exact_components__ask_before_every_product_whether_their_run_still_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        """As a run that was given up."""
        raise RunError("its run was interrupted")

    monkeypatch.setattr("pipeline.stages.genomics._relationships.go_on", interrupted)
    with pytest.raises(RunError, match="its run was interrupted"):
        run(PrincipalComponents.model_validate({"components": 2}), {"genotypes": small_cohort()})
