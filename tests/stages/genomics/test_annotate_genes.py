"""annotate_genes: overlapping and nearest genes against a search of every gene for every variant, and against GENCODE."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.formats.gtf import GtfInput
from pipeline.stages.genomics.annotate_genes import AnnotateGenes
from pipeline.tables.part import Part
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import cut, even_sizes, plan_stage, run_parts, run_stage
from tests import example_tables as examples
from tests.kernels.plink_files import DATA
from tests.stages.genomics.cohorts import small_cohort

EXAMPLE_GENES = pl.DataFrame({"chromosome": ["chr1", "1", "chrX"], "start": [5, 11, 2], "end": [8, 20, 4], "gene_name": ["A", "B", "C"]})
EXAMPLES = [
    StageExample(AnnotateGenes(max_distance=3), {"variants": examples.GENOTYPES, "genes": EXAMPLE_GENES}, examples.AXES, ordered=True),
]

GENCODE = DATA / "annotation" / "gencode.v19.annotation.chr20.250k.gtf"


def stage(**given: Any) -> AnnotateGenes:
    return AnnotateGenes.model_validate(given)


def random_tables(seed: int, genes: int = 40, variants: int = 300) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Variants and genes on three chromosomes, crowded enough for nests, ties and common ends."""
    random = np.random.default_rng(seed)
    starts = random.integers(1, 400, genes)
    table = pl.DataFrame(
        {
            "chromosome": random.choice(["chr1", "chr2", "chrX"], genes),
            "start": starts,
            "end": starts + random.choice([0, 3, 20, 150], genes),
            "gene_id": [f"id{i}" for i in range(genes)],
            "gene_name": [None if i % 9 == 0 else f"g{i}" for i in range(genes)],
        }
    )
    places = pl.DataFrame(
        {"chromosome": random.choice(["1", "2", "23", "7"], variants), "base_pair_location": random.integers(1, 700, variants)}
    )
    return places, table


def brute_force(place: tuple[str, int], genes: pl.DataFrame, max_distance: int) -> tuple[set[str], int | None, set[str]]:
    """Genes over a position, the least distance to any, and the genes at that distance."""
    chromosome = {"23": "chrX"}.get(place[0], f"chr{place[0]}")
    rows = [(s, e, name or gene) for c, s, e, gene, name in genes.rows() if c == chromosome]
    away = {name: max(s - place[1], place[1] - e, 0) for s, e, name in rows}
    least = min(away.values(), default=None)
    if least is None or least > max_distance:
        return set(), None, set()
    return {name for name, far in away.items() if far == 0}, least, {name for name, far in away.items() if far == least}


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("max_distance", [0, 25, 500_000])
def test_annotate_genes__is_a_search_of_every_gene(parts: int, max_distance: int) -> None:
    variants, genes = random_tables(parts)
    found = run_stage(stage(max_distance=max_distance), {"variants": variants, "genes": genes}, parts)[""]
    assert found.select(variants.columns).equals(variants)
    for row in found.iter_rows(named=True):
        over, least, nearest = brute_force((row["chromosome"], row["base_pair_location"]), genes, max_distance)
        assert set((row["gene_name"] or "").split(",")) - {""} == over
        assert row["gene_distance"] == least
        if over:
            assert row["nearest_gene"] == row["gene_name"]
        else:
            assert row["nearest_gene"] in nearest if nearest else row["nearest_gene"] is None


def test_annotate_genes__of_two_genes_as_near_it_is_the_one_before() -> None:
    genes = pl.DataFrame({"chromosome": ["1"] * 3, "start": [10, 11, 40], "end": [20, 20, 50], "gene_name": ["a", "b", "c"]})
    variants = pl.DataFrame({"chromosome": ["chr1"] * 3, "base_pair_location": [30, 31, 9]})
    found = run_stage(stage(), {"variants": variants, "genes": genes})[""]
    assert found.select("gene_name", "nearest_gene", "gene_distance").rows() == [(None, "b", 10), (None, "c", 9), (None, "a", 1)]


