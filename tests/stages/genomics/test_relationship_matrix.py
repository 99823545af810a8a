"""relationship_matrix and its files, beside what PLINK 2 wrote of HapMap 3."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, JobError, RunError
from pipeline.formats.grm import GrmOutput
from pipeline.kernels.genotypes import unpack
from pipeline.stages.genomics import relationship_matrix
from pipeline.stages.genomics.heritability import Heritability
from pipeline.stages.genomics.relationship_matrix import RelationshipMatrix
from pipeline.tables.part import Schema
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.formats import write_table
from tests import example_tables as examples
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import HAPMAP3, Cohort, hapmap3, run, same_for_any_parts, small_cohort, with_calls

EXAMPLES = [StageExample(RelationshipMatrix(), {"genotypes": examples.GENOTYPES}, examples.AXES, {"relationship": examples.P_VALUES})]


@needs_data
def test_files_of_hapmap3__are_those_that_plink_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relationship_matrix, "_PAIRS_OF_A_PART", 100_000)
    found = run(RelationshipMatrix(), {"genotypes": hapmap3()}, 3)[""]
    numbers, shared, ids = write_table(GrmOutput(), found.frame, tmp_path / "x", 4)
    written = np.fromfile(HAPMAP3 / "grm.grm.bin", np.float32)
    np.testing.assert_allclose(np.fromfile(numbers, np.float32), written, rtol=2e-6, atol=1e-7)
    assert ids.read_text() == (HAPMAP3 / "grm.grm.id").read_text()
    assert np.fromfile(shared, np.float32).max() == found.counts["variants"]
    assert found.counts["people"] == 957


def test_pairs__are_the_triangle_and_count_the_variants_of_both(workers: ClusterSession) -> None:
    cohort = small_cohort()
    found = same_for_any_parts(RelationshipMatrix(), {"genotypes": cohort}, workers)[""].frame
    names = cohort.people["sample_id"].to_list()
    assert found.select("sample_id_1", "sample_id_2").rows() == [(names[i], names[j]) for i in range(41) for j in range(i + 1)]
    rows = cohort.rows.frame["chromosome"].is_in(["1", "chr2"]).to_numpy()
    calls = unpack(cohort.rows.arrays["calls"], 41, np.float64, np.nan)[rows]
    frequency = np.nansum(calls, axis=1) / np.maximum(2 * (~np.isnan(calls)).sum(axis=1), 1)
    calls, frequency = calls[(frequency > 0) & (frequency < 1)], frequency[(frequency > 0) & (frequency < 1), None]
    standard = (calls - 2 * frequency) / np.sqrt(2 * frequency * (1 - frequency))
    called = ~np.isnan(standard)
    shared = called.T.astype(int) @ called.astype(int)
    expected = np.nan_to_num(standard).T @ np.nan_to_num(standard) / shared
    triangle = np.tril_indices(41)
    np.testing.assert_array_equal(found["variants_shared"], shared[triangle])
    np.testing.assert_allclose(found["relationship"], expected[triangle], rtol=1e-9)


def test_tiles__are_the_whole_matrix_row_by_row(workers: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"genotypes": small_cohort()}
    whole = run(RelationshipMatrix(), data)[""]
    in_tiles(monkeypatch)
    monkeypatch.setattr(relationship_matrix, "_PAIRS_OF_A_PART", 5 * 41)
    tiled = same_for_any_parts(RelationshipMatrix(), data, workers)[""]
    assert tiled.frame.drop("relationship").equals(whole.frame.drop("relationship"))
    np.testing.assert_allclose(tiled.frame["relationship"], whole.frame["relationship"], rtol=1e-9, atol=1e-12)
    assert tiled.counts == whole.counts


def in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's matrix is made of tiles of 32 people."""
    monkeypatch.setattr(relationship_matrix, "WHOLE", 0)
    monkeypatch.setattr("pipeline.stages.genomics._tiles._LEAST", 12)


