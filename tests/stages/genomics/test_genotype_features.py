"""genotype_features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.formats.parquet import ParquetOutput
from pipeline.stages.genomics.genotype_features import GenotypeFeatures
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import Cohort, Found, hapmap3, run, same_for_any_parts, small_cohort

CHOSEN_VARIANTS = examples.GENOTYPES.frame.filter(pl.col("base_pair_location") % 7 == 0)
EXAMPLES = [StageExample(GenotypeFeatures(), {"genotypes": examples.GENOTYPES, "variants": CHOSEN_VARIANTS}, examples.AXES)]

IDS = ["rs40", "rs3", "rs17", "rs59", "rs3"]
CHOSEN = pl.DataFrame({"variant_id": [*IDS, "rs999"], "beta": range(6)})


def features(cohort: Cohort, chosen: pl.DataFrame, parts: int = 1) -> Found:
    return run(GenotypeFeatures(), {"genotypes": cohort, "variants": chosen}, parts)[""]


def renamed(names: dict[str, str]) -> Cohort:
    cohort = small_cohort()
    return Cohort(cohort.rows.replaced(cohort.rows.frame.with_columns(pl.col("variant_id").replace(names))), cohort.people)


def test_genotype_features__are_the_same_in_any_parts_and_processes(workers: ClusterSession) -> None:
    cohort = small_cohort()
    found = same_for_any_parts(GenotypeFeatures(), {"genotypes": cohort, "variants": CHOSEN}, workers)[""]
    assert found.frame.equals(cohort.people)
    assert found.axes["dosages"].equals(cohort.rows.frame[[3, 17, 40, 59]])
    dosages = found.part.arrays["dosages"]
    assert dosages.dtype == np.float32
    codes = cohort.codes[[3, 17, 40, 59]].T
    np.testing.assert_array_equal(dosages, np.where(codes == 3, np.nan, codes))


@needs_data
def test_genotype_features__of_hapmap3_are_the_bytes_of_its_bed() -> None:
    cohort = hapmap3()
    found = features(cohort, cohort.rows.frame[[14388, 7, 9000]].select("variant_id"), 5)
    codes = cohort.codes[[7, 9000, 14388]].T
    np.testing.assert_array_equal(np.nan_to_num(found.part.arrays["dosages"], nan=3), codes)
    assert found.frame["sample_id"].to_list() == cohort.people["sample_id"].to_list()


def test_genotype_features__in_a_file_are_columns_named_by_variant_and_missing_is_null(tmp_path: Path) -> None:
    found = features(small_cohort(), CHOSEN)
    ParquetOutput().write(found.part, found.axes, str(tmp_path / "x.parquet"))
    written = pl.read_parquet(tmp_path / "x.parquet")
    assert written.columns == ["sample_id", "rs3", "rs17", "rs40", "rs59"]
    expected = [None if code == 3 else float(code) for code in small_cohort().codes[17]]
    assert None in expected
    assert written["rs17"].to_list() == expected


def test_genotype_features__an_id_that_stands_for_several_variants_names_their_alleles() -> None:
    found = features(renamed({"rs3": "rs40", "rs17": "other"}), pl.DataFrame({"variant_id": ["rs40", "other"]}))
    assert found.axes["dosages"]["variant_id"].to_list() == ["rs40:T:A", "other", "rs40:A:C"]
    np.testing.assert_array_equal(np.nan_to_num(found.part.arrays["dosages"], nan=3), small_cohort().codes[[3, 17, 40]].T)


def test_genotype_features__refuse_a_variant_that_stands_twice() -> None:
    with pytest.raises(DataError, match=r"stage tested: the genotype table has 'rs4:A:C' 2 times.* drop_duplicates"):
        features(renamed({"rs44": "rs4"}), pl.DataFrame({"variant_id": ["rs4"]}))


def test_genotype_features__refuse_variants_that_are_not_there() -> None:
    with pytest.raises(DataError, match=r"stage tested: none of the chosen variants is in the genotype table. Are their ids written alike"):
        features(small_cohort(), pl.DataFrame({"variant_id": ["1:100:A:C"]}), 2)


def test_genotype_features__refuse_tables_that_do_not_fit() -> None:
    axes = {"calls": small_cohort().people}
    with pytest.raises(StageError, match="the table given as 'genotypes' has no calls"):
        plan_stage(GenotypeFeatures(), {"genotypes": CHOSEN, "variants": CHOSEN})
    with pytest.raises(StageError, match=r"given as 'variants' has no column 'variant_id'.* Did you mean 'variant_ids'"):
        plan_stage(GenotypeFeatures(), {"genotypes": small_cohort().rows, "variants": CHOSEN.rename({"variant_id": "variant_ids"})}, axes)
