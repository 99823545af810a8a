"""meta_analysis: variants meet by place and alleles, effects of the other allele are turned round, and the numbers are statsmodels'."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.meta_analysis import MetaAnalysis
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, assert_same_for_any_parts, counts_of, plan_stage, run_stage

COLUMNS = ("chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error")
FIRST = pl.DataFrame(
    [
        ("1", 100, "A", "G", 0.2, 0.1, "rs1", "ldl", 0.3, 1000),
        ("1", 200, "T", "C", -0.1, 0.2, "rs2", "ldl", 0.6, 1000),
        ("X", 5, "C", "CAT", 0.4, 0.1, "rs3", "ldl", 0.1, 900),
        ("2", 7, "A", "C", None, None, "rs4", "ldl", 0.0, 1000),
    ],
    schema=[*COLUMNS, "variant_id", "trait", "effect_allele_frequency", "n"],
    orient="row",
)
SECOND = pl.DataFrame(
    [
        ("chr1", 200, "C", "T", 0.3, 0.1, "b", "ldl", 0.3, 3000),
        ("chr1", 100, "A", "T", 0.5, 0.1, "c", "ldl", 0.2, 3000),
        ("23", 5, "CAT", "C", -0.2, 0.2, "d", "ldl", 0.8, 3000),
        ("chr1", 100, "G", "A", -0.1, 0.1, "a", "ldl", 0.6, 3000),
        ("chr1", 100, "A", "G", 0.3, 0.1, "a", "height", 0.4, 3000),
    ],
    schema=FIRST.schema,
    orient="row",
)
BOTH: Tables = {"berlin": FIRST, "oslo": SECOND}
EXAMPLES = [StageExample(MetaAnalysis(min_studies=least), BOTH) for least in (1, 2)]


def pooled(tables: Tables = BOTH, **given: Any) -> pl.DataFrame:
    found = run_stage(MetaAnalysis(**given), tables)[""]
    return found.sort("trait", "chromosome", "base_pair_location", "other_allele") if "trait" in found.columns else found


def test_meta_analysis__meets_by_place_and_alleles_and_turns_effects_round() -> None:
    found = pooled().filter(trait="ldl")
    assert found.select("chromosome", "base_pair_location", "effect_allele", "other_allele", "directions", "studies").rows() == [
        ("1", 100, "A", "G", "++", 2),
        ("1", 100, "A", "T", "?+", 1),
        ("1", 200, "T", "C", "--", 2),
        ("X", 5, "C", "CAT", "++", 2),
    ]
    row = found.row(0, named=True)
    assert row["variant_id"] == "rs1"
    assert row["beta"] == pytest.approx(0.15)
    assert row["standard_error"] == pytest.approx(0.1 / np.sqrt(2))
    assert row["n"] == 4000
    assert row["effect_allele_frequency"] == pytest.approx((0.3 * 1000 + 0.4 * 3000) / 4000)
    weights = 1 / np.array([0.2, 0.1]) ** 2
    assert found["beta"][2] == pytest.approx((weights @ [-0.1, -0.3]) / weights.sum())
    assert found["effect_allele_frequency"][2] == pytest.approx((0.6 * 1000 + 0.7 * 3000) / 4000)
    assert pooled()["trait"].to_list() == ["height", *["ldl"] * 4]


def test_meta_analysis__counts_and_is_the_same_for_any_parts(workers: ClusterSession) -> None:
    by = ["trait", "chromosome", "base_pair_location", "other_allele"]
    assert_same_for_any_parts(MetaAnalysis(), BOTH, by)
    assert_same_for_any_parts(MetaAnalysis(min_studies=2), BOTH, by, session=workers)
    assert counts_of(MetaAnalysis(min_studies=2), BOTH) == {"without_effect": 1, "turned": 3, "variants": 3, "in_few_studies": 2}


def test_meta_analysis__is_statsmodels_and_random_effects_differ_where_studies_do() -> None:
    combine_effects = pytest.importorskip("statsmodels.stats.meta_analysis").combine_effects
    rng = np.random.default_rng(3)
    tables: dict[str, pl.DataFrame] = {}
    for study in range(4):
        variants = pl.DataFrame({"chromosome": ["1"] * 50, "base_pair_location": range(50), "effect_allele": "A", "other_allele": "C"})
        numbers = {"beta": rng.normal(0, 0.3, 50), "standard_error": rng.uniform(0.05, 0.2, 50)}
        tables[f"s{study}"] = variants.with_columns(**{name: pl.Series(values) for name, values in numbers.items()})
    found = pooled(tables).sort("base_pair_location")
    assert "trait" not in found.columns
    for row in range(50):
        beta, error = (np.array([table[name][row] for table in tables.values()]) for name in ("beta", "standard_error"))
        with np.errstate(invalid="ignore"):  # statsmodels goes on with a variance below 0
            expected = combine_effects(beta, error**2, method_re="dl", use_t=False)
        assert found["beta"][row] == pytest.approx(expected.mean_effect_fe)
        assert found["p_heterogeneity"][row] == pytest.approx(expected.test_homogeneity().pvalue, rel=1e-9)
        if expected.tau2 > 0:
            assert found["standard_error_random"][row] == pytest.approx(expected.sd_eff_w_re)
            assert found["p_value_random"][row] > found["p_value"][row] or abs(expected.mean_effect_re) > abs(expected.mean_effect_fe)
    assert found["n"].null_count() == found["effect_allele_frequency"].null_count() == 50


def test_meta_analysis__refuses_a_variant_that_is_there_twice_and_what_it_cannot_pool() -> None:
    with pytest.raises(DataError, match=r"study 'oslo' has the variant 1:100 A/G more than once for trait 'ldl'\. Use drop_duplicates"):
        pooled({"berlin": FIRST, "oslo": pl.concat([SECOND, SECOND[3:4]])})
    with pytest.raises(StageError, match="`from` names one"):
        plan_stage(MetaAnalysis(), {"berlin": FIRST})
    with pytest.raises(StageError, match="3 studies are asked for, and there are 2"):
        plan_stage(MetaAnalysis(min_studies=3), BOTH)
    with pytest.raises(StageError, match="beta"):
        plan_stage(MetaAnalysis(), {"berlin": FIRST, "oslo": SECOND.drop("beta")})


def test_meta_analysis__of_no_rows_gives_none() -> None:
    assert pooled({"berlin": FIRST.clear(), "oslo": SECOND.clear()}).height == 0
