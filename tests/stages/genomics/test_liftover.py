"""liftover, beside what pyliftover 0.4.1 says of the same positions, and beside the chain's definition base by base."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.format import Mark
from pipeline.formats.chain import BLOCKS, ChainInput
from pipeline.genome.builds import MARK
from pipeline.plan.lineage import Lineage
from pipeline.stages.genomics.liftover import Liftover, disjoint
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.formats import read_table
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.stages.genomics.cohorts import run, same_for_any_parts, small_cohort

CHAIN = pl.DataFrame(
    [("1", 1, 40_000, "chr1", 1_001, "+", 10), ("2", 1, 1_030, "chr7", 5_000, "-", 10), ("2", 1_036, 9_000, "chr2", 20, "+", 10)],
    schema=BLOCKS,
    orient="row",
)
EXAMPLES = [
    StageExample(Liftover(), {"rows": examples.LOADINGS, "chain": CHAIN}),
    StageExample(Liftover(), {"rows": examples.GENOTYPES, "chain": CHAIN}, examples.AXES),
]


def chain_file(folder: Path, seed: int = 5) -> tuple[Path, dict[int, list[tuple[int, str, int, str]]]]:
    """A chain file of overlapping chains over chr1, and where each of its bases lies: score, name, position and strand of every chain."""
    random, text, found = np.random.default_rng(seed), "", dict[int, list[tuple[int, str, int, str]]]()
    for number in range(12):
        start, new_start, strand = int(random.integers(0, 4_000)), int(random.integers(0, 9_000)), "+-"[number % 2]
        name, score, size = f"chr{1 + number % 3}", 10_000 - 100 * number, 20_000
        blocks, at, new_at = "", start, new_start
        sizes = random.integers(20, 90, 5).tolist()
        for place, length in enumerate(sizes):
            gaps = random.integers(0, 30, 2).tolist() if place < len(sizes) - 1 else [0, 0]
            for step in range(length):
                new = new_at + step + 1 if strand == "+" else size - (new_at + step)
                found.setdefault(at + step + 1, []).append((score, name, new, strand))
            blocks += f"{length} {gaps[0]} {gaps[1]}\n" if place < len(sizes) - 1 else f"{length}\n"
            at, new_at = at + length + gaps[0], new_at + length + gaps[1]
        text += f"chain {score} chr1 10000 + {start} {at} {name} {size} {strand} {new_start} {new_at} {number + 1}\n{blocks}\n"
    (folder / "x.chain").write_text(text)
    return folder / "x.chain", found


def test_liftover__of_every_base_is_that_of_the_best_chain_over_it(tmp_path: Path) -> None:
    path, truth = chain_file(tmp_path)
    chain = read_table(ChainInput(path=(str(path),))).frame
    rows = pl.DataFrame({"chromosome": "1", "base_pair_location": range(1, 5_500), "ref": "A", "alt": "g"})
    found = run(Liftover(), {"rows": rows, "chain": chain}, 3)
    assert any(len(places) > 1 for places in truth.values())
    expected = {base: max(places) for base, places in truth.items()}
    lifted = dict(zip([base for base in range(1, 5_500) if base in expected], found[""].frame.rows(), strict=True))
    for base, (_, name, new, strand) in expected.items():
        alleles = ("A", "g") if strand == "+" else ("T", "c")
        assert lifted[base] == (name.removeprefix("chr"), new, *alleles)
    unmapped = found["unmapped"].frame
    assert {*unmapped["base_pair_location"]} == {*range(1, 5_500)} - {*expected}
    assert {*unmapped["reason"]} == {"no place in the new build"}
    turned = sum(strand == "-" for *_, strand in expected.values())
    counts = {"rows_in": 5_499, "rows_lifted": len(expected), "rows_turned": turned, "rows_unmapped": 5_499 - len(expected)}
    assert found[""].counts == counts


def test_liftover__is_pyliftovers(tmp_path: Path) -> None:
    pyliftover = pytest.importorskip("pyliftover", reason="pyliftover is not installed")
    path, _ = chain_file(tmp_path, 9)
    theirs = pyliftover.LiftOver(str(path))
    rows = pl.DataFrame({"chromosome": "chr1", "base_pair_location": range(1, 5_500)})
    found = run(Liftover(), {"rows": rows, "chain": read_table(ChainInput(path=(str(path),))).frame})[""].frame
    said = [theirs.convert_coordinate("chr1", base - 1) for base in range(1, 5_500)]
    assert found.rows() == [(best[0][0], best[0][1] + 1) for best in said if best]


def test_liftover__leaves_out_what_has_no_place_and_says_why() -> None:
    chain = pl.DataFrame(
        [("chr1", 1, 100, "chr1", 1_001, "+", 1), ("chr1", 101, 200, "chr1", 2_100, "-", 1), ("chrX", 1, 50, "chrX_fix", 1, "+", 1)],
        schema=BLOCKS,
        orient="row",
    )
    rows = pl.DataFrame(
        [
            ("chr1", 100, "A", "ATT"),
            ("chr1", 99, "AC", "A"),
            ("chr1", 100, "AC", "A"),
            ("chr1", 101, "A", "ATT"),
            ("chr1", 101, "A", "<DEL>"),
            ("23", 50, "A", "G"),
            ("chr1", 201, "A", "G"),
            ("chr5", 7, "A", "G"),
            ("chr1", None, "A", "G"),
            ("01", 102, "A", "C"),
        ],
        schema=["chromosome", "base_pair_location", "other_allele", "effect_allele"],
        orient="row",
    )
    as_variants = rows.rename({"other_allele": "ref", "effect_allele": "alt"})
    found = run(Liftover(), {"rows": as_variants, "chain": chain}, 2)
    assert found[""].frame.rows() == [("chr1", 1_100, "A", "ATT"), ("chr1", 1_099, "AC", "A"), ("1", 2_099, "T", "G")]
    turned, nowhere = "an insertion or deletion on the other strand", "no place in the new build"
    reaching, elsewhere = "an allele reaches over the end of a stretch", "a sequence that is no chromosome"
    assert found["unmapped"].frame["reason"].to_list() == [reaching, turned, turned, elsewhere, nowhere, nowhere, nowhere]
    of_scan = run(Liftover(), {"rows": rows, "chain": chain})[""].frame  # either allele may be the one on the genome
    assert of_scan.rows() == [("chr1", 1_099, "AC", "A"), ("1", 2_099, "T", "G")]


def test_liftover__keeps_calls_with_their_variants_in_any_parts(workers: ClusterSession) -> None:
    cohort = small_cohort()
    found = same_for_any_parts(Liftover(), {"rows": cohort, "chain": CHAIN}, workers)[""]
    kept = cohort.rows.frame["variant_id"].is_in(found.frame["variant_id"].to_list())
    assert 0 < found.frame.height < cohort.rows.frame.height
    np.testing.assert_array_equal(found.part.arrays["calls"], cohort.rows.arrays["calls"][kept.to_numpy()])


def test_disjoint__cuts_blocks_where_a_better_one_begins_and_ends() -> None:
    blocks = pl.DataFrame([("1", 1, 100, "a", 1, "+", 5), ("1", 40, 60, "b", 500, "-", 9)], schema=BLOCKS, orient="row")
    assert disjoint(blocks).rows() == [
        ("1", 1, 39, "a", 1, "+", 5), ("1", 40, 60, "b", 500, "-", 9), ("1", 61, 100, "a", 61, "+", 5),
    ]  # fmt: skip


def test_liftover__takes_the_build_from_its_rows_and_refuses_a_table_that_has_a_reason() -> None:
    lineage = Lineage()
    for name, build in (("old", "GRCh37"), ("new", "GRCh38")):
        lineage.add_input(name, [Mark(MARK, build, "give one")])
    lineage.add_input("chain", [])
    assert lineage.add_stage("lifted", {"rows": "old", "chain": "chain"}, Liftover.unmarks) is None
    assert lineage.add_stage("together", {"left": "lifted", "right": "new"}) is None
    assert lineage.add_stage("wrong", {"left": "old", "right": "new"}) is not None
    rows = pl.DataFrame({"chromosome": ["1"], "base_pair_location": [1], "reason": ["x"]})
    with pytest.raises(StageError, match="there is a column 'reason' already"):
        plan_stage(Liftover(), {"rows": rows, "chain": CHAIN})
