"""The gwas_ssf input: what the output wrote, and what the standard lets others write."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import InputError, PipelineError
from pipeline.formats.gwas_ssf import GwasSsfInput, GwasSsfOutput
from pipeline.genome.builds import MARK
from pipeline.stages.genomics.meta_analysis import MetaAnalysis
from pipeline.tables.part import Part
from pipeline.testing.formats import read_table
from tests.formats.test_gwas_ssf import results
from tests.outputs import write_output
from tests.stages.genomics.cohorts import run

HEAD = ["chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error", "effect_allele_frequency", "p_value"]


def reader(path: Path, **keys: Any) -> GwasSsfInput:
    return GwasSsfInput.model_validate({"path": str(path), **keys})


def file_of(folder: Path, head: list[str], *rows: tuple[Any, ...]) -> Path:
    path = folder / "a.tsv"
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in (head, *rows)), encoding="utf-8")
    return path


def test_gwas_ssf__that_we_wrote_comes_back(tmp_path: Path) -> None:
    rows = results(traits=("LDL",)).with_columns(other_allele=pl.lit("C"), effect_allele=pl.lit("A"))
    tiny = pl.int_range(pl.len()) == 5
    rows = rows.with_columns(
        p_value=pl.when(tiny).then(0.0).otherwise("p_value"),
        neg_log_10_p_value=pl.when(tiny).then(1073.25).otherwise("neg_log_10_p_value"),
    )
    write_output(GwasSsfOutput.model_validate({"build": "hg19"}), Part(rows), {}, 3, tmp_path)
    ours = reader(tmp_path / "out" / "out.LDL.tsv.gz", trait="ldl")
    found = read_table(ours).frame
    expected = rows.select("base_pair_location", "effect_allele", "other_allele", "effect_allele_frequency", "beta", "standard_error")
    assert_frame_equal(found.select(expected.columns), expected)
    assert found["chromosome"].to_list() == rows["chromosome"].str.replace("chr", "").to_list()
    assert {"X", "Y", "MT"} < {*found["chromosome"]}
    assert_frame_equal(found.select("p_value", "neg_log_10_p_value"), rows.select("p_value", "neg_log_10_p_value"), rel_tol=1e-9)
    names = [own if own.startswith("rs") else None for own in rows["variant_id"]]
    assert [name if name.startswith("rs") else None for name in found["variant_id"]] == names
    assert found["trait"].unique().to_list() == ["ldl"]
    assert found["n"].unique().to_list() == [2500]
    assert ours.genome_build() == "GRCh37"
    assert [mark.kind for mark in ours.marks()] == [MARK]


def test_gwas_ssf__odds_ratios_are_effects_and_small_p_values_keep_their_logarithm(tmp_path: Path) -> None:
    head = [name.replace("beta", "odds_ratio") for name in HEAD]
    path = file_of(tmp_path, head, (23, 10, "a", "C", 2, 0.1, 0.3, "3.1e-1073"), (25, 7, "A", "C", 0.5, 0.1, "#NA", 0.01))
    found = read_table(reader(path)).frame
    assert found["beta"].to_list() == pytest.approx([math.log(2), -math.log(2)])
    assert found["chromosome"].to_list() == ["X", "MT"]
    assert found["effect_allele"].to_list() == ["A", "A"]
    assert found["p_value"].to_list() == [0, 0.01]
    assert found["neg_log_10_p_value"].to_list() == pytest.approx([1073 - math.log10(3.1), 2])
    assert found["effect_allele_frequency"].to_list() == [0.3, None]
    assert found["variant_id"].to_list() == ["X:10", "MT:7"]
    assert "trait" not in found.columns
    assert reader(path).genome_build() is None


def test_gwas_ssf__with_logarithms_alone_has_p_values(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        [*HEAD[:7], "neg_log_10_p_value", "rsid"],
        (1, 10, "A", "C", 2, 0.1, 0.3, 400, "rs1"),
        (1, 11, "A", "C", 2, 0.1, 0.3, 2, "rs2"),
    )
    found = read_table(reader(path)).frame
    assert found["p_value"].to_list() == pytest.approx([0, 0.01])
    assert found["variant_id"].to_list() == ["rs1", "rs2"]


def test_gwas_ssf__meets_a_scan_of_ours_on_every_chromosome(tmp_path: Path) -> None:
    rows = results(40, traits=("LDL",)).with_columns(other_allele=pl.lit("C"), effect_allele=pl.lit("A"))
    write_output(GwasSsfOutput(), Part(rows), {}, 1, tmp_path)
    studies = {"ours": rows, "theirs": read_table(reader(tmp_path / "out" / "out.LDL.tsv.gz", trait="LDL")).frame}
    found = run(MetaAnalysis(min_studies=2), studies)[""].frame
    assert found.height == rows.height
    assert found["standard_error"].sort().to_list() == pytest.approx((rows["standard_error"] / math.sqrt(2)).sort().to_list())


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        (
            HEAD[1:],
            (10, "A", "C", 2, 0.1, 0.3, 0.2),
            "is no GWAS-SSF file, it has no column chromosome: its columns are base_pair_location",
        ),
        ([*HEAD[:4], "z_score", *HEAD[5:]], (1, 10, "A", "C", 2, 0.1, 0.3, 1), "no column beta or odds_ratio or hazard_ratio: its columns"),
        ([*HEAD, "beta"], (1, 10, "A", "C", 2, 0.1, 0.3, 0.2, 1), "its header line names 'beta' 2 times"),
        (HEAD, (1, 10, "A", "C", "high", 0.1, 0.3, 0.2), "'high'"),
        (HEAD, (1, 10, "A", "C", 2, 0.1, 0.3, "small"), r"a.tsv:2: .*p_value.*'small'"),
        (
            HEAD,
            (1, 10, "A", "C"),
            "a.tsv:2: 4 fields where the header line has 8. GWAS-SSF has tabs between all fields and #NA for a missing one",
        ),
    ],
)
def test_gwas_ssf__that_is_none_is_refused(tmp_path: Path, head: list[str], row: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        read_table(reader(file_of(tmp_path, head, row)))


def test_gwas_ssf__of_files_with_other_columns_is_refused(tmp_path: Path) -> None:
    row = (1, 10, "A", "C", 2, 0.1, 0.3, 0.2)
    for name, head, values in (("a", HEAD, row), ("b", [*HEAD, "n"], (*row, 9))):
        (tmp_path / name).mkdir()
        packed = gzip.compress(file_of(tmp_path / name, head, values).read_bytes())
        (tmp_path / f"{name}.tsv.gz").write_bytes(packed)
    with pytest.raises(InputError, match=r"b.tsv.gz: has the columns .*, n, and .*a.tsv.gz .* Give an input each"):
        reader(tmp_path / "*.tsv.gz").table_schema()
