"""ld_prune."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.formats.plink import PlinkInput
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.ld_prune import LdPrune
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import REFERENCE, needs_data
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts, small_cohort

EXAMPLES = [
    StageExample(LdPrune(window_variants=10, step=3, r2=0.05), {"genotypes": examples.GENOTYPES}, examples.AXES, ordered=True),
    StageExample(LdPrune(window_kb=0.02, r2=0.02), {"genotypes": examples.GENOTYPES}, examples.AXES, ordered=True),
    StageExample(LdPrune(window_kb=0.02, r2=0.02), {"genotypes": examples.IMPUTED}, examples.IMPUTED_AXES, ordered=True),
]

KG = REFERENCE / "kgchr20"


def prune(**given: float) -> LdPrune:
    return LdPrune.model_validate(given)


VARIANTS, KB = prune(window_variants=8, step=3, r2=0.3), prune(window_kb=2.5, r2=0.1)


@cache
def kg_chr20() -> Cohort:
    """1000 Genomes' chromosome 20 as the plink format reads it, at MAF >= 0.01, by variant_qc."""
    reader = PlinkInput.model_validate({"path": str(KG / "chr20.bed"), "parts": 2})
    cohort = Cohort(concat_parts([source.load() for source in reader.sources(1)]), reader.axes()["calls"])
    found = run(VariantQc(min_maf=0.01), {"genotypes": cohort})[""]
    return Cohort(Part(found.frame, found.part.arrays), cohort.people)


def scrambled(rows: int, columns: int, seed: int) -> NDArray[np.float64]:
    """Numbers from 0 to 1 that are the same with any library (splitmix64)."""
    x = (np.arange(rows * columns, dtype=np.uint64) + np.uint64(1 + seed * 10**9)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(float) / 2**53).reshape(rows, columns)


def odd_cohort(*, children: bool = False) -> Cohort:
    """Chromosomes of every kind, missing calls, ties, mirrored alleles, variants that do not vary, alone or not; three sexes."""
    sizes = {"0": 2, "1": 30, "2": 1, "3": 12, "X": 16, "Y": 10, "MT": 10, "XY": 4}
    chromosomes = [name for name, size in sizes.items() for _ in range(size)]
    variants, people = len(chromosomes), 70
    state, frequency = scrambled(2, people, 3), scrambled(variants, 1, 4)[:, 0] * 0.6 + 0.2
    codes, chance = np.zeros((variants, people), np.uint8), scrambled(variants, people, 1)
    for row in range(variants):
        state = np.where(scrambled(2, people, 500 + row) < 0.25, scrambled(2, people, 100 + row), state)
        codes[row] = (state < frequency[row]).sum(axis=0)
    haploid = np.isin(chromosomes, ["Y", "MT"])
    codes[haploid] = np.where((codes[haploid] == 1) & (chance[haploid] < 0.8), 2, codes[haploid])
    codes[chance < 0.03] = 3
    for row, value in ((4, 0), (32, 0), (33, 3), (40, 1), (44, 2)):
        codes[row] = value
    codes[10], codes[12] = codes[9], np.array([2, 1, 0, 3], np.uint8)[codes[11]]
    positions = np.concatenate([np.arange(size) * 700 + 100 for size in sizes.values()])
    positions[44] = 9_000_000
    ids = [str(number) for number in range(variants)]
    rows = pl.DataFrame({"chromosome": chromosomes, "base_pair_location": positions, "variant_id": ids, "ref": "A", "alt": "C"})
    person = np.arange(people)
    parents = {"father_id": np.where((person % 5 == 0) & children, "s1", "0"), "mother_id": np.full(people, "0")}
    names = pl.DataFrame({"sample_id": [f"s{i}" for i in person], **parents, "sex": (person % 3).astype(np.int8)})
    return Cohort(Part(rows, {"calls": pack(codes)}), names.with_columns(sex=pl.when(pl.col("sex") > 0).then("sex")))