@pytest.mark.parametrize("tiled", [False, True])
def test_people_who_share_no_variant__are_named(tiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiled:
        in_tiles(monkeypatch)
    calls = np.full((4, 6), 3, np.uint8)
    calls[:2, :5], calls[2:, 5] = [0, 1, 2, 0, 1], 1
    calls[2:, 4] = 2
    cohort = with_calls(
        Cohort(type(small_cohort().rows)(small_cohort().rows.frame.filter(chromosome="1")[:4]), small_cohort().people[:6]), calls
    )
    with pytest.raises((DataError, RunError), match="'p5' shares no called variant that varies with 4 of 6 people"):
        run(RelationshipMatrix(), {"genotypes": cohort})


def test_too_many_people__and_none_that_vary_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = small_cohort()
    flat = Cohort(type(cohort.rows)(cohort.rows.frame[-1:], {"calls": cohort.rows.arrays["calls"][-1:]}), cohort.people)
    refused = "relationships are for 40 people at most, and these are 41. Take a sample"
    for most, message in ((60_000, "no autosomal variant varies among these people"), (40, refused)):
        monkeypatch.setattr(relationship_matrix, "MOST_IN_TILES", most)
        for whole in (5_000, 0):
            monkeypatch.setattr(relationship_matrix, "WHOLE", whole)
            with pytest.raises((DataError, RunError), match=message):
                run(RelationshipMatrix(), {"genotypes": flat})


def test_grm__refuses_what_is_no_triangle(tmp_path: Path) -> None:
    pairs = pl.DataFrame(
        {"sample_id_1": ["a", "b", "b"], "sample_id_2": ["a", "a", "b"], "relationship": [1.0, 0.1, 0.9], "variants_shared": 5}
    )
    assert write_table(GrmOutput(), pairs, tmp_path / "whole", 2)[2].read_text() == "a\ta\nb\tb\n"
    families = pairs.with_columns(family_id_1=pl.Series(["f", None, None]))
    assert write_table(GrmOutput(), families, tmp_path / "families", 2)[2].read_text() == "f\ta\nb\tb\n"
    with pytest.raises(DataError, match="2 people have 3 pairs with themselves, and 2 are written"):
        write_table(GrmOutput(), pairs[::2], tmp_path / "cut")
    with pytest.raises(DataError, match="lacks a person, a relationship or its variants"):
        write_table(GrmOutput(), pairs.with_columns(relationship=pl.lit(None, pl.Float64)), tmp_path / "null")
    with pytest.raises(DataError, match="sample_id 'a b' is empty or holds a space"):
        write_table(GrmOutput(), pairs[:1].with_columns(sample_id_1=pl.lit("a b"), sample_id_2=pl.lit("a b")), tmp_path / "space")
    with pytest.raises(JobError, match="a GRM needs the column 'relationship', which is not written here"):
        GrmOutput().check(Schema(pairs.schema), ["sample_id_1", "sample_id_2", "variants_shared"])


def test_explain__says_how_long_pairs_take_and_where_they_lie() -> None:
    stage = RelationshipMatrix()
    assert stage.of_pairs(5_000, 4_000).endswith("some 1 s of one core, which all tasks share; the matrix in memory")
    assert stage.of_pairs(5_000, 20_000).endswith("some 25 s of one core, which all tasks share; the matrix 2.4 GB of tiles on local disk")
    assert stage.of_pairs(5_000, 100_000) == "pairs: refused where more than 60,000 people are left of 100,000"
    by_pairs, whole = Heritability(traits=("t",), method="haseman_elston"), Heritability(traits=("t",))
    assert by_pairs.of_pairs(5_000, 20_000).startswith("pairs: at most 199,990,000 of 20,000 people")
    assert whole.of_pairs(5_000, 20_000) == "pairs: refused where more than 10,000 people are left of 20,000"