def test_annotate_genes__keeps_nulls_and_chromosomes_without_genes() -> None:
    genes = pl.DataFrame({"chromosome": ["20"], "start": [10], "end": [20], "gene_name": ["a"]})
    variants = pl.DataFrame({"chromosome": ["chr20", None, "20", "GL000192.1", "020"], "base_pair_location": [15, 15, None, 15, 5]})
    found = run_stage(stage(), {"variants": variants, "genes": genes})[""]
    assert found["nearest_gene"].to_list() == ["a", None, None, None, "a"]
    assert found["gene_distance"].to_list() == [0, None, None, None, 5]


def test_annotate_genes__pseudoautosomal_regions_lie_on_x_and_m_is_mt() -> None:
    genes = pl.DataFrame({"chromosome": ["chrX", "chrM"], "start": [10, 1], "end": [20, 5], "gene_name": ["x", "m"]})
    variants = pl.DataFrame({"chromosome": ["XY", "25", "PAR1", "X", "MT", "26"], "base_pair_location": [12, 12, 12, 12, 2, 2]})
    found = run_stage(stage(), {"variants": variants, "genes": genes})[""]
    assert found["gene_name"].to_list() == ["x", "x", "x", "x", "m", "m"]


@pytest.mark.skipif(not GENCODE.is_file(), reason=f"the shared annotation is not at {GENCODE}")
def test_annotate_genes__gencode() -> None:
    genes = GtfInput.model_validate({"path": str(GENCODE)}).sources(1)[0].load().frame
    places = [67_890, 67_891, 77_735, 77_736, 100_000, 172_900, 249_498, 800_000]
    variants = pl.DataFrame({"chromosome": ["20"] * len(places), "base_pair_location": places})
    found = run_stage(stage(), {"variants": variants, "genes": genes}, 3)[""]
    assert found.select("gene_name", "nearest_gene", "gene_distance").rows() == [
        (None, "DEFB125", 1),
        ("DEFB125", "DEFB125", 0),
        ("DEFB125", "DEFB125", 0),
        (None, "DEFB125", 1),
        (None, "DEFB125", 22_265),
        ("AL360078.1", "AL360078.1", 0),
        ("RP5-1103G7.10", "RP5-1103G7.10", 0),
        (None, None, None),
    ]


@pytest.mark.parametrize("parts", [1, 3])
def test_annotate_genes__a_genotype_table_keeps_its_calls(parts: int) -> None:
    cohort = small_cohort()
    genes = pl.DataFrame({"chromosome": cohort.rows.frame["chromosome"][:1], "start": [1], "end": [2**40 - 1], "gene_name": ["all"]})
    given = {"variants": cut(cohort.rows, even_sizes(cohort.rows.frame.height, parts)), "genes": [Part(genes)]}
    found = run_parts(stage(), given, axes={"calls": cohort.people})[""]
    assert len(found) == parts
    np.testing.assert_array_equal(np.concatenate([part.arrays["calls"] for part in found]), cohort.rows.arrays["calls"])


def test_annotate_genes__no_rows_are_no_error() -> None:
    variants, genes = random_tables(1)
    assert run_stage(stage(), {"variants": variants[:0], "genes": genes})[""].height == 0


def test_annotate_genes__refuses_chromosomes_that_never_meet() -> None:
    variants, genes = random_tables(1)
    far = genes.with_columns(chromosome=pl.lit("NC_000001.11"))
    with pytest.raises(
        DataError, match=r"no chromosome of the variants \(1, 2, 23, 7\) is one of the genes' \(NC_000001\.11, without chr\)"
    ):
        run_stage(stage(), {"variants": variants, "genes": far}, 2)
    with pytest.raises(DataError, match=r"is one of the genes' \(none"):
        run_stage(stage(), {"variants": variants, "genes": genes[:0]}, 2)


def test_annotate_genes__refuses_tables_that_do_not_fit() -> None:
    variants, genes = random_tables(1)
    with pytest.raises(StageError, match="the table given as 'genes' has no column 'gene_name'"):
        plan_stage(stage(), {"variants": variants, "genes": genes.drop("gene_name")})
    with pytest.raises(StageError, match="the table given as 'variants' has no column 'base_pair_location'"):
        plan_stage(stage(), {"variants": variants.drop("base_pair_location"), "genes": genes})
    with pytest.raises(StageError, match=r"has a column 'gene_name' already\. Leave it out before"):
        plan_stage(stage(), {"variants": variants.with_columns(gene_name=pl.lit("a")), "genes": genes})
