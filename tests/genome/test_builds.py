"""Genome builds: their names, and what lengths and header texts say."""

from __future__ import annotations

import pytest

from pipeline.genome.builds import build_in_text, build_of_contigs, normal_build


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("hg19", "GRCh37"),
        ("GRCh38.p14", "GRCh38"),
        (" b37 ", "GRCh37"),
        ("hg18", "NCBI36"),
        ("hs37d5", "GRCh37"),
        ("T2T-CHM13", "T2T-CHM13"),
    ],
)
def test_normal_build__knows_the_names_of_a_build(text: str, build: str) -> None:
    assert normal_build(text) == build


def test_normal_build__refuses_another_name_and_lists_those_that_it_knows() -> None:
    with pytest.raises(ValueError, match=r"'mm10' is no genome build .*GRCh37 \(hg19, b37\); GRCh38 \(hg38, b38\)"):
        normal_build("mm10")


@pytest.mark.parametrize(
    ("lengths", "build"),
    [
        ({"chr1": 249_250_621}, "GRCh37"),
        ({"20": 64_444_167, "chrUn_1": 12}, "GRCh38"),
        ({"chrX": 154_259_566}, "T2T-CHM13"),
        ({"20": 62_435_964}, "NCBI36"),
        ({"20": 63_025_520, "21": 46_709_983}, None),
        ({"20": 5}, None),
        ({}, None),
    ],
)
def test_build_of_contigs__goes_by_lengths_that_agree(lengths: dict[str, int], build: str | None) -> None:
    assert build_of_contigs(lengths) == build


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("file:///ref/GRCh38.p13.fa.gz", "GRCh38"),
        ("evidence-based annotation of the human genome (GRCh37), version 19 (Ensembl 74)", "GRCh37"),
        ("human_g1k_v37.fasta", "GRCh37"),
        ("ucsc.hg19.fasta", "GRCh37"),
        ("/data/chm13v2.0.fa", "T2T-CHM13"),
        ("lifted from hg19 to hg38", None),
        ("reference.fa", None),
        ("hg1938.fa", None),
    ],
)
def test_build_in_text__names_a_build_where_one_stands_there(text: str, build: str | None) -> None:
    assert build_in_text(text) == build
