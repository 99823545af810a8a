"""Stages on another species than man: a herd of cattle, whose chromosomes 23 to 29 are autosomes, against PLINK, OLS and other names.

The numbers are what PLINK v2.00a3.5 (9 Aug 2022) printed for the fileset that `write_herd` writes, with --cow and one of
`--glm omit-ref hide-covar cols=+a1freq` (`--covar-variance-standardize`), `--het`, `--autosome --make-king-table`, `--pca 3`, `--hardy`,
`--missing`, `--freq`, `--score W 1 2 3 no-mean-imputation cols=+scoresums`, `--bad-ld --indep-pairwise 12 1 0.05`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from polars.testing import assert_frame_equal

from pipeline.api import load
from pipeline.errors import DataError, InputError, JobError
from pipeline.formats.gwas_ssf import GwasSsfOutput
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.formats.plink import PlinkInput, PlinkOutput
from pipeline.stages.genomics.annotate_genes import AnnotateGenes
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
from pipeline.tables.part import Part, Schema
from tests.formats.reading import read
from tests.outputs import write_output
from tests.stages.genomics.cohorts import Cohort, run
from tests.stages.genomics.herd import herd_sheet, write_herd

# variant, its chromosome, ALT's frequency, n, beta, standard error, t, p
GLM = """
v0 1 0.166667 60 -0.115584 0.706046 -0.163706 0.870542
v24 23 0.708333 60 0.101673 0.555583 0.183003 0.855445
v36 24 0.368421 57 0.418098 0.534719 0.781901 0.437688
v60 26 0.474576 59 0.654106 0.524099 1.24806 0.217203
v61 26 0.338983 59 -0.0963139 0.496124 -0.194133 0.846774
v72 29 0.422414 58 -0.198139 0.568354 -0.348618 0.728707
v84 X 0.482759 58 -0.0130246 0.403606 -0.0322706 0.974375
v85 X 0.466102 59 -0.234889 0.436703 -0.537869 0.592837
v96 Y 0.1 30 -1.21961 1.75711 -0.694102 0.493547
v97 Y 0.366667 30 -1.37967 1.11858 -1.23341 0.228053
v108 MT 0.709091 55 0.291231 0.795119 0.366274 0.715647
v109 MT 0.535714 56 -0.970424 0.748836 -1.29591 0.200622
"""
PRUNED = (
    "1 2 3 5 6 8 10 11 14 15 16 17 18 19 20 22 23 24 27 28 30 31 33 34 36 37 41 42 43 46 48 50 51 52 53 56 58 60 61 63 64 65 66 68 69 70 "
    "71 72 73 74 75 77 78 83 84 85 86 87 88 90 91 93 94 103 104 105 107 109 110 111 113 115 116 118"
)
AS_HUMAN = {"22": "2", "23": "3", "24": "4", "25": "5", "26": "6", "29": "9"}


def cohort_of(reader: PlinkInput | ParquetInput) -> Cohort:
    return Cohort(read(reader), reader.axes()["calls"])


@pytest.fixture(scope="module")
def herd(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return cohort_of(PlinkInput.model_validate({"path": write_herd(tmp_path_factory.mktemp("herd")), "chromosomes": "cow"}))


def gwas(**given: Any) -> LinearGwas:
    return LinearGwas.model_validate({"traits": ["milk"], "covariates": ["age"], **given})


def test_linear_gwas__of_a_herd_is_what_plink_printed_on_every_chromosome(herd: Cohort) -> None:
    rows = {row["variant_id"]: row for row in run(gwas(), {"genotypes": herd, "samples": herd_sheet()}, 3)[""].frame.iter_rows(named=True)}
    names = ("effect_allele_frequency", "n", "beta", "standard_error", "statistic", "p_value")
    for variant, chromosome, *numbers in (line.split() for line in GLM.strip().splitlines()):
        assert rows[variant]["chromosome"] == chromosome
        np.testing.assert_allclose([rows[variant][name] for name in names], [float(number) for number in numbers], rtol=6e-6)


def test_linear_gwas__beta_beyond_chromosome_22_is_that_of_least_squares(herd: Cohort) -> None:
    found = run(gwas(), {"genotypes": herd, "samples": herd_sheet()})[""].frame
    sheet, compared = herd_sheet(), 0
    for row, codes in zip(found.iter_rows(named=True), herd.codes, strict=True):
        if row["chromosome"] in {"23", "24", "25", "26", "29"}:
            called = codes != 3
            design = sm.add_constant(np.column_stack([codes, sheet["age"].to_numpy()])[called].astype(float))
            fit = sm.OLS(sheet["milk"].to_numpy()[called], design).fit()
            np.testing.assert_allclose([row["beta"], row["standard_error"]], [fit.params[1], fit.bse[1]], rtol=1e-9)
            compared += 1
    assert compared == 60


def test_quality__of_a_herd_is_plinks(herd: Cohort) -> None:
    people = run(SampleQc.model_validate({}), {"genotypes": herd}, 3)[""].axes["calls"]
    for place, (hom, expected, called, inbreeding) in {
        0: (39, 45.9513, 81, -0.198332),
        1: (40, 45.4644, 80, -0.158225),
        2: (46, 45.136, 80, 0.0247811),
        59: (46, 45.8981, 81, 0.00290362),
    }.items():
        assert people["inbreeding"][place] == pytest.approx(inbreeding, rel=6e-6), expected
        assert people["heterozygosity"][place] == pytest.approx(1 - hom / called)
    assert people["call_rate"][:3].to_list() == pytest.approx([1 - 5 / 120, 1 - 5 / 108, 1 - 4 / 120])
    variants = run(VariantQc.model_validate({}), {"genotypes": herd}, 3)[""].frame
    measured = {row["variant_id"]: row for row in variants.iter_rows(named=True)}
    printed = {"v60": 0.606111, "v61": 0.243231, "v72": 0.593539, "v84": 0.531964}
    assert {name: measured[name]["hwe_p_value"] for name in printed} == pytest.approx(printed, rel=6e-6)
    printed = {"v60": 0.474576, "v24": 0.708333, "v84": 0.471264, "v108": 0.709091}
    assert {name: measured[name]["alt_frequency"] for name in printed} == pytest.approx(printed, rel=6e-6)
    assert (measured["v97"]["call_rate"], measured["v97"]["hwe_p_value"]) == (1.0, None)


def test_ancestry_and_kinship__of_a_herd_are_plinks(herd: Cohort) -> None:
    pairs = run(Relatedness.model_validate({"min_kinship": -1}), {"genotypes": herd}, 3)["pairs"].frame
    found = {(row[0], row[1]): row[2:] for row in pairs.iter_rows()}
    assert found["a1", "a0"] == pytest.approx((77, 0.220779, 0.0519481, 0.115385), rel=6e-6)
    assert found["a59", "a58"] == pytest.approx((79, 0.177215, 0.0632911, 0.0530303), rel=6e-6)
    for least, listed in {0: 618, 0.125: 78, -0.125: 1238}.items():  # --king-table-filter: 42, 6 and 13 of them lie at it
        stage = Relatedness.model_validate({"min_kinship": least, "max_kinship": 0.2})
        assert run(stage, {"genotypes": herd}, 3)["pairs"].frame.height == listed
    axes = run(PrincipalComponents.model_validate({"components": 3}), {"genotypes": herd}, 3)
    np.testing.assert_allclose(axes["eigenvalues"].frame["eigenvalue"], [3.36283, 3.20332, 2.82259], rtol=6e-6)
    first = axes[""].frame.select(pl.selectors.starts_with("pc")).row(0)
    np.testing.assert_allclose(np.abs(first), [0.0648122, 0.0807982, 0.0147889], rtol=1e-4)
    assert set(axes["loadings"].frame["chromosome"]) == {"1", "22", "23", "24", "25", "26", "29"}


def test_pruning_and_scores__of_a_herd_are_plinks(herd: Cohort) -> None:
    pruned = run(LdPrune.model_validate({"window_variants": 12, "r2": 0.05}), {"genotypes": herd}, 3)[""].frame
    assert pruned["variant_id"].to_list() == [f"v{number}" for number in PRUNED.split()]
    weights = pl.DataFrame(
        {"variant_id": ["v0", "v60", "v61", "v84", "v108"], "effect_allele": [*"CCACC"], "weight": [1.0, 0.5, 2.0, 1.0, 1.0]}
    )
    scores = run(PolygenicScore.model_validate({"missing": "ignore"}), {"genotypes": herd, "weights": weights}, 3)[""].frame
    assert scores["score_sum"].gather([0, 1, 58, 59]).to_list() == [5.5, 7.0, 1.0, 4.5]
    np.testing.assert_allclose(scores["score_average"].gather([0, 1, 58, 59]), [0.611111, 0.777778, 0.111111, 0.5], rtol=6e-6)


SHEET = herd_sheet().with_columns(ill=(pl.col("milk") > 5).cast(pl.Int8))
GENES = pl.DataFrame({"chromosome": ["26", "MT", "X"], "start": [61_500] * 3, "end": [90_000] * 3, "gene_name": ["on26", "onMT", "onX"]})
STAGES: dict[str, tuple[Any, str]] = {
    "variant_qc": (VariantQc.model_validate({"min_hwe_p": 0.1}), ""),
    "sample_qc": (SampleQc.model_validate({"max_abs_inbreeding": 0.15}), ""),
    "relatedness": (Relatedness.model_validate({}), ""),
    "principal_components": (PrincipalComponents.model_validate({"components": 3}), ""),
    "randomized": (PrincipalComponents.model_validate({"components": 2, "method": "randomized"}), ""),
    "ld_prune": (LdPrune.model_validate({"window_kb": 8, "r2": 0.05}), ""),
    "linear_gwas": (gwas(), "samples"),
    "dominant": (gwas(coding="dominant"), "samples"),
    "logistic_gwas": (LogisticGwas.model_validate({"traits": ["ill"], "screen": 1}), "samples"),
    "clump": (Clump.model_validate({"p1": 0.5, "p2": 0.9, "r2": 0.01}), "associations"),
    "polygenic_score": (PolygenicScore.model_validate({}), "weights"),
    "project_components": (ProjectComponents.model_validate({}), "loadings"),
    "annotate_genes": (AnnotateGenes.model_validate({}), "genes"),
}


def renamed(frame: pl.DataFrame) -> pl.DataFrame:
    """As if it were of people: chromosomes 22 to 29 by other numbers, and no column that tells of the species."""
    frame = frame.drop("autosomes", strict=False)
    return frame.with_columns(pl.col("chromosome").replace(AS_HUMAN)) if "chromosome" in frame.columns else frame


def beside(role: str, cohort: Cohort) -> dict[str, Any]:
    """What a stage reads beside the genotypes."""
    if role == "associations":
        return {role: run(gwas(), {"genotypes": cohort, "samples": SHEET})[""].frame}
    if role == "loadings":
        return {role: run(STAGES["principal_components"][0], {"genotypes": cohort})["loadings"].frame}
    weights = cohort.rows.frame.select("variant_id", effect_allele="alt", weight=pl.int_range(pl.len()) / 7)
    known = {"samples": SHEET, "weights": weights, "genes": GENES if "autosomes" in cohort.people.columns else renamed(GENES)}
    return {role: known[role]} if role else {}


@pytest.mark.parametrize("name", STAGES)
def test_stage__gives_a_herd_what_it_gives_people_with_the_same_calls(name: str, herd: Cohort) -> None:
    people = Cohort(herd.rows.replaced(renamed(herd.rows.frame)), renamed(herd.people))
    stage, role = STAGES[name]
    genotypes = "variants" if role == "genes" else "genotypes"
    found = run(stage, {genotypes: herd, **beside(role, herd)}, 3)
    expected = run(stage, {genotypes: people, **beside(role, people)}, 3)
    for table, given in found.items():
        assert_frame_equal(renamed(given.frame), expected[table].frame)
        for array, values in given.part.arrays.items():
            np.testing.assert_array_equal(values, expected[table].part.arrays[array])
        assert given.counts == expected[table].counts


def test_results__keep_the_species_for_clumps_and_genes(herd: Cohort) -> None:
    scanned = run(gwas(), {"genotypes": herd, "samples": SHEET})[""].frame
    assert set(scanned["autosomes"]) == {29}
    clumps = run(STAGES["clump"][0], {"genotypes": herd, "associations": scanned})
    assert all(set(found.frame["autosomes"]) == {29} for found in clumps.values())
    annotated = run(AnnotateGenes(), {"variants": scanned, "genes": GENES}, 7)[""].frame
    assert annotated.filter(chromosome="26")["nearest_gene"].unique().to_list() == ["on26"]
    assert annotated.filter(chromosome="MT")["nearest_gene"].unique().to_list() == ["onMT"]


def test_gwas_ssf__refuses_results_of_another_species(herd: Cohort, tmp_path: Path) -> None:
    scanned = run(gwas(), {"genotypes": herd, "samples": SHEET})[""].frame
    with pytest.raises(JobError, match=r"numbers human chromosomes .* another species. Write parquet or csv"):
        GwasSsfOutput().check(Schema(scanned.schema), scanned.columns)
    with pytest.raises(InputError, match=r"the rows to write as gwas_ssf: chromosome '29' is not in the chromosome set, 22 autosomes"):
        GwasSsfOutput().write_piece(Part(scanned.drop("autosomes")), {}, str(tmp_path / "piece"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_results_that_were_read_back__are_of_their_species_or_refused(herd: Cohort, tmp_path: Path, suffix: str) -> None:
    scanned = run(gwas(), {"genotypes": herd, "samples": SHEET})[""].frame
    getattr(scanned, f"write_{suffix}")(tmp_path / f"scan.{suffix}")
    back = getattr(pl, f"read_{suffix}")(tmp_path / f"scan.{suffix}", **({"infer_schema": False} if suffix == "csv" else {}))
    back = back.cast({name: dtype for name, dtype in scanned.schema.items() if name != "autosomes"})
    annotate: Any = AnnotateGenes()
    assert_frame_equal(
        run(annotate, {"variants": back, "genes": GENES}, 3)[""].frame.drop("autosomes"),
        run(annotate, {"variants": scanned, "genes": GENES})[""].frame.drop("autosomes"),
    )
    dogs = back.with_columns(autosomes=pl.lit("38" if suffix == "csv" else 38).cast(back.schema["autosomes"]))
    with pytest.raises(DataError, match="the rows are of several chromosome sets, 29 and 38 autosomes"):
        run(annotate, {"variants": pl.concat([back, dogs]), "genes": GENES}, 3)
    with pytest.raises(DataError, match="are of different chromosome sets, 38 autosomes and 29, so the same number"):
        run(STAGES["clump"][0], {"genotypes": herd, "associations": dogs})
    with pytest.raises(
        InputError,
        match=r"the variants \(people's without a column 'autosomes'\): chromosome '29' is not in the chromosome set",
    ):
        run(annotate, {"variants": back.drop("autosomes"), "genes": GENES}, 3)


def test_genotypes__are_of_the_same_species_when_parquet_and_plink_give_them_back(herd: Cohort, tmp_path: Path) -> None:
    ParquetOutput(calls=True).write(herd.rows, {"calls": herd.people}, str(tmp_path / "kept.parquet"))
    kept = cohort_of(ParquetInput(path=(str(tmp_path / "kept.parquet"),)))
    assert_frame_equal(kept.people, herd.people)
    assert [mark.value for mark in ParquetInput(path=(str(tmp_path / "kept.parquet"),)).marks()] == ["29 autosomes"]
    assert_frame_equal(scan(kept), scan(herd))
    write_output(PlinkOutput(), herd.rows, {"calls": herd.people}, 2, tmp_path)
    again = cohort_of(PlinkInput.model_validate({"path": str(tmp_path / "out" / "out.bed"), "chromosomes": 29}))
    assert_frame_equal(scan(again), scan(herd))


def scan(cohort: Cohort) -> pl.DataFrame:
    return run(gwas(), {"genotypes": cohort, "samples": herd_sheet()})[""].frame


JOB = """
job: herd
inputs:
  cows: {{format: vcf, path: {folder}/herd.vcf, chromosomes: cow, import: true, parts: 2}}
  sheet: {{format: csv, path: {folder}/sheet.csv}}
  genes: {{format: csv, path: {folder}/genes.csv}}
