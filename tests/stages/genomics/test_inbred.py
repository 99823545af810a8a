"""Stages on a haploid genome, of inbred lines with some heterozygous calls, against PLINK.

The numbers are what PLINK v2.00a3.5 (9 Aug 2022) printed for the fileset that `write_lines` writes, with --chr-set -10 and one of
`--glm omit-ref hide-covar cols=+a1freq --covar-variance-standardize` (linear and logistic), `--freq`, `--missing`, `--pca 3`,
`--score W 1 2 3 cols=+scoresums` with and without `no-mean-imputation`, `--bad-ld --indep-pairwise 12 1 0.05`. It refuses --hardy, --het,
--make-king-table and `--glm dominant` there, and chromosomes X, Y and 11. Its `--pca approx` prints eigenvalues half of its own --pca's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError
from pipeline.formats.plink import PlinkInput
from pipeline.stages.genomics.clump import Clump
from pipeline.stages.genomics.ld_prune import LdPrune
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.stages.genomics.polygenic_score import PolygenicScore
from pipeline.stages.genomics.principal_components import PrincipalComponents
from pipeline.stages.genomics.project_components import ProjectComponents
from pipeline.stages.genomics.relatedness import Relatedness
from pipeline.stages.genomics.sample_qc import SampleQc
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.tables.part import Part
from tests.formats.reading import read
from tests.stages.genomics.cohorts import Cohort, run
from tests.stages.genomics.inbred import lines_sheet, write_lines

# variant, ALT's frequency, n, beta, standard error, t, p
LINEAR = """
v0 0.681034 58 0.634685 0.809355 0.784186 0.436295
v3 0.236842 57 0.927574 0.892045 1.03983 0.303053
v10 0.646552 58 -1.05866 0.771175 -1.37278 0.175392
v58 0.616667 60 0.424972 0.729896 0.582236 0.562704
v82 0.594828 58 -0.307909 0.782732 -0.393377 0.695562
v83 0.25 60 0.316396 0.863351 0.366474 0.715368
"""
PRUNED = (
    "0 1 2 4 5 6 8 11 12 15 17 18 19 20 21 22 23 24 25 30 33 34 36 37 38 41 42 43 44 48 49 50 55 56 57 58 59 63 64 65 66 68 69 71 74 76 77 "
    "78 79 81"
)
WEIGHTS = pl.DataFrame(
    {
        "variant_id": ["v0", "v13", "v25", "v30", "v40", "v48", "v60", "v72"],
        "effect_allele": [*"CCACCCCC"],
        "weight": [1.0, 0.5, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    }
)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    reader = PlinkInput.model_validate({"path": write_lines(tmp_path_factory.mktemp("lines")), "chromosomes": -10})
    return Cohort(read(reader), reader.axes()["calls"])


def gwas(**given: Any) -> LinearGwas:
    return LinearGwas.model_validate({"traits": ["height"], "covariates": ["age"], **given})


def test_linear_gwas__of_lines_counts_each_allele_once_and_a_heterozygous_call_half(lines: Cohort) -> None:
    rows = {
        row["variant_id"]: row for row in run(gwas(), {"genotypes": lines, "samples": lines_sheet()}, 3)[""].frame.iter_rows(named=True)
    }
    names = ("effect_allele_frequency", "n", "beta", "standard_error", "statistic", "p_value")
    for variant, *numbers in (line.split() for line in LINEAR.strip().splitlines()):
        np.testing.assert_allclose([rows[variant][name] for name in names], [float(number) for number in numbers], rtol=6e-6)
    assert {row["autosomes"] for row in rows.values()} == {-10}


def test_logistic_gwas__of_lines_is_plinks(lines: Cohort) -> None:
    stage = LogisticGwas.model_validate({"traits": ["tall"], "covariates": ["age"], "screen": 1})
    row = run(stage, {"genotypes": lines, "samples": lines_sheet()}, 3)[""].frame.row(58, named=True)
    printed = {"n": 60, "beta": np.log(1.51718), "standard_error": 0.607084, "statistic": 0.686647, "p_value": 0.492305}
    np.testing.assert_allclose([row[name] for name in printed], [*printed.values()], rtol=8e-6)


def test_scans__of_lines_have_no_dominant_effects(lines: Cohort) -> None:
    found = run(gwas(coding="dominant"), {"genotypes": lines, "samples": lines_sheet()})[""].frame
    assert found["reason"].unique().to_list() == ["dominant and recessive coding need two copies of the chromosome"]
    assert found["beta"].null_count() == found.height


def test_quality__of_lines_has_plinks_rates_and_frequencies_and_what_needs_two_copies_is_null(lines: Cohort) -> None:
    variants = run(VariantQc.model_validate({}), {"genotypes": lines}, 3)[""].frame
    np.testing.assert_allclose(variants["alt_frequency"].head(5), [0.681034, 0.389831, 0.675, 0.236842, 0.423729], rtol=2e-6)
    np.testing.assert_allclose(variants["call_rate"].head(4), [1 - 2 / 60, 1 - 1 / 60, 1, 1 - 3 / 60])
    assert variants["hwe_p_value"].null_count() == variants.height
    measured = run(SampleQc.model_validate({}), {"genotypes": lines}, 3)[""].axes["calls"]
    np.testing.assert_allclose(measured["call_rate"].head(4), [1 - 2 / 84, 1 - 2 / 84, 1 - 1 / 84, 1 - 6 / 84])
    assert measured.select(pl.col("heterozygosity", "inbreeding").is_null().all()).row(0) == (True, True)


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        (
            VariantQc.model_validate({"min_hwe_p": 1e-6}),
            r"min_hwe_p: the Hardy-Weinberg test .* haploid .*`chromosomes` is -10.*Leave min_hwe_p",
        ),
        (
            SampleQc.model_validate({"max_abs_inbreeding": 0.2}),
            r"max_abs_inbreeding: nobody has an inbreeding where all chromosomes are haploid",
        ),
        (Relatedness.model_validate({}), r"KING's kinship, .* has no meaning where all chromosomes are haploid .*principal_components"),
    ],
)
def test_what_needs_two_copies__is_refused_of_lines(lines: Cohort, stage: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        run(stage, {"genotypes": lines})


def test_components__of_lines_are_plinks_and_others_are_placed_among_them(lines: Cohort) -> None:
    axes = run(PrincipalComponents.model_validate({"components": 3}), {"genotypes": lines}, 3)
    np.testing.assert_allclose(axes["eigenvalues"].frame["eigenvalue"], [3.17596, 2.74387, 2.7113], rtol=2e-6)
    first = axes[""].frame.select(pl.selectors.starts_with("pc")).row(0)
    np.testing.assert_allclose(np.abs(first), [0.0255034, 0.33819, 0.0579531], rtol=2e-4)
    whole = without_missing(lines)
    axes = run(PrincipalComponents.model_validate({"components": 3}), {"genotypes": whole}, 3)
    placed = run(ProjectComponents.model_validate({}), {"genotypes": whole, "loadings": axes["loadings"].frame})[""].frame
    assert_frame_equal(placed.drop("variants_used"), axes[""].frame, rel_tol=1e-9)
    drawn = run(PrincipalComponents.model_validate({"components": 3, "method": "randomized", "passes": 40}), {"genotypes": whole}, 3)
    assert_frame_equal(drawn["eigenvalues"].frame.drop("residual"), axes["eigenvalues"].frame.drop("residual"), rel_tol=1e-6)


def without_missing(cohort: Cohort) -> Cohort:
    """The same with REF for every missing call."""
    calls = cohort.rows.arrays["calls"]
    missing = calls & calls >> 1 & 0x55
    return Cohort(Part(cohort.rows.frame, {"calls": calls ^ missing * 3}), cohort.people)


def test_scores_and_pruning__of_lines_are_plinks(lines: Cohort) -> None:
    pruned = run(LdPrune.model_validate({"window_variants": 12, "r2": 0.05}), {"genotypes": lines}, 3)[""].frame
    assert pruned["variant_id"].to_list() == [f"v{number}" for number in PRUNED.split()]
    for missing, sums, averages in (
        ("mean", [6, 5.5, 2.5, 6.31897], [0.75, 0.6875, 0.3125, 0.789871]),
        ("ignore", [6, 5.5, 2.5, 6], [0.75, 0.6875, 0.3125, 0.857143]),
    ):
        scores = run(PolygenicScore.model_validate({"missing": missing}), {"genotypes": lines, "weights": WEIGHTS}, 3)[""].frame
        np.testing.assert_allclose(scores["score_sum"].head(4), sums, rtol=2e-6)
        np.testing.assert_allclose(scores["score_average"].head(4), averages, rtol=2e-6)


def test_scaffolds__of_a_haploid_genome_count_as_its_chromosomes_do(lines: Cohort) -> None:
    frame = lines.rows.frame.with_columns(pl.col("chromosome").replace({"9": "0", "10": "scaffold_1"}))
    scaffolds = Cohort(Part(frame, lines.rows.arrays), lines.people)
    for stage, more in ((gwas(), {"samples": lines_sheet()}), (PrincipalComponents.model_validate({"components": 3}), {})):
        tables = [run(stage, {"genotypes": cohort, **more})[""].frame for cohort in (lines, scaffolds)]
        assert_frame_equal(*(table.drop("chromosome", strict=False) for table in tables))


def test_clumps__of_lines_leave_heterozygous_calls_out(lines: Cohort) -> None:
    found = run(gwas(), {"genotypes": lines, "samples": lines_sheet()})[""].frame
    clumps = run(Clump.model_validate({"p1": 0.9, "p2": 0.95, "r2": 0.01}), {"associations": found, "genotypes": lines})
    index, others = (clumps["ld"].frame[name] for name in ("index_variant_id", "variant_id"))
    codes = dict(zip(lines.rows.frame["variant_id"], lines.codes.astype(float), strict=True))
    for one, other, r2 in zip(index, others, clumps["ld"].frame["r2"], strict=True):
        whole = np.isin(codes[one], (0, 2)) & np.isin(codes[other], (0, 2))
        assert r2 == pytest.approx(np.corrcoef(codes[one][whole], codes[other][whole])[0, 1] ** 2, abs=1e-9)
