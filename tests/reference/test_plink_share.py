"""The genomics stages against what PLINK 2 printed for the share of HapMap 3 in tests/data/hapmap3: every clone has these figures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.formats.plink import PlinkInput
from pipeline.stages.genomics.ld_prune import LdPrune
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.stages.genomics.polygenic_score import PolygenicScore
from pipeline.stages.genomics.principal_components import PrincipalComponents
from pipeline.stages.genomics.relatedness import Relatedness
from pipeline.stages.genomics.sample_qc import SampleQc
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.tables.part import concat_parts
from tests.kernels.plink_files import assert_printed, floats, half_digit, read_columns
from tests.stages.genomics.cohorts import Cohort, Found, run

SHARE = Path(__file__).parents[1] / "data" / "hapmap3"
COVARIATES = ("age", "PC1", "PC2", "PC3")
PEOPLE, VARIANTS, AUTOSOMAL = 957, 270, 209


def printed(name: str) -> dict[str, NDArray[np.str_]]:
    """The columns of a table that PLINK printed."""
    return read_columns(SHARE / f"plink.{name}")


@cache
def cohort() -> Cohort:
    """The share as the plink format reads it."""
    reader = PlinkInput.model_validate({"path": str(SHARE / "share.bed"), "parts": 3})
    return Cohort(concat_parts([source.load() for source in reader.sources(1)]), reader.axes()["calls"])


@cache
def sheet() -> pl.DataFrame:
    """Covariates and simulated traits by sample_id, in another order than the people's."""
    tables = [read_columns(SHARE / name) for name in ("share.covar", "share.pheno")]
    assert np.array_equal(tables[0]["IID"], tables[1]["IID"])
    columns = {name: floats(texts) for table in tables for name, texts in table.items() if name not in {"FID", "IID"}}
    numbers = pl.DataFrame({"sample_id": tables[0]["IID"].tolist(), **columns}).with_columns(pl.selectors.float().fill_nan(None))
    return numbers.sample(fraction=1, shuffle=True, seed=5)


def weights() -> pl.DataFrame:
    """The weights that PLINK was given."""
    rows = [line.split() for line in (SHARE / "share.weights").read_text().splitlines()]
    return pl.DataFrame(
        [(name, allele, float(weight)) for name, allele, weight in rows], ["variant_id", "effect_allele", "weight"], orient="row"
    )


def scanned(stage: LinearGwas | LogisticGwas, trait: str, table: dict[str, NDArray[np.str_]]) -> pl.DataFrame:
    """The rows of one trait, which must be PLINK's: the same variants, alleles and numbers of people."""
    rows = run(stage, {"genotypes": cohort(), "samples": sheet()}, 3)[""].frame.filter(trait=trait)
    assert rows["variant_id"].to_list() == table["ID"].tolist()
    assert rows["effect_allele"].to_list() == table["A1"].tolist()
    np.testing.assert_array_equal(rows["n"], table["OBS_CT"].astype(int))
    assert_printed(rows["effect_allele_frequency"], table["A1_FREQ"], 1e-9)
    return rows


@pytest.mark.parametrize(("hwe", "column", "place"), [("exact", "P", "qc"), ("midp", "MIDP", "midp")])
def test_variant_qc__is_plinks(hwe: str, column: str, place: str) -> None:
    found = run(VariantQc.model_validate({"hwe": hwe}), {"genotypes": cohort()}, 4)[""].frame
    missing, frequencies = printed("qc.vmiss"), printed("qc.afreq")
    assert found["variant_id"].to_list() == missing["ID"].tolist()
    np.testing.assert_allclose(found["call_rate"], 1 - floats(missing["MISSING_CT"]) / floats(missing["OBS_CT"]), rtol=1e-15)
    assert_printed(found["alt_frequency"], frequencies["ALT_FREQS"], 1e-12)
    for name, on_x in ((f"{place}.hardy", False), (f"{place}.hardy.x", True)):
        table, tested = printed(name), found.filter(pl.col("chromosome") != "MT", (pl.col("chromosome") == "X") == on_x)
        assert tested["variant_id"].to_list() == table["ID"].tolist()
        assert_printed(tested["hwe_p_value"], table[column], 5e-6)
    assert found.filter(pl.col("hwe_p_value").is_null())["chromosome"].to_list() == ["MT"] * 9


def test_sample_qc__is_plinks() -> None:
    measured = run(SampleQc(min_call_rate=0), {"genotypes": cohort()}, 2)["measured"].frame
    missing, het = printed("qc.smiss"), printed("qc.het")
    assert measured["sample_id"].to_list() == missing["IID"].tolist() == het["IID"].tolist()
    np.testing.assert_allclose(measured["call_rate"], 1 - floats(missing["MISSING_CT"]) / floats(missing["OBS_CT"]), rtol=1e-14)
    np.testing.assert_allclose(measured["heterozygosity"], 1 - floats(het["O(HOM)"]) / floats(het["OBS_CT"]), rtol=1e-12)
    assert_printed(measured["inbreeding"], het["F"], 1e-6)


