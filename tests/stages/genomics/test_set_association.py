"""set_association: every row that regenie printed for two cohorts, and what a set may not be."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.kernels.predicted_binary import PredictedMethod
from pipeline.kernels.set_scores import Burden
from pipeline.stages.genomics.set_association import SetAssociation
from pipeline.stages.genomics.variant_sets import VariantSets
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests import example_tables as examples
from tests.kernels.plink_files import DATA, floats, needs_data, read_columns
from tests.kernels.regenie_files import REGENIE, read_loco, read_results
from tests.stages.genomics.cohorts import COVARIATES, HAPMAP3, Cohort, hapmap3, hapmap3_sheet, plink_cohort, run, same_for_any_parts
from tests.stages.genomics.test_predicted_scan import printed_predictions

SETS = pl.DataFrame(
    {
        "set_id": ["A"] * 12 + ["B"] * 8 + ["C"],
        "variant_id": [f"rs{i}" for i in (*range(22, 34, 2), *range(1, 12, 2), *range(30, 38), 55)],
        "masks": ["M1,M2", "M2"] * 10 + ["M1"],
    }
).filter(pl.col("variant_id") != "rs32")  # on chromosome 2, as B is
TESTED = SetAssociation(traits=("ldl", "height"), covariates=("age",), max_frequencies=(0.3, 1), collapse_mac=12)
TABLES: dict[str, Any] = {"genotypes": examples.GENOTYPES, "samples": examples.SHEET, "sets": SETS.filter(pl.col("variant_id") != "rs30")}
P_VALUES = {**examples.SCAN, "effect_allele_frequency": 1e-12} | dict.fromkeys(("p_value", "neg_log_10_p_value", "statistic"), 1e-6)
EXAMPLES = [
    StageExample(TESTED, TABLES, examples.AXES, P_VALUES),
    StageExample(
        SetAssociation(traits=("ldl",), burden="sum", tests=("burden", "burden_acat")),
        {**TABLES, "predictions": examples.PREDICTIONS},
        examples.AXES,
        P_VALUES,
    ),
]
ILL = examples.SHEET.with_columns(ill=(pl.col("ldl") > 0.8).cast(pl.Int8))
EXAMPLES += [
    StageExample(
        SetAssociation(traits=("ill",), covariates=("age",), kind="binary", method=method, screen=0.5, max_frequencies=(0.5,)),
        {**TABLES, "samples": ILL},
        examples.AXES,
        dict.fromkeys(P_VALUES, 1e-6),
    )
    for method in ("firth_approximate", "spa")
]
NAMES = {
    "burden": "ADD", "skat": "ADD-SKAT", "skat_o": "ADD-SKATO", "skat_o_acat": "ADD-SKATO-ACAT", "acat_v": "ADD-ACATV",
    "acat_o": "ADD-ACATO", "burden_acat": "ADD-BURDEN-ACAT", "burden_acat_equal": "ADD-BURDEN-ACAT", "sbat": "ADD-BURDEN-SBAT",
    "sbat_positive": "ADD-BURDEN-SBAT_POS", "sbat_negative": "ADD-BURDEN-SBAT_NEG", "gene_p": "GENE_P",
}  # fmt: skip
NOISE = {"sbat": 0.03, "sbat_positive": 0.01, "sbat_negative": 0.01, "gene_p": 0.01}
"""-log10 p: regenie counts SBAT's weights over random numbers. With 300 draws of them instead of 10 it comes within 0.005."""
NEAR_ONE = {"skat_o": 0.005, "skat_o_acat": 0.027, "acat_o": 0.031}
"""Where the burden's p is above 0.2, regenie takes the saddle point's of one weight, which is up to 0.7 % off."""

