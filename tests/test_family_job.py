"""jobs/family.yaml: what PLINK 1.9 and 2 and GEMMA 0.98.5 say of the same people, and what the generator spoiled is found."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline import api

ROOT = Path(__file__).parents[1]
FILES = {"cohort": "family.bed", "sheet": "samples.csv"}
EXCHANGED, MISNOTED, CAUSAL = ("F70-443", "F01-005"), ("F26-156", "F30-185", "F49-307"), "11:10057372:A:G"
# plink1.9 --mendel: 1,962 errors of 276 trios; the children with the most.
ERRORS, MOST = 1_962, {"F70-443": 516, "F01-005": 458, "F30-185": 53}
# plink2 --autosome --make-king-table --king-table-filter 0.0884: pairs, and the first two.
PAIRS, FIRST = 2_048, [("F01-002", "F01-000", 2_102, 0.25), ("F01-002", "F01-001", 2_103, 0.273671)]
# gemma -lmm 1 with the relationships of plink2 --nonfounders --make-rel square: the strongest, and heritability with its error.
STRONGEST = [
    ("11:10057372:A:G", 5.036422, 0.5627607, 1.034082e-17),
    ("11:10054607:G:A", 3.258655, 0.5548080, 8.474055e-09),
    ("11:10087381:C:A", -4.387945, 0.9086942, 1.903875e-06),
]
HERITABILITY = (0.533243, 0.065188)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped, its files found from anywhere."""
    paths = {f"inputs__{name}__path": str(ROOT / "data" / "family" / file) for name, file in FILES.items()}
    return api.load(ROOT / "jobs" / "family.yaml", cluster__dashboard=False, results=str(tmp_path_factory.mktemp("family")), **paths).run()


def table(run: api.Run, name: str) -> pl.DataFrame:
    return run.table(name).to_polars()


def test_trios__have_plinks_errors_and_tell_who_was_exchanged(shipped: api.Run) -> None:
    trios = table(shipped, "trios")
    assert (trios.height, trios["mendel_errors"].sum()) == (276, ERRORS)
    errors = dict(trios.select("sample_id", "mendel_errors").rows())
    assert {name: errors[name] for name in MOST} == MOST
    strangers = trios.filter(pl.col("mendel_errors") > 0.1 * pl.col("called"))
    assert {*strangers["sample_id"]} == {*EXCHANGED}


def test_sexes__tell_whose_was_noted_wrongly(shipped: api.Run) -> None:
    sexes = table(shipped, "sexes")
    assert sorted(sexes.filter(pl.col("status") == "problem")["sample_id"]) == [*MISNOTED]


def test_pairs__are_plinks(shipped: api.Run) -> None:
    pairs = table(shipped, "pairs")
    assert pairs.height == PAIRS
    found = pairs.head(len(FIRST)).select("sample_id_1", "sample_id_2", "variants_shared", "kinship").rows()
    assert [row[:3] for row in found] == [row[:3] for row in FIRST]
    assert [row[3] for row in found] == pytest.approx([row[3] for row in FIRST], abs=1e-6)


def test_scan__is_gemmas_and_finds_the_causal_variant(shipped: api.Run) -> None:
    found = table(shipped, "associations").head(len(STRONGEST)).select("variant_id", "beta", "standard_error", "p_value").rows()
    assert [row[0] for row in found] == [row[0] for row in STRONGEST]
    for (_, *numbers), (_, *printed) in zip(found, STRONGEST, strict=True):
        assert numbers == pytest.approx(printed, rel=2e-5)
    heritability = table(shipped, "heritability").select("heritability", "standard_error").row(0)
    assert heritability == pytest.approx(HERITABILITY, abs=2e-6)
    assert table(shipped, "loci")["variant_id"].to_list() == [CAUSAL]


def test_genotypes__are_written_without_who_and_what_was_spoiled(shipped: api.Run) -> None:
    written = Path(shipped.report).parent / "genotypes" / "genotypes"
    people = {line.split("\t")[1] for line in written.with_suffix(".psam").read_text().splitlines()[1:]}
    assert len(people) == 439
    assert people.isdisjoint({*EXCHANGED, *MISNOTED})
    assert table(shipped, "variants").height == 2_293