@pytest.mark.parametrize("trait", ["y_lin", "y_null"])
def test_linear_gwas__is_plinks_on_every_chromosome(trait: str) -> None:
    table = printed(f"linear.{trait}.glm.linear")
    rows = scanned(LinearGwas(traits=("y_lin", "y_null"), covariates=COVARIATES), trait, table)
    assert rows.height == VARIANTS
    for ours, theirs, relative in (
        ("beta", "BETA", 5e-7),
        ("standard_error", "SE", 5e-7),
        ("statistic", "T_STAT", 5e-6),
        ("p_value", "P", 5e-6),
    ):
        assert_printed(rows[ours], table[theirs], relative)


def test_linear_gwas__p_values_below_what_a_double_holds_are_plinks() -> None:
    table = printed("strong.y_strong.glm.linear")
    rows = scanned(LinearGwas(traits=("y_strong",), covariates=COVARIATES), "y_strong", table)
    assert_printed(rows["neg_log_10_p_value"], table["LOG10_P"], 5e-6)
    best = rows.sort("neg_log_10_p_value").row(-1, named=True)
    assert (best["variant_id"], best["p_value"]) == ("rs1611699", 0)


@pytest.mark.parametrize("trait", ["y_bin", "y_rare"])
def test_logistic_gwas__refitted_is_plinks_hybrid(trait: str) -> None:
    table = printed(f"hybrid.{trait}.glm.logistic.hybrid")
    rows = scanned(LogisticGwas.model_validate({"traits": (trait,), "covariates": COVARIATES, "screen": 1}), trait, table)
    np.testing.assert_array_equal(rows["test"] == "firth", table["FIRTH?"] == "Y")
    # With missing calls PLINK stops early: see the kernel's tests.
    exact = (rows["n"] == PEOPLE).to_numpy()
    assert exact.sum() > 100
    errors = floats(table["SE"])
    for ours, theirs, allowed in (("beta", "BETA", 8e-6), ("standard_error", "SE", 3e-6)):
        off = np.abs(rows[ours].to_numpy() - floats(table[theirs])) - half_digit(table[theirs])
        assert (off / errors)[exact].max() < allowed
    np.testing.assert_allclose(rows["p_value"].to_numpy()[exact], floats(table["P"])[exact], rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("prune_50_5_0.02", {"window_variants": 50, "step": 5, "r2": 0.02}),
        ("prune_3000kb_0.02", {"window_kb": 3000, "r2": 0.02}),
    ],
)
@pytest.mark.parametrize("parts", [1, 4])
def test_ld_prune__is_plinks(name: str, given: dict[str, float], parts: int) -> None:
    found = run(LdPrune.model_validate(given), {"genotypes": cohort()}, parts)[""].frame["variant_id"].to_list()
    kept, left_out = ((SHARE / f"plink.{name}.prune.{which}").read_text().split() for which in ("in", "out"))
    assert found == kept
    assert len(left_out) == VARIANTS - len(found) > 5


def test_relatedness__is_plinks() -> None:
    pairs, table = run(Relatedness(min_kinship=0.255, max_kinship=0.255), {"genotypes": cohort()}, 3)["pairs"].frame, printed("king.kin0")
    for ours, theirs in (("sample_id_1", "IID1"), ("sample_id_2", "IID2")):
        assert pairs[ours].to_list() == table[theirs].tolist()
    for ours, theirs in (("variants_shared", "NSNP"), ("hethet", "HETHET"), ("ibs0", "IBS0"), ("kinship", "KINSHIP")):
        assert_printed(pairs[ours], table[theirs], 1e-9)


def test_principal_components__are_plinks() -> None:
    found: dict[str, Found] = run(PrincipalComponents(components=5), {"genotypes": cohort()}, 3)
    assert found[""].counts == {"variants_used": AUTOSOMAL, "people": PEOPLE}
    assert_printed(found["eigenvalues"].frame["eigenvalue"], np.array((SHARE / "plink.pca.eigenval").read_text().split()), 1.4e-6)
    table = printed("pca.eigenvec")
    for number in range(1, 6):
        ours, theirs = found[""].frame[f"pc{number}"].to_numpy(), floats(table[f"PC{number}"])
        assert abs(np.corrcoef(ours, theirs)[0, 1]) > 0.999999999


@pytest.mark.parametrize(("missing", "name"), [("mean", "score"), ("ignore", "score_called")])
def test_polygenic_score__is_plinks(missing: str, name: str) -> None:
    found = run(PolygenicScore.model_validate({"missing": missing}), {"genotypes": cohort(), "weights": weights()}, 4)[""].frame
    table = printed(f"{name}.sscore")
    assert found["sample_id"].to_list() == table["IID"].tolist()
    assert_printed(found["score_sum"], table["SCORE1_SUM"], 5e-6)
    assert_printed(found["score_average"], table["SCORE1_AVG"], 5e-6)
