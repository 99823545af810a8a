"""jobs/genomics.yaml from its files to its results: run as it is, with labels that mean nothing, on two processes, and on HapMap 3."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import chi2, t
from sklearn.metrics import log_loss, roc_auc_score

from pipeline.api import Run, load, open_run
from pipeline.formats.vcf import VcfInput
from pipeline.results.manifest import verify
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.tables.part import concat_parts
from tests.kernels.plink_files import DATA, floats, needs_data, read_columns
from tests.stages.genomics.cohorts import AUTOSOMES, HAPMAP3, Cohort
from tests.stages.genomics.cohorts import run as run_stage

ROOT = Path(__file__).parents[1]
FILES = ROOT / "data" / "genomics"
SECRET = "correct-horse-battery"
SSF = [
    "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error", "effect_allele_frequency", "p_value",
    "neg_log_10_p_value", "variant_id", "n",
]  # fmt: skip
PCS = [f"pc{number}" for number in range(1, 11)]
KEPT_BEST = {"from": "best"}
TOLERANCE = 1e-9


def run_job(results: Path, **given: Any) -> Run:
    """The shipped job, its inputs named from the root of the repository; `best` is written as well."""
    own = {"inputs__cohort__path": str(FILES / "cohort.vcf.gz"), "inputs__sheet__path": str(FILES / "samples.csv")}
    return load(ROOT / "jobs" / "genomics.yaml", results=str(results), outputs__best=KEPT_BEST, **{**own, **given}).run()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The job as it is shipped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOB_TOKEN", SECRET)
        yield run_job(tmp_path_factory.mktemp("genomics"), description="${JOB_TOKEN}")


@pytest.fixture(scope="module")
def sheet() -> pl.DataFrame:
    return pl.read_csv(FILES / "samples.csv")


def table(run: Run, output: str) -> pl.DataFrame:
    return run.table(output).to_polars()


def test_genomics_job__writes_what_it_says(run: Run) -> None:
    assert run.outputs == ["ancestry", "associations", "best", "importance", "linkage", "loci", "predictions", "samples", "variants"]
    variants, samples, ancestry = table(run, "variants"), table(run, "samples"), table(run, "ancestry")
    measures = ["call_rate", "alt_frequency", "minor_allele_frequency", "hwe_p_value"]
    assert variants.columns == ["chromosome", "base_pair_location", "variant_id", "ref", "alt", *measures]
    assert samples.columns == ["sample_id", "call_rate", "heterozygosity", "inbreeding", "kept"]
    assert ancestry.columns == ["sample_id", *PCS, "population", "sex", "age", "ldl", "disease"]
    associations = table(run, "associations")
    assert associations.columns == [*SSF, "trait", "statistic", "test", "reason"]
    assert associations["neg_log_10_p_value"].is_sorted(descending=True)
    predictions = table(run, "predictions")
    assert predictions.columns == ["sample_id", "split", "disease", "prediction"]
    assert predictions["sample_id"].is_sorted()
    assert predictions["prediction"].is_between(0, 1).all()
    assert set(predictions["split"]) == {"train", "validation", "test"}


def test_genomics_job__keeps_who_and_what_the_limits_say(run: Run, sheet: pl.DataFrame) -> None:
    # data/README.md: 8 people lack more than 5 % of their calls, 15 of the sheet are not in the VCF, and 12 of the VCF not in the sheet.
    samples, variants = table(run, "samples"), table(run, "variants")
    assert (samples.height, int(samples["kept"].sum())) == (1200, 1192)
    assert samples["kept"].to_list() == (samples["call_rate"] >= 0.95).to_list()
    assert variants.select(pl.col("call_rate").min() >= 0.98, pl.col("minor_allele_frequency").min() >= 0.01).row(0) == (True, True)
    assert variants.select(pl.col("hwe_p_value").min() >= 1e-6).item()
    assert table(run, "associations").height == variants.height == 20089
    ancestry = table(run, "ancestry")
    assert ancestry.height == 1180
    same = ancestry.select("sample_id", "age", "disease").join(sheet, on="sample_id", suffix="_given")
    assert same.height == 1180
    assert same.select((pl.col("age") == pl.col("age_given")).all(), (pl.col("disease") == pl.col("disease_given")).all()).row(0) == (
        True,
        True,
    )


def test_genomics_job__the_manifest_tells_of_every_file(run: Run) -> None:
    folder = Path(run.path)
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {entry["path"]: entry for entry in manifest["files"]}
    assert set(files) == {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {"manifest.json"}
    for name, entry in files.items():
        data = (folder / name).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert entry["rows"] == (pl.read_parquet(folder / name).height if name.endswith(".parquet") else None)
    assert {"report.html", "run.json", "metrics.json", "models/risk.ubj", "models/risk.json"} < set(files)
    assert verify(run.path) == []
    assert open_run(folder.parents[1]).path == run.path


def test_genomics_job__the_record_tells_what_ran(run: Run) -> None:
    record = run.record
    assert (record["status"], record["error"], record["backend"], record["run"]) == ("done", None, "cpu", Path(run.path).name)
    assert {"python", "polars", "numpy", "dask", "distributed"} <= set(record["versions"])
    assert record["seconds"] > 0
    assert record["started"] < record["finished"]
    assert (record["inputs"]["cohort"]["rows"], record["inputs"]["sheet"]["rows"]) == (21300, 1203)
    stages = record["stages"]
    assert list(stages) == [
        "people_passed", "unrelated", "passed", "pruned", "axes", "people", "gwas", "loci", "divided", "training_people", "screen", "best",
        "dosages", "features", "risk",
    ]  # fmt: skip
    assert all(stage["seconds"] >= 0 and {"rows_in", "rows_out", "bytes", "parts"} <= set(stage) for stage in stages.values())
    assert sum(stage["seconds"] for stage in stages.values()) > 0
    assert (stages["people"]["rows_in"][1], stages["people"]["rows_out"]) == (1203, 1180)
    assert (stages["gwas"]["rows_in"], stages["gwas"]["rows_out"]) == ([20089, 1180], 20089)
    assert stages["people_passed"]["counts"] == {"people_in": 1200, "low_call_rate": 8, "people_out": 1192}
    passed = stages["passed"]["counts"]
    assert (passed["variants_in"], passed["variants_out"]) == (21300, 20089)
    assert sum(passed[name] for name in ("low_call_rate", "low_maf", "out_of_hardy_weinberg")) == 21300 - 20089
    assert stages["people"]["counts"] == {"matched": 1180, "multiplied": 0, "lost": 12}
    pruned = stages["pruned"]["counts"]
    assert pruned["variants_in"] - pruned["in_linkage"] == pruned["variants_out"] == stages["axes"]["counts"]["variants_used"] < 20089
    assert stages["axes"]["counts"]["people"] == stages["unrelated"]["counts"]["people_out"] == 1192
    assert (stages["loci"]["rows_out"], stages["loci"]["counts"]["unmatched"]) == (6, 0)
    splits = table(run, "predictions")["split"].value_counts().rows()
    assert {name: stages["risk"]["counts"][f"rows_{name}"] for name, _ in splits} == dict(splits)


def test_genomics_job__no_file_has_the_secret(run: Run) -> None:
    assert run.record["job"]["description"] == "${JOB_TOKEN}"
    for path in Path(run.path).rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_genomics_job__finds_the_causal_variants_of_ldl(run: Run) -> None:
    hits = table(run, "associations").filter(pl.col("p_value") < 5e-8)
    causal = pl.read_csv(FILES / "causal.csv").filter(trait="ldl")
    known = table(run, "variants").join(causal, on="variant_id")
    found = {(row["chromosome"], row["base_pair_location"]): row["effect"] for row in known.iter_rows(named=True)}
    # Every hit is within a stretch of the simulation (100 kb) of a causal variant, and the five large effects have one.
    near = set()
    for row in hits.iter_rows(named=True):
        close = [place for place in found if place[0] == row["chromosome"] and abs(place[1] - row["base_pair_location"]) < 100_000]
        assert close, row
        near |= {place for place in close if abs(found[place]) > 8}
    assert len(near) == 5
    itself = hits.join(causal, on="variant_id")
    assert itself.height >= 3
    assert ((itself["beta"] - itself["effect"]).abs() < 4 * itself["standard_error"]).all()
    assert (itself["effect_allele"] == itself["effect_allele_right"]).all()


def inflation(associations: pl.DataFrame) -> float:
    return float(np.median(associations["statistic"].drop_nulls().to_numpy() ** 2)) / float(chi2.median(1))


def test_genomics_job__ancestry_keeps_the_scan_from_inflation(run: Run) -> None:
    assert 0.9 < inflation(table(run, "associations")) < 1.2
    # data/README.md: ldl depends on the population, so a scan that leaves ancestry out is inflated.
    cohort = VcfInput.model_validate({"path": str(FILES / "cohort.vcf.gz")})
    rows = concat_parts([source.load() for source in cohort.sources(1)])
    naive = LinearGwas(traits=("ldl",), covariates=("age", "sex"))
    found = run_stage(naive, {"genotypes": Cohort(rows, cohort.axes()["calls"]), "samples": table(run, "ancestry")})[""]
    assert inflation(found.frame) > 1.5


def test_genomics_job__p_values_are_those_of_their_statistics(run: Run) -> None:
    rows = table(run, "associations")
    np.testing.assert_allclose(rows["statistic"], rows["beta"] / rows["standard_error"], rtol=1e-12)
    expected = 2 * t.sf(np.abs(rows["statistic"]), rows["n"] - 9)  # intercept, 7 covariates and the variant
    np.testing.assert_allclose(rows["p_value"], expected, rtol=1e-9)
    np.testing.assert_allclose(rows["neg_log_10_p_value"], -np.log10(expected), rtol=1e-9, atol=1e-12)


def test_genomics_job__axes_part_the_three_populations(run: Run) -> None:
    people = table(run, "ancestry")
    centres = dict(people.group_by("population").agg(pl.concat_list(pl.col("pc1").mean(), pl.col("pc2").mean())).iter_rows())
    assert set(centres) == {"north", "south", "east"}
    places = people.select("pc1", "pc2").to_numpy()
    names = list(centres)
    distances = np.linalg.norm(places[:, None] - np.array([centres[name] for name in names])[None], axis=2)
    assert [names[i] for i in distances.argmin(axis=1)] == people["population"].to_list()


def test_genomics_job__metrics_are_those_of_its_predictions(run: Run) -> None:
    predictions = table(run, "predictions")
    for split, metrics in run.metrics["risk"].items():
        rows = predictions.filter(split=split)
        assert metrics["auc"] == pytest.approx(roc_auc_score(rows["disease"], rows["prediction"]), abs=1e-6)
        assert metrics["log_loss"] == pytest.approx(log_loss(rows["disease"], rows["prediction"].cast(pl.Float64)), abs=1e-6)
        assert metrics["accuracy"] == pytest.approx(((rows["prediction"] > 0.5) == (rows["disease"] == 1)).mean(), abs=1e-6)
    assert run.metrics["risk"]["test"]["auc"] > 0.65


def test_genomics_job__the_report_is_one_page_by_itself(run: Run) -> None:
    page = Path(run.report).read_text()
    assert page.count("<svg") >= 4
    for outside in ('src="http', 'href="http', "<link", "@import"):
        assert outside not in page


def with_disease(sheet: pl.DataFrame, disease: pl.Series, folder: Path) -> dict[str, str]:
    """A copy of the sheet with other labels, as an override."""
    sheet.with_columns(disease.alias("disease")).write_csv(folder / "samples.csv")
    return {"inputs__sheet__path": str(folder / "samples.csv")}


def test_genomics_job__of_permuted_labels_predicts_nothing(tmp_path: Path, sheet: pl.DataFrame) -> None:
    labels = with_disease(sheet, sheet["disease"].shuffle(seed=20261121), tmp_path)
    # No early stopping: it would end at once, and so validation people too have had no say in the model.
    run = run_job(tmp_path / "results", **labels, stages__risk__early_stopping_rounds=None, stages__risk__rounds=100)
    assert run.metrics["risk"]["train"]["auc"] > 0.95
    rows = table(run, "predictions").filter(pl.col("split") != "train")
    ill, well = int(rows["disease"].sum()), rows.height - int(rows["disease"].sum())
    # Of labels that mean nothing the AUC is Mann and Whitney's U over ill * well: three of its standard deviations. Twelve other seeds had
    # 0.43 to 0.60 (0.49 in the mean) of one split; with the variants chosen on all people this one has 0.80 and 0.82.
    bound = 3 * np.sqrt((ill + well + 1) / (12 * ill * well))
    assert 0.07 < bound < 0.1
    assert abs(roc_auc_score(rows["disease"], rows["prediction"]) - 0.5) < bound


def test_genomics_job__variants_of_the_model_are_chosen_on_training_people_alone(tmp_path: Path, run: Run, sheet: pl.DataFrame) -> None:
    training = table(run, "predictions").filter(split="train")["sample_id"].to_list()
    turned = sheet.select(pl.when(pl.col("sample_id").is_in(training)).then("disease").otherwise(1 - pl.col("disease"))).to_series()
    assert (turned != sheet["disease"]).sum() == sheet.height - len(training) > 400
    other = run_job(tmp_path / "results", **with_disease(sheet, turned, tmp_path))
    assert_frame_equal(table(other, "best"), table(run, "best"), check_exact=True)
    assert set(table(other, "importance")["feature"]) == set(table(run, "importance")["feature"])
    assert other.metrics["risk"]["test"]["auc"] < 0.5 < run.metrics["risk"]["test"]["auc"]
    assert_frame_equal(table(other, "associations"), table(run, "associations"), check_exact=True)


@pytest.mark.process
def test_genomics_job__on_two_processes_gives_the_same(tmp_path: Path, run: Run) -> None:
    other = run_job(tmp_path, cluster={"kind": "local", "workers": 2, "dashboard": False}, inputs__cohort__parts=7)
    assert other.record["cluster"]["workers"] == 2
    assert other.record["inputs"]["cohort"]["parts"] != run.record["inputs"]["cohort"]["parts"]
    for output in ("variants", "samples", "ancestry", "associations", "loci", "best"):
        assert_frame_equal(table(other, output), table(run, output), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    assert_frame_equal(table(other, "predictions"), table(run, "predictions"), rel_tol=1e-6, abs_tol=1e-6)
    assert other.record["stages"]["passed"]["counts"] == run.record["stages"]["passed"]["counts"]


@pytest.fixture(scope="module")
def hapmap3(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same job on HapMap 3, all variants and people kept, a sheet in another order beside them."""
    folder = tmp_path_factory.mktemp("hapmap3")
    covariates, traits = read_columns(HAPMAP3 / "hm3.covar12"), read_columns(HAPMAP3 / "hm3.pheno")
    values: dict[str, Any] = {"sample_id": traits["IID"].tolist(), "age": floats(covariates["age"])}
    values |= {"sex01": covariates["sex01"].astype(int), "ill": floats(traits["y_bin"]) - 1}
    values |= {name: floats(traits[name]) for name in ("y_lin", "y_null")}
    pl.DataFrame(values).sample(fraction=1, shuffle=True, seed=3).write_csv(folder / "hm3.csv")
    types = {"sample_id": "string", "age": "float64", "sex01": "int8", "y_lin": "float64", "y_null": "float64", "ill": "float64"}
    return run_job(
        folder / "results",
        inputs__cohort={"format": "plink", "path": str(DATA / "hapmap3" / "data.bed")},
        inputs__sheet={"format": "csv", "path": str(folder / "hm3.csv"), "columns": types},
        **{f"stages__passed__{name}": 0 for name in ("min_call_rate", "min_maf", "min_hwe_p")},
        stages__unrelated__max_kinship=0.5,
        stages__axes__from="passed",
        stages__gwas__traits=["y_lin", "y_null"],
        stages__gwas__covariates=["age", "sex01", *PCS],
        stages__screen__traits=["ill"],
        stages__screen__covariates=["age", "sex01"],
        stages__risk__target="ill",
        stages__risk__exclude=["y_lin", "y_null"],
        outputs__associations={"from": "gwas"},
    )