SLOW: dict[tuple[str, str], tuple[float, float]] = {
    # -log10 p of SKAT and ACAT-V that regenie 4.1.2 gives with --skip-fast-firth: its fast way is wrong of non-carriers (genomics.md)
    ("y_bin", "SET_1_1.M3"): (0.814797, 0.675117), ("y_bin", "SET_3_0.M3"): (0.663383, 0.64019),
    ("y_bin", "SET_4_0.M1"): (0.822847, 1.00779), ("y_bin", "SET_4_0.M2"): (0.315349, 0.666734),
    ("y_bin", "SET_4_0.M3"): (0.51232, 0.892001), ("y_bin", "SET_9_0.M3"): (0.24109, 0.458097),
    ("y_bin", "SET_11_0.M3"): (0.456457, 0.251948), ("y_bin", "SET_14_0.M1"): (1.74963, 1.11618),
    ("y_bin", "SET_14_0.M2"): (1.70399, 0.973592), ("y_bin", "SET_14_0.M3"): (1.30213, 0.708468),
    ("y_rare", "SET_2_0.M3"): (0.266939, 0.23424), ("y_rare", "SET_7_0.M2"): (0.520622, 0.133634),
    ("y_rare", "SET_7_0.M3"): (0.393569, 0.17107), ("y_rare", "SET_11_0.M1"): (1.67689, 1.09289),
    ("y_rare", "SET_11_0.M2"): (2.1356, 0.0176175), ("y_rare", "SET_11_0.M3"): (1.79217, 0.0235894),
    ("y_rare", "SET_14_0.M1"): (1.36319, 0.868423), ("y_rare", "SET_14_0.M2"): (0.763819, 0.639323),
    ("y_rare", "SET_14_0.M3"): (0.666436, 0.556891), ("y_rare", "SET_17_0.M1"): (0.870164, 0.00468112),
    ("y_rare", "SET_17_0.M2"): (0.851026, 0.00779758), ("y_rare", "SET_17_0.M3"): (0.99835, 0.0101286),
    ("y_rare", "SET_19_0.M1"): (1.43587, 1.1091), ("y_rare", "SET_19_0.M2"): (1.80202, 1.03473),
    ("y_rare", "SET_19_0.M3"): (1.01834, 0.791224),
}  # fmt: skip
SADDLE = {
    # the same with --spa, of sets whose variants and burdens are tested again
    ("y_bin", "SET_11_0.M1"): (0.264618, 0.20273), ("y_bin", "SET_12_0.M3"): (1.37336, 0.67383),
    ("y_bin", "SET_14_0.M1"): (1.74693, 1.11289), ("y_rare", "SET_11_0.M2"): (2.28337, 0.0348564),
    ("y_rare", "SET_14_0.M3"): (0.696903, 0.655658), ("y_rare", "SET_19_0.M1"): (1.47695, 1.26034),
}  # fmt: skip


def read_sets(prefix: Path) -> pl.DataFrame:
    """What variant_sets makes of regenie's three files."""

    def table(ending: str, names: list[str]) -> pl.DataFrame:
        lines = prefix.with_suffix(ending).read_text().splitlines()
        return pl.DataFrame([re.split(r"\s+", line) for line in lines], schema=names, orient="row")

    tables = {
        "annotations": table(".annotations", ["variant_id", "set_id", "annotation"]),
        "masks": table(".masks", ["mask", "annotations"]),
        "sets": table(".setlist", ["set_id", "chromosome", "base_pair_location", "variant_ids"]),
    }
    tables["sets"] = tables["sets"].with_columns(pl.col("base_pair_location").cast(pl.Int64))
    return run_stage(VariantSets(), tables)[""]