stages:
  - {{use: select, from: cows, as: narrow, columns: [chromosome, base_pair_location, variant_id, ref, alt]}}
  - {{use: linear_gwas, from: {{genotypes: narrow, samples: sheet}}, as: gwas, traits: [milk], sex: sex}}
  - {{use: clump, from: {{associations: gwas, genotypes: narrow}}, as: hits, p1: 0.2, p2: 0.9}}
outputs:
  gwas: {{from: gwas}}
  near: {{from: hits.ld}}
  genes: {{from: genes}}
"""


def test_job__keeps_the_species_through_an_import_a_selection_and_the_report(herd: Cohort, tmp_path: Path) -> None:
    head = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t" + "\t".join(herd.people["sample_id"])
    places = herd.rows.frame.select("chromosome", "base_pair_location", "variant_id", "ref", "alt").rows()
    calls = [[("0/0", "0/1", "1/1", "./.")[code] for code in row] for row in herd.codes]
    lines = ["\t".join([*map(str, place), ".", ".", ".", "GT", *row]) for place, row in zip(places, calls, strict=True)]
    (tmp_path / "herd.vcf").write_text("\n".join([head, *lines, ""]))
    herd_sheet().with_columns(sex=herd.people["sex"]).write_csv(tmp_path / "sheet.csv")
    GENES.write_csv(tmp_path / "genes.csv")
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    for _ in range(2):
        done = load(tmp_path / "job.yaml", results=str(tmp_path / "results")).run()
        expected = run(LinearGwas.model_validate({"traits": ["milk"]}), {"genotypes": herd, "samples": herd_sheet()})[""].frame
        assert_frame_equal(done.table("gwas").to_polars(), expected)
        assert set(done.table("near").to_polars()["autosomes"]) == {29}
