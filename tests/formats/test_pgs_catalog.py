"""The pgs_catalog format: files as the PGS Catalog writes them, reported and harmonised."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.errors import DataError, InputError, JobError
from pipeline.formats.pgs_catalog import PgsCatalogInput, PgsCatalogOutput
from pipeline.testing.formats import read_table, write_table

HEAD = """###PGS CATALOG SCORING FILE - see https://www.pgscatalog.org/downloads/#dl_ftp_scoring for additional information
#format_version=2.0
##POLYGENIC SCORE (PGS) INFORMATION
#pgs_id=PGS000001
#weight_type=beta
#genome_build=GRCh37
"""
HARMONISED = HEAD + '##HARMONIZATION DETAILS\n#HmPOS_build=GRCh38\n#HmPOS_match_chr={"True": null, "False": null}\n'
REPORTED_ROWS = (
    "rsID\tchr_name\tchr_position\teffect_allele\tother_allele\teffect_weight\tallelefrequency_effect\n"
    "rs1\t1\t100\tA\tG\t0.25\t0.1\n"
    "\tX\t200\tAT\t\t-1e-3\t\n"
)
HARMONISED_ROWS = (
    "rsID\tchr_name\tchr_position\teffect_allele\teffect_weight\thm_source\thm_rsID\thm_chr\thm_pos\thm_inferOtherAllele\n"
    "rs1\t1\t100\tA\t0.25\tENSEMBL\trs10\t1\t1100\tG\n"
    "\t1\t300\tC\t0.5\tliftover\t\t1\t1300\t\n"
    "rs3\t6\t300\tT\t0.75\tUnknown\t\t\t\t\n"
)


def reader(path: Path, text: str, **given: Any) -> PgsCatalogInput:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return PgsCatalogInput.model_validate({"path": str(path), **given})


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
def test_pgs_catalog__reads_reported_positions(name: str, tmp_path: Path) -> None:
    ours = reader(tmp_path / name, HEAD + REPORTED_ROWS)
    assert ours.genome_build() == "GRCh37"
    assert read_table(ours).frame.rows() == [("1", 100, "rs1", "A", "G", 0.25), ("X", 200, "X:200", "AT", None, -1e-3)]


def test_pgs_catalog__reads_harmonised_positions_where_there_are_some(tmp_path: Path) -> None:
    ours = reader(tmp_path / "x.txt", HARMONISED + HARMONISED_ROWS)
    assert ours.genome_build() == "GRCh38"
    assert read_table(ours).frame.rows() == [
        ("1", 1100, "rs10", "A", "G", 0.25), ("1", 1300, "1:1300", "C", None, 0.5), (None, None, None, "T", None, 0.75),
    ]  # fmt: skip
    reported = reader(tmp_path / "y.txt", HARMONISED + HARMONISED_ROWS, positions="reported")
    assert reported.genome_build() == "GRCh37"
    assert [row[:3] for row in read_table(reported).frame.rows()] == [("1", 100, "rs1"), ("1", 300, "1:300"), ("6", 300, "rs3")]


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        ("a\tb\n1\t2\n", {}, "is no scoring file of the PGS Catalog: its columns are a, b"),
        ("", {}, r"is no scoring file|the file is empty"),
        (HEAD + REPORTED_ROWS, {"positions": "harmonised"}, r"has no columns hm_chr and hm_pos\. Take the harmonised file"),
        (HEAD + REPORTED_ROWS.replace("0.25", "much"), {}, "line 8: weight must be a number, found 'much'"),
        (
            HEAD + REPORTED_ROWS.replace("allelefrequency_effect", "is_dominant").replace("0.1\n", "True\n"),
            {},
            r"not of each copy .*is_dominant",
        ),
    ],
)
def test_pgs_catalog__refuses_what_is_none(text: str, given: dict[str, Any], said: str, tmp_path: Path) -> None:
    ours = reader(tmp_path / "x.txt", text, **given)
    with pytest.raises(InputError, match=said):
        read_table(ours)


WEIGHTS = pl.DataFrame(
    {
        "chromosome": ["1", "X", "22"], "base_pair_location": [100, 200, 7], "variant_id": ["rs1", "X:200:A:AT", "rs9"],
        "effect_allele": ["A", "AT", "G"], "other_allele": ["G", "A", None], "beta": [0.1, -1e-30, 1 / 3], "trait": ["ldl", "ldl", None],
    }
)  # fmt: skip


def test_a_written_pgs_catalog__is_read_again_from_any_parts(tmp_path: Path) -> None:
    content = set()
    for parts in (1, 2, 5):
        (file,) = write_table(PgsCatalogOutput(weight="beta", build="GRCh38"), WEIGHTS, tmp_path / str(parts), parts)
        content.add(gzip.decompress(file.read_bytes()))
    (text,) = content
    head = text.decode().splitlines()[:7]
    assert head[0].startswith("###PGS CATALOG SCORING FILE")
    assert head[3:6] == ["#trait_reported=ldl", "#genome_build=GRCh38", "#variants_number=3"]
    assert file.name.endswith(".txt.gz")
    again = PgsCatalogInput.model_validate({"path": str(file)})
    assert again.genome_build() == "GRCh38"
    assert read_table(again).frame.rows() == [
        ("1", 100, "rs1", "A", "G", 0.1), ("X", 200, "X:200", "AT", "A", -1e-30), ("22", 7, "rs9", "G", None, 1 / 3),
    ]  # fmt: skip
    (bare,) = write_table(PgsCatalogOutput(weight="beta"), WEIGHTS.drop("variant_id", "other_allele", "trait"), tmp_path / "bare")
    assert read_table(PgsCatalogInput.model_validate({"path": str(bare)})).frame["variant_id"].to_list() == ["1:100", "X:200", "22:7"]
    assert "#trait_reported=NR\n#genome_build=NR\n" in gzip.decompress(bare.read_bytes()).decode()


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        (WEIGHTS.drop("beta"), JobError, "a scoring file needs the column 'beta'"),
        (WEIGHTS.with_columns(beta=pl.lit("high")), JobError, "column 'beta' is String, and weights are numbers"),
        (WEIGHTS.with_columns(beta=pl.lit(None, pl.Float64)), DataError, "cannot hold the weight with chromosome '1', .*beta None"),
        (WEIGHTS.with_columns(trait=pl.Series(["ldl", "hdl", "hdl"])), DataError, "these are of ldl, hdl. Filter by trait"),
    ],
)
def test_a_written_pgs_catalog__refuses(rows: pl.DataFrame, error: type[Exception], said: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=said):
        write_table(PgsCatalogOutput(weight="beta"), rows, tmp_path / "refused", 2)