def compare(
    found: pl.DataFrame, printed: Path, trait: str, more: Mapping[str, float] | None = None, but: Collection[str] = ()
) -> set[tuple[str, str]]:
    """Assert that rows are those that regenie printed, but for what is known (`more` by test, components of the masks `but`).

    Gives what it printed and is not there.
    """
    columns = read_results(printed)
    rows = {key: place for place, key in enumerate(zip(columns["ID"], columns["TEST"], strict=True))}
    seen = set()
    for row in found.filter(pl.col("trait") == trait).iter_rows(named=True):
        group = row["mask"] is not None and row["frequency_bin"] is None
        name = ".".join(word for word in (row["set_id"], row["mask"], row["frequency_bin"]) if word and not (group and word == row["mask"]))
        key = (name, NAMES[row["test"]] + (f"_{row['mask']}" if group else ""))
        if key not in rows and row["test"].startswith("sbat_"):
            continue  # printed with --rgc-gene-p alone
        seen.add(key)
        theirs = {column: columns[column][rows[key]] for column in columns}
        away = abs(row["neg_log_10_p_value"] - float(theirs["LOG10P"]))
        known = row["test"] != "burden" and f"{row['set_id']}.{row['mask']}" in but
        assert known or away < {**NOISE, **NEAR_ONE, **(more or {})}.get(row["test"], 1e-3), (
            key,
            row["neg_log_10_p_value"],
            theirs["LOG10P"],
        )
        assert (row["n"], row["chromosome"], str(row["base_pair_location"])) == (int(theirs["N"]), theirs["CHROM"], theirs["GENPOS"])
        if row["test"] == "burden":
            ours = [row["beta"], row["standard_error"], row["effect_allele_frequency"], row["statistic"] ** 2]
            np.testing.assert_allclose(ours, [float(theirs[it]) for it in ("BETA", "SE", "A1FREQ", "CHISQ")], rtol=5e-5)
            assert np.sign(row["statistic"]) == np.sign(row["beta"])
    return {*rows} - seen


@needs_data
def test_set_association__gives_what_regenie_printed_for_hapmap3() -> None:
    traits = ("y_lin", "y_null")
    stage = SetAssociation(
        traits=traits, covariates=COVARIATES, max_frequencies=(0.01, 0.05), component_max_frequency=0.1,
        tests=("burden", "skat", "skat_o", "skat_o_acat", "acat_v", "acat_o", "burden_acat", "sbat"),
    )  # fmt: skip
    predictions = printed_predictions("s1_qt", traits, hapmap3().people)
    tables = {"samples": hapmap3_sheet(), "predictions": predictions, "sets": read_sets(REGENIE / "hapmap3" / "sets")}
    found = run(stage, {"genotypes": hapmap3(), **tables}, 3)[""]
    assert found.counts["sets_tested"] == 17
    for trait in traits:
        assert not compare(found.frame, REGENIE / "hapmap3" / f"sets_qt_{trait}.regenie.gz", trait)


@needs_data
def test_set_association__gives_what_regenie_printed_for_binary_traits() -> None:
    traits = ("y_bin", "y_rare")
    columns = read_columns(HAPMAP3 / "hm3.pheno")
    sheet = hapmap3_sheet().with_columns(pl.Series(trait, floats(columns[trait])) for trait in traits)
    stage = SetAssociation(
        traits=traits, covariates=COVARIATES, kind="binary", max_frequencies=(0.01, 0.05), component_max_frequency=0.1,
        tests=("burden", "skat", "skat_o", "skat_o_acat", "acat_v", "acat_o", "burden_acat", "sbat"),
    )  # fmt: skip
    tables = {"samples": sheet, "predictions": printed_predictions("s1_bt", traits, hapmap3().people)}
    found = run(stage, {"genotypes": hapmap3(), **tables, "sets": read_sets(REGENIE / "hapmap3" / "sets")}, 2)[""].frame
    near_one = {"skat_o_acat": 0.08, "acat_o": 0.17}  # one row, whose burden has a p of 0.998
    for trait in traits:
        slow = [mask for own, mask in SLOW if own == trait]
        assert not compare(found, REGENIE / "hapmap3" / f"sets_bt_{trait}.regenie.gz", trait, near_one, slow)
    assert_components(found, SLOW)
    some = {mask.split(".")[0] for _, mask in SADDLE}
    tables["sets"] = read_sets(REGENIE / "hapmap3" / "sets").filter(pl.col("set_id").is_in(some))
    stage = stage.model_copy(update={"method": "spa", "tests": ("skat", "acat_v")})
    assert_components(run(stage, {"genotypes": hapmap3(), **tables})[""].frame, SADDLE)


