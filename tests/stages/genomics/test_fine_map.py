"""fine_map: variants that act are found in simulated loci, from any parts, alleles either way round, with a panel that lacks some calls."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.kernels.single_effects import single_effects
from pipeline.stages.genomics.fine_map import FineMap
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests.stages.genomics.cohorts import Cohort, Found, run, same_for_any_parts
from tests.stages.genomics.test_dosages import certain
from tests.stages.genomics.test_ld_prune import scrambled

PEOPLE, VARIANTS = 800, 60
ACTING = {"trait_a": {12: 0.5, 41: -0.45}, "trait_b": {12: 0.6}}


@cache
def cohort(people: int = PEOPLE) -> Cohort:
    """Two loci on chromosomes 1 and 2 of thirty linked variants each; the last of all does not vary."""
    codes = np.zeros((VARIANTS, people), np.uint8)
    state = scrambled(2, people, 3)
    for row in range(VARIANTS):
        mixed = scrambled(2, people, 100 + row)
        state = np.where(scrambled(2, people, 500 + row) < (1 if row == 30 else 0.2), mixed, state)
        codes[row] = (state < 0.25 + 0.4 * (row % 7) / 7).sum(axis=0)
    codes[-1] = 0
    place = np.arange(VARIANTS)
    frame = pl.DataFrame(
        {
            "chromosome": np.where(place < 30, "1", "2"),
            "base_pair_location": 1000 * (place % 30) + 500,
            "variant_id": [f"v{number}" for number in place],
            "ref": "A",
            "alt": "G",
        }
    )
    return Cohort(Part(frame, {"calls": pack(codes)}), pl.DataFrame({"sample_id": [f"p{i}" for i in range(people)]}))


@cache
def scan() -> pl.DataFrame:
    """Marginal regressions of each trait on each variant; effects are of REF in every third row."""
    x = cohort().codes.astype(float)
    x -= x.mean(axis=1, keepdims=True)
    tables = []
    for trait, acting in ACTING.items():
        noise = np.sqrt(12) * (scrambled(6, PEOPLE, len(trait) + len(acting)).mean(axis=0) - 0.5) * np.sqrt(6)
        y = sum(effect * x[row] for row, effect in acting.items()) + noise
        y -= y.mean()
        squares = np.maximum((x**2).sum(axis=1), 1e-9)
        beta = x @ y / squares
        error = np.sqrt(((y - x * beta[:, None]) ** 2).sum(axis=1) / (PEOPLE - 2) / squares)
        turned = np.arange(VARIANTS) % 3 == 0
        tables.append(
            cohort().rows.frame.select(
                "chromosome",
                "base_pair_location",
                "variant_id",
                effect_allele=pl.Series(np.where(turned, "A", "G")),
                other_allele=pl.Series(np.where(turned, "G", "A")),
                beta=pl.Series(np.where(turned, -beta, beta)),
                standard_error=pl.Series(error),
                n=pl.lit(PEOPLE, pl.Int64),
                trait=pl.lit(trait),
            )
        )
    return pl.concat(tables)


HITS = pl.DataFrame(
    [("trait_a", "1", 12_500), ("trait_b", "1", 12_500), ("trait_a", "2", 11_500), ("trait_a", "1", 14_500)],
    schema=["trait", "chromosome", "base_pair_location"],
    orient="row",
)
DATA: dict[str, Any] = {"associations": scan(), "genotypes": cohort(), "loci": HITS}
NUMBERS = ("inclusion_probability", "effect_mean", "effect_sd", "coverage", "purity", "log_10_bayes_factor")
EXAMPLES = [
    StageExample(
        FineMap(kb=10, effects=2), {"associations": scan(), "genotypes": cohort().rows, "loci": HITS}, {"calls": cohort().people},
        dict.fromkeys(NUMBERS, 1e-5), ordered=True,
    ),
]  # fmt: skip


def mapped(**given: Any) -> dict[str, Found]:
    return run(FineMap(**{"kb": 40, "effects": 5, **given}), DATA)


def test_fine_map__finds_what_acts_in_each_locus_of_each_trait() -> None:
    found = mapped()
    sets = found["sets"].frame
    assert sets.select("locus", "trait", "credible_set", "variant_id").rows() == [
        ("1:1-54500", "trait_a", 1, "v12"), ("2:1-51500", "trait_a", 1, "v41"), ("1:1-52500", "trait_b", 1, "v12"),
    ]  # fmt: skip
    assert (sets["coverage"] >= 0.95).all()
    assert (sets["purity"] >= 0.5).all()
    assert [len(ids.split(",")) for ids in sets["variant_ids"]] == sets["variants"].to_list()
    own = found[""].frame
    inside = own.filter(pl.col("credible_set").is_not_null())
    assert inside.height == sets["variants"].sum()
    tops = own.sort("inclusion_probability", descending=True, maintain_order=True).head(3)
    assert set(tops["variant_id"]) <= {"v12", "v41"}
    assert found[""].counts == {
        "loci": 3, "variants": 89, "without_effect": 0, "unmatched": 0, "not_varying": 1, "not_settled": 0, "sets": 3
    }  # fmt: skip


def test_fine_map__takes_effects_of_either_allele() -> None:
    """v12's effect is given of REF, v41's of ALT, which acts the other way; in standard deviations of trait and calls."""
    own = mapped()[""].frame.filter(trait="trait_a")
    x = cohort().codes.astype(float)
    for name, row, sign in (("v12", 12, -1), ("v41", 41, 1)):
        one = own.filter(variant_id=name).row(0, named=True)
        z = one["beta"] / one["standard_error"]
        assert np.sign(one["effect_mean"]) == np.sign(z) == np.sign(sign * ACTING["trait_a"][row])
        assert x[row].std() > 0
        assert abs(one["effect_mean"]) == pytest.approx(abs(z) / np.sqrt(z**2 + PEOPLE - 2), rel=0.35)


def test_fine_map__is_the_kernel_with_numpys_correlations() -> None:
    own = mapped()[""].frame.filter(trait="trait_b")
    z = (own["beta"] / own["standard_error"]).to_numpy() * np.where(own["effect_allele"] == "G", 1, -1)
    r = np.corrcoef(cohort().codes[:30].astype(float))
    expected = single_effects(z, r, PEOPLE, 5)
    np.testing.assert_allclose(own["inclusion_probability"], expected.inclusion, atol=1e-6)


def test_fine_map__is_the_same_for_any_parts(workers: ClusterSession) -> None:
    few = {**DATA, "loci": HITS[:3]}
    found = same_for_any_parts(FineMap(kb=10, effects=2), few, workers)
    assert found[""].frame["locus"].unique().sort().to_list() == ["1:2500-22500", "2:1500-21500"]


def test_fine_map__of_loci_without_traits_is_of_all_and_empty_loci_are_none() -> None:
    plain = {**DATA, "loci": HITS.select("chromosome", "base_pair_location")[:1]}
    assert run(FineMap(kb=5), plain)["sets"].frame["trait"].to_list() == ["trait_a", "trait_b"]
    nowhere = {**DATA, "loci": HITS[:1].with_columns(base_pair_location=pl.lit(9_000_000))}
    found = run(FineMap(kb=5), nowhere)
    assert (found[""].frame.height, found["sets"].frame.height, found[""].counts["loci"]) == (0, 0, 1)
    untold: dict[str, Any] = {"associations": scan().filter(trait="trait_b").drop("trait"), "genotypes": cohort(), "loci": HITS[:1]}
    assert run(FineMap(kb=5), untold)["sets"].frame["variant_id"].to_list() == ["v12"]


def test_fine_map__refuses_what_does_not_fit() -> None:
    with pytest.raises(DataError, match=r"locus 1:1-54500 has 30 variants, and linkage of 20 at most is looked at"):
        mapped(max_variants=20)
    strange = {**DATA, "associations": scan().with_columns(variant_id=pl.lit("x"))}
    with pytest.raises(DataError, match=r"no association of locus 1:1-54500 finds its calls\. x is at 1:500"):
        run(FineMap(kb=40), strange)
    with pytest.raises(StageError, match="no column 'n'"):
        plan_stage(FineMap(), {"associations": scan().drop("n"), "genotypes": cohort().rows, "loci": HITS}, {"calls": cohort().people})


def test_fine_map__of_dosages_is_of_the_calls_nearest_to_them() -> None:
    given = {**DATA, "genotypes": certain(cohort())}
    assert run(FineMap(kb=10, effects=2), given, 3)[""].frame.equals(run(FineMap(kb=10, effects=2), DATA)[""].frame)


def test_fine_map__refuses_associations_of_another_species() -> None:
    cattle = {**DATA, "associations": scan().with_columns(autosomes=pl.lit(29, pl.Int16))}
    with pytest.raises(DataError, match="associations and genotypes are of different chromosome sets, 29 autosomes and 22"):
        run(FineMap(kb=10, effects=2), cattle)
