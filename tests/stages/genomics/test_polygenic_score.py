"""polygenic_score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.polygenic_score import PolygenicScore
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, plan_stage, run_parts
from tests import example_tables as examples
from tests.kernels.plink_files import assert_printed, floats, needs_data, read_columns
from tests.stages.genomics.cohorts import HAPMAP3, Cohort, hapmap3, run, same_for_any_parts, small_cohort

EFFECT = pl.when(pl.col("pc1") > 0).then("alt").otherwise("ref")
WEIGHTS = examples.LOADINGS[::2].select("variant_id", effect_allele=EFFECT, weight="pc2")
SCORED: Tables = {"genotypes": examples.GENOTYPES, "weights": WEIGHTS}
P_VALUE = pl.int_range(1, pl.len() + 1) / pl.len()
THRESHOLDED: Tables = {**SCORED, "weights": WEIGHTS.with_columns(beta="weight", p_value=P_VALUE)}
SCORES = {"score_sum": examples.P_VALUES, "score_average": examples.P_VALUES}
EXAMPLES = [
    StageExample(PolygenicScore(), SCORED, examples.AXES, SCORES),
    StageExample(PolygenicScore(missing="ignore"), SCORED, examples.AXES, SCORES),
    StageExample(PolygenicScore(weight="beta", thresholds=(0.5, 1.0)), THRESHOLDED, examples.AXES, SCORES),
]

Missing = Literal["mean", "ignore"]
PRINTED = {0.3: {"NA19916": -0.988717, "NA19835": -1.43929}, 1.0: {"NA19916": -0.354484, "NA19835": -1.51291}}
"""SCORE1_SUM of plink2 --q-score-range for two people of HapMap 3, by the greatest p-value."""


def weights_of(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, ["variant_id", "effect_allele", "weight"], orient="row")


def small_weights(cohort: Cohort | None = None) -> pl.DataFrame:
    """Weights of most variants, every third for REF, in another order, with strangers and a wrong allele."""
    frame = (cohort or small_cohort()).rows.frame[:50]
    rng = np.random.default_rng(2)
    allele = pl.when(pl.int_range(pl.len()) % 3 == 0).then("ref").otherwise("alt")
    known = frame.select("variant_id", effect_allele=allele, weight=pl.Series(rng.normal(size=frame.height)))
    others = weights_of(("rs51", "AC", 9.0), ("x1", "A", 9.0), ("x2", "C", 9.0))
    return pl.concat([known, others])[rng.permutation(frame.height + 3)]


@needs_data
@pytest.mark.parametrize(("missing", "name"), [("mean", "prs"), ("ignore", "prs_nomeanimp")])
def test_polygenic_score__is_what_plink_printed_for_hapmap3(missing: Missing, name: str) -> None:
    weights = weights_of(*((i, a, float(w)) for i, a, w in (line.split() for line in (HAPMAP3 / "prs.weights").read_text().splitlines())))
    found = run(PolygenicScore(missing=missing), {"genotypes": hapmap3(), "weights": weights}, 4)[""]
    table = read_columns(HAPMAP3 / f"{name}.sscore")
    assert found.frame["sample_id"].to_list() == table["IID"].tolist()
    assert_printed(found.frame["score_sum"], table["SCORE1_SUM"], 5e-6)
    assert_printed(found.frame["score_average"], table["SCORE1_AVG"], 5e-6)
    # PLINK prints the called alleles either way, and divides by all of them where it imputes.
    used = floats(table["ALLELE_CT"]) / 2 if missing == "ignore" else np.full(957, 11)
    assert found.frame["variants_used"].to_list() == used.tolist()
    assert found.counts == {"weights_in": 11, "weights_unmatched": 0, "other_alleles": 0, "weights_out": 11}


@pytest.mark.parametrize("missing", ["mean", "ignore"])
def test_polygenic_score__is_the_same_in_any_parts_and_processes(missing: Missing, workers: ClusterSession) -> None:
    weights = small_weights()
    found = same_for_any_parts(PolygenicScore(missing=missing), {"genotypes": small_cohort(), "weights": weights}, workers)[""]
    assert found.frame.schema == pl.Schema(
        {"sample_id": pl.String(), "score_sum": pl.Float64(), "score_average": pl.Float64(), "variants_used": pl.Int64()}
    )
    assert found.counts == {"weights_in": 53, "weights_unmatched": 2, "other_alleles": 1, "weights_out": 50}
    turned = run(PolygenicScore(missing=missing), {"genotypes": small_cohort(), "weights": weights.reverse()})[""]
    np.testing.assert_allclose(turned.frame["score_sum"], found.frame["score_sum"], rtol=1e-12)


@pytest.mark.parametrize("missing", ["mean", "ignore"])
def test_polygenic_score__equals_the_definition_with_one_allele_on_mt(missing: Missing) -> None:
    cohort, weights = small_cohort(), small_weights()
    found = run(PolygenicScore(missing=missing), {"genotypes": cohort, "weights": weights}, 2)[""].frame
    by_id = {row["variant_id"]: row for row in weights.iter_rows(named=True)}
    sums, alleles, used = np.zeros((3, cohort.people.height))
    for row, codes in zip(cohort.rows.frame.iter_rows(named=True), cohort.codes, strict=True):
        weight = by_id.get(row["variant_id"])
        if weight is None or weight["effect_allele"] not in (row["ref"], row["alt"]):
            continue
        called, ploidy = codes != 3, 1 if row["chromosome"] == "MT" else 2
        effect = (2.0 - codes if weight["effect_allele"] == row["ref"] else codes.astype(float)) * ploidy / 2
        effect[~called] = effect[called].mean() if missing == "mean" else 0
        counts = called | (missing == "mean")
        sums, alleles, used = sums + weight["weight"] * effect, alleles + ploidy * counts, used + counts
    np.testing.assert_allclose(found["score_sum"], sums, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["score_average"], sums / alleles, rtol=1e-12, atol=1e-12)
    assert found["variants_used"].to_list() == used.tolist()


def test_polygenic_score__counts_mt_as_plink_does() -> None:
    """PLINK 2.00a3.5 gave five homozygous calls on MT, of weight 0.5 each, a sum of 2.5 of 5 alleles."""
    cohort = small_cohort(8, 3)
    rows = cohort.rows.frame.with_columns(chromosome=pl.lit("MT"))[:5]
    calls = np.full((5, 1), 0b101010, np.uint8)
    weights = rows.select("variant_id", effect_allele="alt", weight=pl.lit(0.5))
    found = run(PolygenicScore(), {"genotypes": Cohort(Part(rows, {"calls": calls}), cohort.people), "weights": weights})[""].frame
    assert found.rows() == [(f"p{i}", 2.5, 0.5, 5) for i in range(3)]


def family_with_sexes() -> Cohort:
    """Ten people, the last three children of the first three, with missing calls, men who are heterozygous on X, women called on Y."""
    calls = ["0120321012", "2103021301", "0022031210", "2031202013", "0333323330", "2333033032", "0220022032", "2003220202"]
    rows = pl.DataFrame(
        {
            "chromosome": ["1", "1", "X", "X", "Y", "Y", "MT", "MT"],
            "variant_id": [f"v{i}" for i in range(8)],
            "ref": ["A"] * 8,
            "alt": ["G"] * 8,
        }
    ).with_columns(base_pair_location=pl.int_range(8) * 1000 + 3_000_000)
    fathers, mothers = [*[None] * 7, "p0", "p0", "p0"], [*[None] * 7, "p1", "p1", "p2"]
    people = pl.DataFrame({"sample_id": [f"p{i}" for i in range(10)], "father_id": fathers, "mother_id": mothers}).with_columns(
        sex=pl.Series([1, 2, 2, 2, 1, 1, 2, 2, 1, 1], dtype=pl.Int8)
    )
    packed = pack(np.array([[int(call) for call in of_one] for of_one in calls], np.uint8))
    return Cohort(Part(rows, {"calls": packed}), people)


@pytest.mark.parametrize("dosages", [False, True])
def test_polygenic_score__imputes_by_founders_with_men_alone_on_y_as_plink_printed(*, dosages: bool) -> None:
    """PLINK 2.00a3.5: --score 1 2 3 header cols=+scoresums, with --bad-freqs for so few people."""
    cohort = family_with_sexes()
    weights = weights_of(*((f"v{i}", "AG"[i % 2], w) for i, w in enumerate([0.5, -1, 0.25, 2, 1.5, -0.75, 1, 0.3])))
    if dosages:
        held = np.where(cohort.codes == 3, np.nan, cohort.codes).astype(np.float32)
        cohort = Cohort(replace(cohort.rows, arrays={"alt_dosages": held}), cohort.people)
    found = run(PolygenicScore(), {"genotypes": cohort, "weights": weights}, 3)[""].frame
    averages = [0.4625, 0, 0.222222, 0.315, 0.5875, -0.152083, 0.375, 0.13, 0.296131, 0.231019]
    np.testing.assert_allclose(found["score_sum"], [5.55, 0, 2.22222, 3.15, 7.05, -1.825, 3.75, 1.3, 3.55357, 2.77222], atol=5e-6)
    np.testing.assert_allclose(found["score_average"], averages, atol=5e-7)
    assert found["variants_used"].to_list() == [8, 6, 6, 6, 8, 8, 6, 6, 8, 8]
    everyones = run(PolygenicScore(founders_only=False), {"genotypes": cohort, "weights": weights})[""].frame
    assert (everyones["score_sum"] != found["score_sum"]).any()


@pytest.mark.parametrize("missing", ["mean", "ignore"])
def test_polygenic_score__takes_dosages_where_there_are_some(missing: Missing) -> None:
    cohort, weights = small_cohort(), small_weights()
    dosages = np.where(cohort.codes == 3, np.nan, cohort.codes).astype(np.float32)
    stage, axes = PolygenicScore(missing=missing), {"calls": cohort.people, "alt_dosages": cohort.people}
    of_calls = run(stage, {"genotypes": cohort, "weights": weights})[""].frame
    for arrays in ({"alt_dosages": dosages}, {"alt_dosages": dosages, "calls": np.zeros_like(cohort.rows.arrays["calls"])}):
        tables = {"genotypes": [Part(cohort.rows.frame, arrays)], "weights": [Part(weights)]}
        found = run_parts(stage, tables, Session(), axes)[""][0].frame
        np.testing.assert_allclose(found["score_sum"], of_calls["score_sum"], rtol=1e-12)
        assert found["variants_used"].equals(of_calls["variants_used"])


def test_polygenic_score__is_null_for_a_person_without_calls() -> None:
    weights = weights_of(("rs59", "A", 1.0), ("rs1", "G", 0.5))
    cohort = small_cohort()
    person = int(np.flatnonzero(cohort.codes[1] == 3)[0])
    found = run(PolygenicScore(missing="ignore"), {"genotypes": cohort, "weights": weights})[""].frame
    assert found.row(person)[1:] == (None, None, 0)
    assert found["score_sum"].null_count() == int((cohort.codes[1] == 3).sum())


def test_polygenic_score__refuses_weights_that_meet_nothing() -> None:
    cases = [
        (weights_of(("chr1:5", "A", 1.0)), r"none of the 1 weights is in the genotype table; .*'chr1:5'.* the genotypes \['rs0', 'rs1'\]"),
        (weights_of(("rs0", "T", 1.0)), "none of the 1 weights has its alleles in the genotype table"),
    ]
    for weights, message in cases:
        with pytest.raises(DataError, match=f"stage tested: {message}"):
            run(PolygenicScore(), {"genotypes": small_cohort(), "weights": weights}, 3)


def test_polygenic_score__refuses_weights_given_twice_and_weights_that_are_no_numbers() -> None:
    cases = [
        (weights_of(("rs0", "A", 1.0), ("rs0", "A", 2.0)), "the weights name 'rs0' with effect allele 'A' more than once"),
        (weights_of(("rs0", "A", 1.0), ("rs1", "C", float("nan"))), "1 rows of the weights lack .* such as .'rs1', 'C', nan"),
        (weights_of(("rs0", "A", 1.0), ("rs1", "C", None)), "1 rows of the weights lack"),
        (weights_of(("rs0", "A", 1.0), (None, "C", 1.0)), "1 rows of the weights lack"),
    ]
    for weights, message in cases:
        with pytest.raises(DataError, match=f"stage tested: {message}"):
            run(PolygenicScore(), {"genotypes": small_cohort(), "weights": weights})


def test_polygenic_score__refuses_a_weight_of_several_variants_but_not_two_alleles_of_one_site() -> None:
    cohort = small_cohort(12, 5)
    split = cohort.rows.frame.with_columns(
        variant_id=pl.Series([*(f"rs{i}" for i in range(10)), "m", "m"]),
        ref=pl.Series([*"ACGTACGTAC", "A", "A"]),
        alt=pl.Series([*"CGTACGTACG", "C", "G"]),
    )
    data = Cohort(cohort.rows.replaced(split), cohort.people)
    fine = run(PolygenicScore(), {"genotypes": data, "weights": weights_of(("rs0", "C", 1.0), ("m", "C", 1.0))}, 3)[""]
    assert fine.counts["weights_out"] == 2
    with pytest.raises(DataError, match=r"stage tested: 1 weights meet several variants of the genotype table each, such as 'm'"):
        run(PolygenicScore(), {"genotypes": data, "weights": weights_of(("rs0", "C", 1.0), ("m", "A", 1.0))}, 3)


def test_polygenic_score__refuses_tables_without_its_columns() -> None:
    cohort, weights = small_cohort(), small_weights()
    axes = {"calls": cohort.people}
    cases: list[tuple[Any, pl.DataFrame, str]] = [
        (cohort.rows.frame, weights, "the table given as 'genotypes' has no calls"),
        (cohort.rows, weights.rename({"weight": "weights"}), "the table given as 'weights' has no column 'weight'.*weights"),
        (cohort.rows, weights.cast({"weight": pl.String}), "column 'weight' is String, and numbers are needed"),
        (
            cohort.rows,
            weights.with_columns(variant_id=1),
            "column 'variant_id' of the table given as 'weights' is Int32, and text is needed",
        ),
    ]
    for genotypes, given, message in cases:
        with pytest.raises(StageError, match=message):
            plan_stage(PolygenicScore(), {"genotypes": genotypes, "weights": given}, axes)


def placed(cohort: Cohort) -> pl.DataFrame:
    """Weights of a small cohort's variants by their places, as a PGS Catalog file has them: no ids of ours, some with no other allele."""
    weights = small_weights(cohort).join(cohort.rows.frame, on="variant_id")
    other = pl.when(pl.col("effect_allele") == pl.col("alt")).then("ref").otherwise("alt")
    known = pl.when(pl.int_range(pl.len()) % 2 == 0).then(other)
    chromosome = pl.format("chr{}", pl.col("chromosome").str.strip_prefix("chr")).alias("chromosome")
    return weights.select(chromosome, "base_pair_location", "effect_allele", "weight", other_allele=known)