@needs_data
def test_genomics_job__on_hapmap3_has_plinks_people_and_variants(hapmap3: Run) -> None:
    axes, people = read_columns(HAPMAP3 / "pca.eigenvec"), table(hapmap3, "ancestry")
    order = pl.DataFrame({"sample_id": axes["IID"].tolist()}).join(people, on="sample_id", how="left", maintain_order="left")
    for number in range(1, 11):
        assert abs(np.corrcoef(order[f"pc{number}"], floats(axes[f"PC{number}"]))[0, 1]) > 0.999999999
    variants, missing = table(hapmap3, "variants"), read_columns(HAPMAP3 / "qc.vmiss")
    np.testing.assert_allclose(1 - variants["call_rate"], missing["MISSING_CT"].astype(int) / 957, atol=1e-12)
    assert set(hapmap3.metrics["risk"]) == {"train", "validation", "test"}


@needs_data
@pytest.mark.parametrize("trait", ["y_lin", "y_null"])
def test_genomics_job__on_hapmap3_has_plinks_associations(hapmap3: Run, trait: str) -> None:
    printed = read_columns(HAPMAP3 / f"glm_linear_cov12.{trait}.glm.linear")
    ours = table(hapmap3, "associations").filter(pl.col("chromosome").is_in(AUTOSOMES), trait=trait)
    assert ours["variant_id"].to_list() == printed["ID"].tolist()
    np.testing.assert_array_equal(ours["n"], printed["OBS_CT"].astype(int))
    sign = np.where(printed["A1"] == printed["ALT"], 1, -1)
    # PLINK had the axes as they are printed, six digits of them, and the job has its own.
    for name, column in (("beta", "BETA"), ("standard_error", "SE"), ("statistic", "T_STAT")):
        expected = floats(printed[column]) * (1 if name == "standard_error" else sign)
        np.testing.assert_allclose(ours[name], expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(ours["p_value"], floats(printed["P"]), rtol=1e-4)