def kept(stage: LdPrune, cohort: Cohort, parts: int = 1, threads: int = 1) -> list[str]:
    session = Session()
    session.threads = threads
    found = run(stage, {"genotypes": cohort}, parts, session)[""]
    rows = cohort.rows.frame.with_row_index().join(found.frame, on="variant_id", how="semi", maintain_order="left")["index"].to_numpy()
    assert found.frame.equals(cohort.rows.frame[rows])
    np.testing.assert_array_equal(found.part.arrays["calls"], cohort.rows.arrays["calls"][rows])
    return found.frame["variant_id"].to_list()


@needs_data
@pytest.mark.parametrize(
    ("file", "given", "parts", "threads"),
    [
        ("prune_50_5_0.2", {"window_variants": 50, "step": 5, "r2": 0.2}, 1, 1),
        ("plink19_prune_50_5_0.2", {"window_variants": 50, "step": 5, "r2": 0.2}, 9, 2),
        ("prune_50_5_0.5", {"window_variants": 50, "step": 5, "r2": 0.5}, 3, 2),
        ("prune_200kb_0.2", {"window_kb": 200, "r2": 0.2}, 1, 1),
        ("prune_200kb_0.2", {"window_kb": 200, "step": 1, "r2": 0.2}, 40, 2),
    ],
)
def test_ld_prune__gives_plinks_lists(file: str, given: dict[str, float], parts: int, threads: int) -> None:
    found = kept(prune(**given), kg_chr20(), parts, threads)
    assert found == (KG / f"{file}.prune.in").read_text().split()
    left = set(found)
    out = [name for name in kg_chr20().rows.frame["variant_id"].to_list() if name not in left]
    assert out == (KG / f"{file}.prune.out").read_text().split()


# plink2 2.00a3.5 --indep-pairwise 8 3 0.3 and 2.5kb 1 0.1; for children with --keep-founders first, as it takes the wrong people on X and
# Y there otherwise (a bug that was mended in 2023).
ODD = {
    (
        VARIANTS,
        False,
    ): "3 6 8 9 11 13 14 15 16 20 21 23 24 25 26 28 29 31 32 35 37 38 41 45 47 49 52 54 55 56 59 63 65 67 70 72 74 76 77 78 79 80 81 83 84",
    (KB, False): "3 6 9 13 21 23 26 29 31 32 35 38 41 44 45 49 54 59 63 67 70 72 76 77 80 84",
    (VARIANTS, True): "3 6 8 9 11 13 14 15 16 20 21 24 25 26 29 31 32 35 37 38 39 41 45 47 49 52 53 55 56 59 63 65 67 68 70 72 74 76 77 78 "
    "79 80 81 83 84",
    (KB, True): "3 6 9 13 21 23 26 29 31 32 35 38 41 44 45 49 53 55 59 63 65 69 70 72 74 76 78 79 84",
}


@pytest.mark.parametrize(("stage", "children"), ODD)
@pytest.mark.parametrize(("parts", "threads"), [(1, 1), (4, 3), (30, 1)])
def test_ld_prune__gives_plinks_lists_for_odd_chromosomes_and_people(stage: LdPrune, children: bool, parts: int, threads: int) -> None:
    assert kept(stage, odd_cohort(children=children), parts, threads) == ODD[stage, children].split()


@pytest.mark.parametrize("stage", [VARIANTS, KB, prune(window_variants=5, step=5, r2=0.01)])
def test_ld_prune__is_the_same_in_any_parts_and_processes(stage: LdPrune, workers: ClusterSession) -> None:
    found = same_for_any_parts(stage, {"genotypes": odd_cohort()}, workers)[""]
    assert found.axes["calls"].equals(odd_cohort().people)
    lost = sum(found.counts[name] for name in ("unplaced", "not_varying", "in_linkage"))
    assert (found.counts["variants_in"], found.counts["variants_out"]) == (85, found.frame.height)
    assert found.counts["unplaced"] == 2
    assert lost == 85 - found.frame.height