def assert_components(found: pl.DataFrame, printed: Mapping[tuple[str, str], tuple[float, float]]) -> None:
    """SKAT's and ACAT-V's rows of these traits and masks."""
    for (trait, mask), expected in printed.items():
        own = found.filter(pl.col("trait") == trait, pl.concat_str("set_id", "mask", separator=".") == mask)
        ours = [own.filter(pl.col("test") == test)["neg_log_10_p_value"].item() for test in ("skat", "acat_v")]
        assert ours == pytest.approx(expected, abs=5e-5), (trait, mask)


@needs_data
def test_set_association__gives_what_regenie_printed_for_its_own_example() -> None:
    folder, traits = DATA / "regenie_example", ("Y1", "Y2")
    cohort = plink_cohort(folder / "example_3chr.bed")
    frames = [
        pl.DataFrame(
            [line.split() for line in (folder / name).read_text().splitlines()[1:]], schema=["family_id", "sample_id", *names], orient="row"
        )
        for name, names in (("phenotype.txt", traits), ("covariates.txt", ("V1", "V2", "V3")))
    ]
    sheet = frames[0].join(frames[1], on="sample_id").with_columns(pl.col(*traits, "V1", "V2", "V3").cast(pl.Float64))
    ids = {f"{family}_{person}": person for family, person in cohort.people.select("family_id", "sample_id").iter_rows()}
    predicted = []
    for place, trait in enumerate(traits, 1):
        header, rows = read_loco(REGENIE / "example_3chr" / f"s1_qt_{place}.loco.gz")
        own = pl.DataFrame({"sample_id": [ids[person] for person in header], **rows})
        predicted.append(
            own.unpivot(index="sample_id", variable_name="chromosome", value_name="prediction").with_columns(trait=pl.lit(trait))
        )
    stage = SetAssociation(
        traits=traits,
        covariates=("V1", "V2", "V3"),
        max_frequencies=(0.1, 0.05, 0.01),
        tests=("burden", "burden_acat_equal", "sbat", "gene_p"),
        mask_groups={"M1": ("M1",)},  # --rgc-gene-p tests masks of loss of function alone, too
    )
    sets = read_sets(folder / "example_3chr")
    found = run(stage, {"genotypes": cohort, "samples": sheet, "sets": sets, "predictions": pl.concat(predicted)}, 2)[""]
    for trait in traits:
        assert not compare(found.frame, REGENIE / "example_3chr" / f"sets_qt_{trait}.regenie.gz", trait)


def small_tables(**given: Any) -> dict[str, Any]:
    return {"genotypes": Cohort(examples.GENOTYPES, examples.PEOPLE), "samples": examples.SHEET, "sets": TABLES["sets"], **given}


def test_set_association__is_the_same_for_any_parts(workers: ClusterSession) -> None:
    found = same_for_any_parts(TESTED, small_tables(), workers)[""]
    assert found.counts["sets_tested"] == 3
    assert set(found.frame["test"]) == set(NAMES) - {"burden_acat_equal"}
    one = found.frame.filter((pl.col("set_id") == "C") & (pl.col("trait") == "ldl") & pl.col("test").is_in(["burden", "skat", "skat_o"]))
    assert one["variants_used"].unique().to_list() == [1]
    assert one["p_value"].max() == pytest.approx(one["p_value"].min(), rel=1e-4)


def test_set_association__leaves_out_what_is_too_rare_and_what_no_prediction_leaves_out() -> None:
    stage = SetAssociation(traits=("ldl",), tests=("burden",), max_frequencies=(0.3,), min_mac=1000)
    found = run(stage, small_tables())[""]
    assert found.frame.is_empty()
    assert found.counts["masks_too_rare"] > 0
    predictions = examples.PREDICTIONS.filter(pl.col("chromosome") != "2")
    found = run(TESTED, small_tables(predictions=predictions))[""]
    assert (found.counts["sets_tested"], found.counts["sets_not_tested"]) == (2, 1)
    assert "B" not in found.frame["set_id"]