def test_polygenic_score__by_position_is_that_by_id() -> None:
    cohort = small_cohort()
    by_id = run(PolygenicScore(), {"genotypes": cohort, "weights": small_weights()})[""]
    nowhere = {"chromosome": [None], "base_pair_location": [None], "effect_allele": ["A"], "weight": [9.0], "other_allele": [None]}
    unplaced = pl.DataFrame(nowhere)
    other = placed(cohort).filter(pl.col("other_allele").is_not_null()).head(1).with_columns(other_allele=pl.lit("CCC"))
    weights = pl.concat([placed(cohort), unplaced, other], how="vertical_relaxed")
    found = run(PolygenicScore(match="position"), {"genotypes": cohort, "weights": weights}, 3)[""]
    np.testing.assert_allclose(found.frame["score_sum"], by_id.frame["score_sum"], rtol=1e-12)
    assert found.frame["variants_used"].equals(by_id.frame["variants_used"])
    assert found.counts["weights_out"] == by_id.counts["weights_out"]
    twice = pl.concat([placed(cohort), placed(cohort).head(1)])
    with pytest.raises(DataError, match="more than once"):
        run(PolygenicScore(match="position"), {"genotypes": cohort, "weights": twice})


def test_polygenic_score__of_thresholds_is_that_of_the_weights_below_each(workers: ClusterSession) -> None:
    cohort = small_cohort()
    weights = small_weights().with_columns(p_value=pl.int_range(1, pl.len() + 1) / 53).rename({"weight": "beta"})
    stage = PolygenicScore(weight="beta", thresholds=(0.2, 1.0, 0.001))
    found = same_for_any_parts(stage, {"genotypes": cohort, "weights": weights}, workers)[""]
    for most in (0.2, 1.0):
        some = weights.filter(pl.col("p_value") <= most).rename({"beta": "weight"})
        alone = run(PolygenicScore(), {"genotypes": cohort, "weights": some})[""].frame
        assert found.frame.filter(pl.col("p_threshold") == most).drop("p_threshold").equals(alone)
    none = found.frame.filter(pl.col("p_threshold") == 0.001)
    assert none["score_sum"].null_count() == none.height == len(cohort.people)
    assert found.counts["weights_in"] == 53


@needs_data
def test_polygenic_score__of_thresholds_is_plinks_score_range() -> None:
    lines = [line.split() for line in (HAPMAP3 / "prs.weights").read_text().splitlines()]
    weights = weights_of(*((i, a, float(w)) for i, a, w in lines)).with_columns(p_value=pl.int_range(1, 12) / 11)
    found = run(PolygenicScore(thresholds=(0.3, 1.0)), {"genotypes": hapmap3(), "weights": weights}, 3)[""].frame
    for most, printed in PRINTED.items():
        sums = dict(found.filter(pl.col("p_threshold") == most).select("sample_id", "score_sum").rows())
        assert {name: sums[name] for name in printed} == pytest.approx(printed, abs=5e-6)