def test_ld_prune__counts_what_it_drops() -> None:
    counts = run(VARIANTS, {"genotypes": odd_cohort()}, 5)[""].counts
    assert counts == {"variants_in": 85, "unplaced": 2, "not_varying": 5, "in_linkage": 33, "variants_out": 45}


def test_ld_prune__a_window_may_be_wider_than_many_parts() -> None:
    wide = prune(window_kb=1000, r2=0.05)
    assert kept(wide, odd_cohort(), 60, 2) == kept(wide, odd_cohort())


def test_ld_prune__gives_nothing_of_nothing() -> None:
    cohort = odd_cohort()
    empty = Cohort(Part(cohort.rows.frame[:0], {"calls": cohort.rows.arrays["calls"][:0]}), cohort.people)
    assert kept(VARIANTS, empty) == []


def shifted(**columns: Any) -> Cohort:
    cohort = odd_cohort()
    return replace(cohort, rows=cohort.rows.replaced(cohort.rows.frame.with_columns(**columns)))


@pytest.mark.parametrize("parts", [1, 30])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"base_pair_location": -pl.col("base_pair_location")},
            "positions on chromosome '1' are not in order: -800 comes after -100. Put a s",
        ),
        ({"base_pair_location": pl.when(pl.col("variant_id") != "9").then("base_pair_location")}, "not in order: a variant has none"),
        ({"chromosome": pl.col("chromosome").replace("3", "1")}, "variants of chromosome '1' do not stand together. Put a sort by"),
    ],
)
def test_ld_prune__refuses_variants_out_of_order(columns: dict[str, Any], message: str, parts: int) -> None:
    with pytest.raises(DataError, match=f"stage tested: the .*{message}"):
        run(VARIANTS, {"genotypes": shifted(**columns)}, parts)


@pytest.mark.parametrize("parent", ["father_id", "mother_id"])
def test_ld_prune__of_one_parents_column_is_of_founders_too(parent: str) -> None:
    cohort = odd_cohort(children=True)
    one = cohort.people.rename({"father_id": parent, "mother_id": "other"} if parent == "mother_id" else {"mother_id": "other"})
    assert kept(VARIANTS, replace(cohort, people=one.drop("other"))) == kept(VARIANTS, cohort)
    assert kept(VARIANTS, cohort) != kept(VARIANTS, odd_cohort())


def test_ld_prune__refuses_a_sex_that_is_none() -> None:
    cohort = odd_cohort()
    with pytest.raises(DataError, match="the sex of 's0' is 3"):
        run(VARIANTS, {"genotypes": replace(cohort, people=cohort.people.with_columns(sex=pl.lit(3)))})


def test_ld_prune__refuses_people_without_a_founder() -> None:
    cohort = odd_cohort()
    orphanless = replace(cohort, people=cohort.people.with_columns(mother_id=pl.lit("m")))
    with pytest.raises(DataError, match="no founder to count; r\\^2 is of founders, so drop these columns to use all"):
        run(VARIANTS, {"genotypes": orphanless})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"r2": 0.2}, "give either window_variants or window_kb"),
        ({"r2": 0.2, "window_variants": 50, "window_kb": 200}, "give either window_variants or window_kb"),
        ({"r2": 0.2, "window_kb": 200, "step": 5}, "so step is 1, not 5"),
        ({"r2": 0.2, "window_variants": 50, "step": 51}, "step 51 is more than window_variants 50"),
        ({"r2": 1.0, "window_variants": 50}, "less than 1"),
        ({"window_variants": 50}, "Field required"),
    ],
)
def test_ld_prune__refuses_parameters(given: dict[str, float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        prune(**given)


def test_ld_prune__refuses_a_table_without_calls() -> None:
    with pytest.raises(StageError, match="given as 'genotypes' has no calls"):
        plan_stage(VARIANTS, {"genotypes": small_cohort().rows.frame})


def test_ld_prune__loads_its_kernel() -> None:
    for stage in (VARIANTS, KB):
        stage.prepare()
        assert stage.rule.by_position == (stage is KB)