def test_set_association__of_dosages_is_that_of_calls() -> None:
    counts = np.where(Cohort(examples.GENOTYPES, examples.PEOPLE).codes == 3, np.nan, Cohort(examples.GENOTYPES, examples.PEOPLE).codes)
    dosages = Part(examples.GENOTYPES.frame, {"alt_dosages": counts.astype(np.float32)})
    tables = {**TABLES, "genotypes": dosages}
    example = StageExample(TESTED, tables, {"alt_dosages": examples.PEOPLE}, dict.fromkeys(P_VALUES, 1e-6))
    from pipeline.tables.session import Session

    example.check(example.run(Session()), EXAMPLES[0].run(Session()))


def test_set_association__refuses_sets_that_are_none() -> None:
    with pytest.raises(DataError, match=r"the set 'A' has variants on chromosomes 1 and 2\. Give a set"):
        run(TESTED, small_tables(sets=pl.concat([SETS, pl.DataFrame({"set_id": ["A"], "variant_id": ["rs35"], "masks": ["M1"]})])))
    with pytest.raises(DataError, match="the variant 'rs1' of the set 'A' comes twice"):
        run(TESTED, small_tables(sets=pl.concat([TABLES["sets"], SETS.filter(pl.col("variant_id") == "rs1")])))
    with pytest.raises(StageError, match="masks"):
        plan_stage(TESTED, {**TABLES, "sets": SETS.drop("masks")}, examples.AXES)
    with pytest.raises(ValueError, match="names one twice"):
        SetAssociation(traits=("ldl",), max_frequencies=(0.1, 0.1))
    with pytest.raises(ValueError, match="above 0"):
        SetAssociation(traits=("ldl",), weights=(0, 25))


