"""ld_table: the pairs and numbers of PLINK 1.9's --r and --r2, whichever parts the variants are in."""

from __future__ import annotations

import gzip
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.ld_table import LdTable
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import REFERENCE, needs_data
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts
from tests.stages.genomics.test_dosages import certain
from tests.stages.genomics.test_ld_prune import kg_chr20, odd_cohort

EXAMPLES = [
    StageExample(LdTable(kb=0.03, r2=0.02), {"genotypes": examples.GENOTYPES}, examples.AXES, ordered=True),
    StageExample(
        LdTable(kb=0.03, r2=0.02, haplotypes=True),
        {"genotypes": examples.GENOTYPES},
        examples.AXES,
        dict.fromkeys(("r", "r2", "d_prime"), 1e-9),
        ordered=True,
    ),
]

# plink1.9 --r dprime-signed --ld-window-kb 3 --ld-window-r2 0.1 --keep-allele-order of the odd cohort with children: R, DP.
PLINK = {
    ("2", "3"): (0.633438, 0.690273),
    ("5", "6"): (0.579834, 1.0),
    ("5", "7"): (0.51214, 0.586583),
    ("7", "11"): (0.349529, 0.358115),
    ("8", "9"): (0.517796, 0.772532),
    ("81", "82"): (0.430285, 0.690092),
    ("81", "84"): (0.323444, 0.494769),
    ("82", "83"): (0.481932, 1.0),
}


@cache
def odd() -> Cohort:
    return odd_cohort(children=True)


def table(cohort: Cohort, **given: Any) -> pl.DataFrame:
    return run(LdTable(**given), {"genotypes": cohort})[""].frame


def slow_pairs(cohort: Cohort, kb: float, r2: float) -> dict[tuple[str, str], float]:
    """r of every pair by numpy.corrcoef: founders, on X women twice, on Y men; no heterozygous calls of one copy."""
    people, rows = cohort.people, cohort.rows.frame
    founder, male = (people["father_id"] == "0").to_numpy(), (people["sex"] == 1).fill_null(value=False).to_numpy()
    found = {}
    for (chromosome,), of_it in rows.with_row_index().group_by("chromosome"):
        calls = np.where(cohort.codes == 3, np.nan, cohort.codes.astype(float))
        if chromosome in {"X", "Y", "MT"}:
            haploid = male if chromosome == "X" else np.ones(len(male), bool)
            calls = np.where((calls == 1) & haploid, np.nan, calls)
        index = np.flatnonzero(founder & male if chromosome == "Y" else founder)
        index = np.concatenate([index, index[~male[index]]]) if chromosome == "X" else index
        places, positions = of_it["index"].to_list(), of_it["base_pair_location"].to_list()
        for i in range(len(places)):
            for j in range(i + 1, len(places)):
                one, other = calls[places[i], index], calls[places[j], index]
                both = ~np.isnan(one + other)
                varies = both.any() and np.ptp(one[both]) > 0 and np.ptp(other[both]) > 0
                if chromosome != "0" and varies and positions[j] - positions[i] <= 1000 * kb:
                    r = np.corrcoef(one[both], other[both])[0, 1]
                    if r * r >= r2 * (1 - 1e-12):
                        found[str(places[i]), str(places[j])] = r
    return found


def test_ld_table__has_each_pair_in_reach_with_its_correlation() -> None:
    found = table(odd(), kb=3, r2=0.1)
    pairs = list(zip(found["variant_id_1"], found["variant_id_2"], strict=True))
    expected = slow_pairs(odd(), 3, 0.1)
    assert sorted(pairs) == sorted(expected)
    np.testing.assert_allclose(found["r"], [expected[pair] for pair in pairs], rtol=1e-12)
    np.testing.assert_allclose(found["r2"], found["r"] ** 2, rtol=1e-12)
    assert set(found["chromosome"]) == {"1", "3", "X", "Y", "MT", "XY"}
    first = found.row(0, named=True)
    assert (first["base_pair_location_1"], first["base_pair_location_2"]) == (100, 800)
    assert [first[name] for name in ("ref_1", "alt_1", "ref_2", "alt_2")] == ["A", "C", "A", "C"]


def test_ld_table__of_haplotypes_is_plink() -> None:
    found = {(row["variant_id_1"], row["variant_id_2"]): row for row in table(odd(), kb=3, r2=0.1, haplotypes=True).iter_rows(named=True)}
    for pair, (r, d_prime) in PLINK.items():
        assert found[pair]["r"] == pytest.approx(r, abs=6e-7)
        assert found[pair]["d_prime"] == pytest.approx(d_prime, abs=6e-7)


def test_ld_table__is_the_same_for_any_parts(workers: ClusterSession) -> None:
    assert same_for_any_parts(LdTable(kb=30, r2=0.05), {"genotypes": odd()}, workers)[""].counts["variants"] == 85
    pairs = table(odd(), kb=30, r2=0)
    assert run(LdTable(kb=30, r2=0), {"genotypes": odd()}, 85)[""].frame.equals(pairs)
    assert pairs.height > 500


@needs_data
def test_ld_table__is_plink_on_1000_genomes() -> None:
    """PLINK 1.9's --r2 --ld-window-kb 50 --ld-window-r2 0.2 --maf 0.05, of the first thousand variants."""
    whole = kg_chr20()
    common = (whole.rows.frame["minor_allele_frequency"] >= 0.05).arg_true().to_numpy()[:1000]
    some = Cohort(Part(whole.rows.frame[common], {"calls": whole.rows.arrays["calls"][common]}), whole.people)
    found = table(some, kb=50, r2=0.2)
    last, theirs = int(some.rows.frame["base_pair_location"][-1]), {}
    with gzip.open(REFERENCE / "kgchr20" / "plink19_r2.ld.gz", "rt") as lines:
        next(lines)
        for line in lines:
            _, first, one, _, second, other, r2 = line.split()
            if int(first) >= last:
                break
            if int(second) <= last:
                theirs[one, other] = float(r2)
    ours = dict(zip(zip(found["variant_id_1"], found["variant_id_2"], strict=True), found["r2"], strict=True))
    assert ours.keys() == theirs.keys()
    assert len(ours) > 3000
    np.testing.assert_allclose([ours[pair] for pair in theirs], list(theirs.values()), rtol=5.1e-6)


def test_ld_table__refuses_variants_out_of_order_and_apart() -> None:
    rows = odd().rows.frame
    turned = rows[::-1]
    with pytest.raises(DataError, match="positions on chromosome 'XY' are not in order"):
        table(Cohort(Part(turned, odd().rows.arrays), odd().people))
    mixed = rows.with_columns(chromosome=pl.Series(np.where(np.arange(85) == 40, "1", rows["chromosome"].to_numpy())))
    for parts in (1, 7):
        with pytest.raises(DataError, match="chromosome '1' do not stand together"):
            run(LdTable(), {"genotypes": Cohort(Part(mixed, odd().rows.arrays), odd().people)}, parts)
    with pytest.raises(StageError, match="base_pair_location is Float64, and whole numbers are needed"):
        plan_stage(
            LdTable(),
            {"genotypes": examples.GENOTYPES.replaced(examples.GENOTYPES.frame.cast({"base_pair_location": pl.Float64}))},
            examples.AXES,
        )


def test_ld_table__of_dosages_is_of_the_calls_nearest_to_them() -> None:
    found = run(LdTable(kb=3, r2=0.1), {"genotypes": certain(odd())}, 3)[""].frame
    assert found.equals(run(LdTable(kb=3, r2=0.1), {"genotypes": odd()}, 3)[""].frame)
    assert found.height > 40
