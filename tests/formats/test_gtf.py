"""The gtf format: genes of GTF and GFF3 files as GENCODE, Ensembl and NCBI write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.errors import InputError
from pipeline.formats.gtf import GtfInput
from pipeline.genome.columns import dtypes_of
from pipeline.tables.steps import Step, evaluate
from tests.kernels.plink_files import DATA

GENCODE = DATA / "annotation" / "gencode.v19.annotation.chr20.250k.gtf"
HEAD = "##description: evidence-based annotation of the human genome (GRCh37), version 19 (Ensembl 74)\n##provider: GENCODE\n"
ENSEMBL = "##gff-version 3\n#!genome-build  GRCh38.p14\n" + "".join(
    f"{line}\n"
    for line in (
        "20\tensembl\tgene\t87250\t97094\t.\t+\t.\tID=gene:ENSG00000178591;Name=DEFB125;biotype=protein_coding;gene_id=ENSG00000178591",
        "20\tensembl\tmRNA\t87250\t97094\t.\t+\t.\tID=transcript:ENST00000382410;Parent=gene:ENSG00000178591",
        "20\tensembl\tncRNA_gene\t100\t200\t.\t-\t.\tID=gene:ENSG00000000001;biotype=lncRNA",
    )
)
NCBI = (
    "NC_000020.11\tBestRefSeq\tgene\t87710\t97094\t.\t+\t.\tID=gene-DEFB125;Dbxref=GeneID:245938;Name=DEFB125;gene_biotype=protein_coding\n"
)


def reader(path: Path | list[Path], **given: Any) -> GtfInput:
    return GtfInput.model_validate({"path": [str(one) for one in path] if isinstance(path, list) else str(path), **given})


def read(table: GtfInput) -> pl.DataFrame:
    (source,) = table.sources(2)
    frame = evaluate(Step("read", "genes", source=source), "cpu").frame
    assert frame.schema == table.table_schema().columns
    return frame


@pytest.mark.skipif(not GENCODE.is_file(), reason=f"the shared annotation is not at {GENCODE}")
def test_gtf_input__gencodes_genes_are_those_of_its_lines() -> None:
    lines = [line.split("\t") for line in GENCODE.read_text().splitlines() if not line.startswith("#")]
    expected = [
        (
            f[0],
            int(f[3]),
            int(f[4]),
            f[6],
            "gene",
            *(
                re.findall(rf'{key} "([^"]*)"', f[8])[0]
                for key in ("gene_id", "gene_name", "gene_type", "transcript_id", "transcript_type")
            ),
            None,
        )
        for f in lines
        if f[2] == "gene"
    ]
    found = read(reader(GENCODE))
    assert found.rows() == expected
    assert dict(found.schema) == dtypes_of(found.columns)
    counts = read(reader(GENCODE, features=["gene", "transcript", "exon"]))["feature"].value_counts()
    assert dict(counts.rows()) == {kind: sum(f[2] == kind for f in lines) for kind in ("gene", "transcript", "exon")}


@pytest.mark.parametrize("name", ["a.gff3", "a.gzip.gff3.gz", "a.bgzip.gff3.gz"])
def test_gtf_input__reads_ensembls_gff3(text_file: Callable[[str, bytes], Path], name: str) -> None:
    table = reader(text_file(name, ENSEMBL.encode()), features=["gene", "ncRNA_gene"])
    assert read(table).rows() == [
        ("20", 87250, 97094, "+", "gene", "ENSG00000178591", "DEFB125", "protein_coding", None, None, None),
        ("20", 100, 200, "-", "ncRNA_gene", "ENSG00000000001", None, "lncRNA", None, None, None),
    ]
    assert table.genome_build() == "GRCh38"
    assert table.model_copy(update={"build": "GRCh37"}).genome_build() == "GRCh37"


def test_gtf_input__reads_ncbis_gff3_and_several_files(text_file: Callable[[str, bytes], Path]) -> None:
    first, second = (
        text_file("a.gff3", NCBI.encode()),
        text_file("b.gtf", (HEAD + 'chr1\tx\tgene\t5\t6\t.\t.\t.\tgene_id "g1"; level 2;\n').encode()),
    )
    assert read(reader([first, second])).rows() == [
        ("NC_000020.11", 87710, 97094, "+", "gene", "gene-DEFB125", "DEFB125", "protein_coding", None, None, None),
        ("chr1", 5, 6, None, "gene", "g1", None, None, None, None, None),
    ]
    assert reader(first).genome_build() is None
    assert reader(second).genome_build() == "GRCh37"


def test_gtf_input__names_the_transcripts_of_exons_and_coding_parts(text_file: Callable[[str, bytes], Path]) -> None:
    gtf = 'chr1\tx\tCDS\t5\t9\t.\t+\t2\tgene_id "g1"; transcript_id "t1"; transcript_biotype "lncRNA";\n'
    gff = "chr1\tx\tCDS\t5\t9\t.\t+\t0\tID=CDS:p1;Parent=transcript:t2;gene_id=g1\n"
    found = read(reader([text_file("a.gtf", gtf.encode()), text_file("b.gff3", gff.encode())], features="CDS"))
    columns = ("gene_id", "transcript_id", "transcript_type", "phase")
    assert found.select(columns).rows() == [("g1", "t1", "lncRNA", 2), ("g1", "t2", None, 0)]


def test_gtf_input__leaves_out_the_sequences_of_a_gff3(text_file: Callable[[str, bytes], Path]) -> None:
    path = text_file("a.gff3", (NCBI + "##FASTA\n>NC_000020.11\nACGT\nACGT\n").encode())
    assert read(reader(path)).height == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("chr1\tx\tgene\t5\t6\t.\t+\t.", r"the line that begins with 'chr1\\tx\\tgene.*' has 8 fields where GTF and GFF3 have nine"),
        ("chr1\tx\tgene\t5\t6\t.\t+\t.\tID=a\tmore", "has 10 fields where GTF and GFF3 have nine, separated by tabs"),
        ("chr1 x gene 5 6 . + . ID=a", "has 1 fields where GTF and GFF3 have nine"),
        ("chr1\tx\tgene\tfive\t6\t.\t+\t.\tID=a", "'chr1\\\\tx\\\\tgene\\\\tfive\\\\t6': start and end must be numbers from 1"),
        ("chr1\tx\tgene\t7\t6\t.\t+\t.\tID=a", "the end not before the start"),
        ("chr1\tx\texon\t5\t6\t.\t+\t.\tID=a", r"no line's feature \(column 3\) is gene; they have: exon"),
    ],
)
def test_gtf_input__refuses_a_wrong_line_and_shows_it(text_file: Callable[[str, bytes], Path], line: str, message: str) -> None:
    good = NCBI if "exon" not in line else ""
    with pytest.raises(InputError, match=message):
        read(reader(text_file("a.gff3", f"{good}{line}\n".encode())))


def test_gtf_input__refuses_a_file_of_comments_alone(text_file: Callable[[str, bytes], Path]) -> None:
    with pytest.raises(InputError, match="they have no lines at all"):
        read(reader(text_file("a.gff3", b"##gff-version 3\n")))