def summed_cohort(people: int = 240) -> tuple[dict[str, Any], SetAssociation]:
    """Three sets of nine variants, rare ones, a singleton, some whose ALT is frequent, 4 % missing, a trait and a covariate."""
    rng = np.random.default_rng(8)
    frequency = np.exp(rng.uniform(np.log(0.004), np.log(0.06), (27, 1)))
    frequency[[4, 13, 20]] = 1 - frequency[[4, 13, 20]]
    calls = rng.binomial(2, frequency, (27, people)).astype(np.uint8)
    calls[2], calls[2, 7] = 0, 1
    trait = (calls[[0, 1, 4, 5]].sum(axis=0) + rng.normal(0, 1.5, people)).round(5)
    calls[rng.random(calls.shape) < 0.04] = 3
    calls[2, 7], calls[11:18:3] = 1, np.where(rng.random((3, people)) < 0.3, 3, calls[11:18:3])
    names = [f"v{row}" for row in range(27)]
    frame = pl.DataFrame(
        {
            "chromosome": "1", "base_pair_location": 100 * np.arange(27) + 1, "variant_id": names, "ref": "A", "alt": "G"
        }
    )  # fmt: skip
    sheet = pl.DataFrame({"sample_id": [f"p{i}" for i in range(people)], "y": trait, "age": rng.normal(0, 1, people).round(4)})
    masks = pl.Series(["M1,M2", "M2"]).gather(np.arange(27) % 2).to_list()
    sets = {"set_id": [f"g{row // 9}" for row in range(27)], "variant_id": names, "masks": masks}
    places = {"chromosome": "1", "base_pair_location": [900 * (row // 9) + 1 for row in range(27)]}
    stage = SetAssociation(
        traits=("y",), covariates=("age",), burden="sum", max_frequencies=(0.005, 0.03), component_max_frequency=1,
        collapse_mac=5, min_mac=1, tests=("burden", "skat", "skat_o", "acat_v", "burden_acat"),
    )  # fmt: skip
    cohort = Cohort(Part(frame, {"calls": pack(calls)}), sheet.select("sample_id"))
    return {"genotypes": cohort, "samples": sheet, "sets": pl.DataFrame({**sets, **places})}, stage


SUMMED = {
    # regenie 4.1.2 --qt --build-mask sum --vc-tests skat,skato,acatv --vc-MACthr 5 --joint acat: -log10 p, and people
    ("g0.M1.singleton", "burden"): (0.517494, 232), ("g0.M1.0.005", "burden"): (0.00211293, 240),
    ("g0.M1.0.03", "burden"): (1.29647, 240), ("g0.M1.all", "acat_v"): (1.03117, 240), ("g0.M1.all", "skat"): (0.929431, 240),
    ("g0.M1.all", "skat_o"): (0.733378, 240), ("g0.M1.all", "burden"): (1.93938, 240), ("g0.M2.singleton", "burden"): (0.517494, 232),
    ("g0.M2.0.005", "burden"): (0.00211293, 240), ("g0.M2.0.03", "burden"): (1.37493, 240), ("g0.M2.all", "acat_v"): (1.92758, 240),
    ("g0.M2.all", "skat"): (1.83922, 240), ("g0.M2.all", "skat_o"): (1.74891, 240), ("g0.M2.all", "burden"): (3.72601, 240),
    ("g0", "burden_acat"): (2.79967, 240), ("g1.M1.singleton", "burden"): (0.0381578, 234), ("g1.M1.0.005", "burden"): (0.0381578, 234),
    ("g1.M1.0.03", "burden"): (0.546744, 240), ("g1.M1.all", "acat_v"): (0.339689, 240), ("g1.M1.all", "skat"): (0.243624, 240),
    ("g1.M1.all", "skat_o"): (0.39651, 240), ("g1.M1.all", "burden"): (0.546744, 240), ("g1.M2.singleton", "burden"): (0.0381578, 234),
    ("g1.M2.0.005", "burden"): (0.0381578, 234), ("g1.M2.0.03", "burden"): (0.0476078, 240), ("g1.M2.all", "acat_v"): (0.536721, 240),
    ("g1.M2.all", "skat"): (0.410514, 240), ("g1.M2.all", "skat_o"): (0.243599, 240), ("g1.M2.all", "burden"): (0.321256, 240),
    ("g1", "burden_acat"): (0.0691258, 240),
}  # fmt: skip


def test_set_association__of_sums_and_of_frequent_alleles_gives_what_regenie_printed() -> None:
    data, stage = summed_cohort()
    found = run(stage, data, 2)[""].frame.filter(pl.col("set_id") != "g2")
    seen = {}
    for row in found.iter_rows(named=True):
        name = ".".join(filter(None, (row["set_id"], row["mask"], row["frequency_bin"])))
        seen[name, row["test"]] = row["neg_log_10_p_value"], row["n"]
    assert seen.keys() == SUMMED.keys()
    for key, (logarithm, people) in SUMMED.items():
        assert seen[key][0] == pytest.approx(logarithm, abs=4e-3 if key[1].startswith("skat") else 2e-5), key
        if key[1] == "burden":
            assert seen[key][1] == people, key


def frequent_cohort(people: int = 300) -> dict[str, Any]:
    """Four sets of seven variants, of which each has frequent ALT and rare, 2 % missing; a binary trait and a covariate."""
    rng = np.random.default_rng(30)
    frequency = np.concatenate([rng.uniform(0.3, 0.95, (4, 4)), rng.uniform(0.01, 0.08, (4, 3))], axis=1).reshape(28, 1)
    calls = rng.binomial(2, frequency, (28, people)).astype(np.uint8)
    age = rng.normal(0, 1, people).round(4)
    liability = 0.5 * age + calls[[0, 2, 5, 8, 12, 15, 23]].sum(axis=0) + rng.normal(0, 1.5, people)
    ill = (liability > np.quantile(liability, 0.7)).astype(float)
    calls[rng.random(calls.shape) < 0.02] = 3
    names = [f"v{row}" for row in range(28)]
    frame = pl.DataFrame({"chromosome": "1", "base_pair_location": 100 * np.arange(28) + 1, "variant_id": names, "ref": "A", "alt": "G"})
    sheet = pl.DataFrame({"sample_id": [f"p{i}" for i in range(people)], "ill": ill, "age": age})
    cohort = Cohort(Part(frame, {"calls": pack(calls)}), sheet.select("sample_id"))
    sets = pl.DataFrame({"set_id": [f"g{row // 7}" for row in range(28)], "variant_id": names, "masks": "M1"})
    return {"genotypes": cohort, "samples": sheet, "sets": sets}


FREQUENT: dict[tuple[Burden, PredictedMethod], dict[str, list[float]]] = {
    # regenie 4.1.2 --bt --ignore-pred --aaf-bins 0.1 --vc-MACthr 5 --vc-tests skat,acatv --skat-params 1,1 --joint acat, of sets' variants
    # with --skip-fast-firth: -log10 p of the four sets, of burdens up to 0.1 and of all
    ("sum", "firth_approximate"): {
        "burden": [3.36397, 5.80338, 0.0350494, 0.751737, 1.28299, 1.39576, 0.890279, 0.365302],
        "skat": [5.89005, 1.51534, 3.44427, 4.01004],
        "acat_v": [3.67365, 2.80928, 3.82647, 4.1401],
        "burden_acat": [5.50392, 0.107955, 1.34297, 0.674964],
    },
    ("sum", "spa"): {
        "burden": [3.51842, 5.90437, 0.0350494, 0.751737, 1.28299, 1.40293, 0.890279, 0.365302],
        "skat": [5.92537, 1.50201, 3.42354, 3.99707],
        "acat_v": [3.81838, 2.58196, 3.69447, 4.05522],
        "burden_acat": [5.60513, 0.107955, 1.34703, 0.674964],
    },
    ("max", "firth_approximate"): {
        "burden": [4.24266, 0.480212, 0.0625694, 1.14289, 1.25919, 0.513391, 0.749215, 0.341815],
        "skat": [5.89005, 1.51534, 3.44427, 4.01004],
        "acat_v": [3.67365, 2.80928, 3.82647, 4.1401],
        "burden_acat": [3.40459, 1.13543, 1.08765, 0.346946],
    },
    ("max", "spa"): {
        "burden": [4.40523, 0.480212, 0.0625694, 1.14289, 1.25919, 0.513391, 0.749215, 0.341815],
        "skat": [5.92537, 1.50201, 3.42354, 3.99707],
        "acat_v": [3.81838, 2.58196, 3.69447, 4.05522],
        "burden_acat": [3.56706, 1.13543, 1.08765, 0.346946],
    },
}


@pytest.mark.parametrize(("burden", "method"), FREQUENT)
def test_set_association__of_binary_traits_and_frequent_alleles_gives_what_regenie_printed(burden: Burden, method: PredictedMethod) -> None:
    stage = SetAssociation(
        traits=("ill",), covariates=("age",), kind="binary", method=method, burden=burden, weights=(1, 1), max_frequencies=(0.1,),
        singletons=False, collapse_mac=5, tests=("burden", "skat", "acat_v", "burden_acat"),
    )  # fmt: skip
    found = run(stage, frequent_cohort())[""].frame
    for test, logarithms in FREQUENT[burden, method].items():
        own = found.filter(pl.col("test") == test).sort("set_id", "frequency_bin")["neg_log_10_p_value"].to_list()
        assert own == pytest.approx(logarithms, abs=2e-3 if test == "skat" else 1e-4), test


def test_set_association__has_singletons_in_every_bin_once() -> None:
    data, stage = summed_cohort()
    found = run(stage.model_copy(update={"max_frequencies": (0.002, 0.03), "tests": ("burden",)}), data)[""].frame
    columns = ["set_id", "mask", "variants_used", "n", "beta", "p_value"]
    rarest, singletons = (found.filter(frequency_bin=name).select(columns) for name in ("0.002", "singleton"))
    assert singletons.height == 5
    assert_frame_equal(rarest, singletons, rel_tol=1e-9)
