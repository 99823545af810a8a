"""relatedness."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics import _tiles, relatedness
from pipeline.stages.genomics.relatedness import Relatedness
from pipeline.tables.budget import Budget
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import assert_printed, needs_data, read_columns
from tests.stages.genomics.cohorts import HAPMAP3, Cohort, assert_found_equal, hapmap3, run, same_for_any_parts, small_cohort, with_calls

EXAMPLES = [
    StageExample(Relatedness(max_kinship=0.1, min_kinship=-0.5), {"genotypes": examples.GENOTYPES}, examples.AXES),
    StageExample(Relatedness(max_kinship=0.1, min_kinship=-0.5), {"genotypes": examples.IMPUTED}, examples.IMPUTED_AXES),
]

VARIANTS = 6_000


@cache
def family() -> Cohort:
    """6,000 variants of 30 strangers, with their children: 30 of 0 and 1, 31 of 2 and 3, 32 of 0 and 2; 33 is 4 again; 34 has no call."""
    rng = np.random.default_rng(21)
    haplotypes = rng.random((VARIANTS, 30, 2)) < rng.uniform(0.2, 0.8, (VARIANTS, 1, 1))
    calls = haplotypes.sum(axis=2).astype(np.uint8)
    passed = [haplotypes[np.arange(VARIANTS), parent, rng.integers(0, 2, VARIANTS)] for parent in (0, 1, 2, 3, 0, 2)]
    children = [passed[0] + 0 + passed[1], passed[2] + 0 + passed[3], passed[4] + 0 + passed[5], calls[:, 4], np.full(VARIANTS, 3)]
    cohort = small_cohort(VARIANTS, 35)
    autosomal = cohort.rows.replaced(cohort.rows.frame.with_columns(chromosome=pl.lit("7")))
    return with_calls(Cohort(autosomal, cohort.people), np.concatenate([calls, np.stack(children, axis=1)], axis=1).astype(np.uint8))


@needs_data
def test_relatedness__of_hapmap3_is_plinks() -> None:
    found = run(Relatedness(min_kinship=0.02), {"genotypes": hapmap3()}, 3)
    printed, pairs = read_columns(HAPMAP3 / "king.kin0"), found["pairs"].frame
    for ours, theirs in (("sample_id_1", "IID1"), ("sample_id_2", "IID2")):
        assert pairs[ours].to_list() == printed[theirs].tolist()
    for ours, theirs in (("variants_shared", "NSNP"), ("hethet", "HETHET"), ("ibs0", "IBS0"), ("kinship", "KINSHIP")):
        assert_printed(pairs[ours].to_numpy(), printed[theirs], 1e-9)
    # plink2 --autosome --king-cutoff 0.0884 keeps 887 of the 957.
    people = found[""].axes["calls"]
    assert people.height == 887
    assert people.columns == hapmap3().people.columns
    left = pairs.filter(pl.col("kinship") > 0.0884, *(pl.col(name).is_in(people["sample_id"].implode()) for name in pairs.columns[:2]))
    assert left.height == 0
    rows = hapmap3().people["sample_id"].is_in(people["sample_id"].implode()).to_numpy()
    np.testing.assert_array_equal(Cohort(found[""].part, people).codes[::100], hapmap3().codes[::100, rows])


@pytest.mark.parametrize("largest", [0.0884, 0.3])
def test_relatedness__is_the_same_in_any_parts_and_processes(largest: float, workers: ClusterSession) -> None:
    found = same_for_any_parts(Relatedness(max_kinship=largest), {"genotypes": family()}, workers)
    gone = sorted(set(family().people["sample_id"]) - set(found[""].axes["calls"]["sample_id"]))
    assert gone == (["p30", "p31", "p32", "p33"] if largest < 0.1 else ["p33"])
    pairs = {frozenset(pair): kinship for *pair, kinship in found["pairs"].frame.select("sample_id_1", "sample_id_2", "kinship").rows()}
    assert pairs[frozenset(("p33", "p4"))] == 0.5
    assert found[""].counts["pairs_without_kinship"] == 34
    assert found[""].counts["people_out"] == 35 - len(gone)


def test_relatedness__lists_pairs_to_half_the_limit_or_as_told() -> None:
    every = run(Relatedness(max_kinship=0.0884, min_kinship=-1), {"genotypes": family()})["pairs"].frame
    assert every.height > 400
    for given, least in (({}, 0.0442), ({"max_kinship": 0.2}, 0.1), ({"min_kinship": 0.01}, 0.01)):
        listed = run(Relatedness.model_validate(given), {"genotypes": family()})["pairs"].frame
        assert listed.equals(every.filter(pl.col("kinship") > least))


def test_relatedness__takes_autosomes_alone() -> None:
    cohort = family()
    noise = cohort.rows.replaced(cohort.rows.frame.with_columns(chromosome=pl.lit("X")), calls=cohort.rows.arrays["calls"][::-1].copy())
    mixed = Part(
        pl.concat([cohort.rows.frame, noise.frame]), {"calls": np.concatenate([cohort.rows.arrays["calls"], noise.arrays["calls"]])}
    )
    found = run(Relatedness(), {"genotypes": Cohort(mixed, cohort.people)}, 2)
    assert found["pairs"].frame.equals(run(Relatedness(), {"genotypes": cohort})["pairs"].frame)
    assert found[""].frame.height == 2 * VARIANTS


def test_relatedness__keeps_everyone_where_nobody_is_related() -> None:
    cohort = family()
    strangers = with_calls(Cohort(cohort.rows, cohort.people[:30]), cohort.codes[:, :30])
    found = run(Relatedness(), {"genotypes": strangers}, 2)
    assert found[""].axes["calls"].equals(strangers.people)
    assert found[""].counts["related"] == 0
    alone = with_calls(Cohort(cohort.rows, cohort.people[:1]), cohort.codes[:, :1])
    assert run(Relatedness(), {"genotypes": alone})["pairs"].frame.height == 0


def test_relatedness__refuses_a_table_without_autosomes() -> None:
    cohort = family()
    rows = cohort.rows.replaced(cohort.rows.frame.with_columns(chromosome=pl.lit("X")))
    with pytest.raises(DataError, match="stage tested: no two people are called for the same variant on an autosome"):
        run(Relatedness(), {"genotypes": Cohort(rows, cohort.people)})


@pytest.mark.parametrize("most", [32, 1])
def test_relatedness__is_the_same_tile_by_tile(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(Relatedness(min_kinship=-1), {"genotypes": family()})
    monkeypatch.setattr(_tiles, "_LEAST", most)
    assert len(_tiles.people_blocks(35)) == 2
    assert_found_equal(run(Relatedness(min_kinship=-1), {"genotypes": family()}, 3), whole, "tiles")


def test_relatedness__refuses_to_list_more_pairs_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tiles, "_LEAST", 32)
    monkeypatch.setattr(relatedness, "MOST_LISTED", 300)
    with pytest.raises(DataError, match=r"some 396 pairs have a kinship of -1\.0 or more, as 96 of them tell, and at most 300 are listed"):
        run(Relatedness(min_kinship=-1), {"genotypes": family()})
    session = Session()
    session.budget = Budget(100 * relatedness.PAIR_BYTES, 1, "")
    with pytest.raises(DataError, match=r"at most 100 are listed in the memory that tables have\. Kinship from few"):
        run(Relatedness(min_kinship=-1), {"genotypes": family()}, session=session)


@pytest.mark.parametrize("people", [0, 1, 31, 1_024, 1_025, 2_500, 20_000, 100_000, 1_000_003])
def test_people_blocks__cover_everyone_once(people: int) -> None:
    blocks = _tiles.people_blocks(people)
    assert [place for block in blocks for place in (block.start, block.stop)][1:-1] == [b.start for b in blocks[1:] for _ in range(2)]
    assert (blocks[0].start, blocks[-1].stop) == (0, people) if people else blocks == []
    assert all(block.start % 32 == 0 and 0 < block.stop - block.start <= 4_128 for block in blocks)


def test_relatedness__refuses_parameters_and_a_table_without_calls() -> None:
    with pytest.raises(ValidationError, match=r"less than or equal to 0\.5"):
        Relatedness(max_kinship=0.9)
    with pytest.raises(StageError, match=r"min_kinship 0\.2 is above max_kinship 0\.0884"):
        run(Relatedness(min_kinship=0.2), {"genotypes": family()})
    with pytest.raises(StageError, match="the table given as 'genotypes' has no calls"):
        plan_stage(Relatedness(), {"genotypes": small_cohort().rows.frame})
