"""variant_consequences: one gene by hand on both strands, odd annotations and references, and a job from files to gene-based tests.

What bcftools csq says of whole simulated genomes is in test_consequences_csq.py.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.api import load
from pipeline.errors import DataError, StageError
from pipeline.formats.fasta import FastaInput
from pipeline.formats.gtf import GtfInput
from pipeline.stages.genomics.variant_consequences import VariantConsequences
from pipeline.tables.part import Part
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.kernels.plink_files import DATA, needs_data
from tests.stages.genomics.gene_models import COMPLEMENT, simulated, variants_of

UPSTREAM, FIRST, INTRON, SECOND = "CCCCCCCCCC", "GGGGATGGCTAAAGT", "GTAAGTACGTACGTACGTACGTACGTACAG", "TCGTTGGTAACCCCCC"
SEQUENCE = UPSTREAM + FIRST + INTRON + SECOND + "AAAAA"  # MAKVRW* in two exons, 11 to 25 and 56 to 71; it codes from 15 to 65
EXONS, CODING = [(11, 25), (56, 71)], [("CDS", 15, 25, 0), ("CDS", 56, 62, 1), ("stop_codon", 63, 65, 0)]
ANNOTATION = {
    "chromosome": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "strand": pl.String,
    "feature": pl.String,
    "gene_id": pl.String,
    "gene_name": pl.String,
    "transcript_id": pl.String,
    "transcript_type": pl.String,
    "phase": pl.Int8,
}
CASES = [
    (5, "C", "A", "intergenic_variant", None, None),
    (12, "G", "A", "5_prime_UTR_variant", None, None),
    (15, "A", "G", "start_lost", 1, "M/V"),
    (15, "AT", "A", "frameshift_variant&start_lost", 1, "M/X"),
    (16, "TG", "T", "frameshift_variant", 1, "M/X"),  # the codon that is left is ATG again
    (18, "G", "A", "missense_variant", 2, "A/T"),
    (20, "T", "C", "synonymous_variant", 2, "A"),
    (21, "A", "T", "stop_gained", 3, "K/*"),
    (19, "C", "CA", "frameshift_variant", 2, "A/X"),
    (17, "G", "GTTT", "inframe_insertion", 2, "-/F"),
    (19, "CTAA", "C", "inframe_deletion", 2, "AK/A"),
    (18, "GCTA", "TCTC", "missense_variant", 2, "AK/SQ"),
    (21, "AAAG", "A", "inframe_deletion&splice_region_variant", 3, "KV/I"),
    (24, "GTG", "G", "splice_donor_variant&coding_sequence_variant&intron_variant", None, None),
    (25, "T", "TA", "splice_region_variant&intron_variant", None, None),
    (26, "G", "A", "splice_donor_variant&intron_variant", None, None),
    (33, "C", "A", "splice_region_variant&intron_variant", None, None),
    (34, "G", "A", "intron_variant", None, None),
    (47, "C", "A", "intron_variant", None, None),
    (48, "G", "A", "splice_region_variant&intron_variant", None, None),
    (54, "A", "C", "splice_acceptor_variant&intron_variant", None, None),
    (57, "C", "T", "missense_variant&splice_region_variant", 5, "R/C"),
    (62, "G", "A", "stop_gained", 6, "W/*"),
    (63, "T", "C", "stop_lost", 7, "*/Q"),
    (65, "A", "G", "stop_retained_variant", 7, "*"),
    (62, "GTA", "G", "frameshift_variant&stop_lost", 7, "*/X"),
    (64, "AAC", "A", "stop_lost&coding_sequence_variant&3_prime_UTR_variant", None, None),
    (67, "C", "G", "3_prime_UTR_variant", None, None),
    (10, "C" + FIRST + INTRON + SECOND, "C", "splice_acceptor_variant&splice_donor_variant&stop_lost&start_lost&", None, None),
]


def annotation(chromosome: str = "1", strand: str = "+", length: int = 0, name: str = "t") -> pl.DataFrame:
    """The gene's exons and coding parts; on the - strand of a sequence of so many bases, which is the first one's other strand."""
    rows = [("exon", a, b, None) for a, b in EXONS] + CODING
    placed = [(a, b) if strand == "+" else (length + 1 - b, length + 1 - a) for _, a, b, _ in rows]
    names = ("g1", "GENE", name, "protein_coding")
    found = [(chromosome, a, b, strand, row[0], *names, row[3]) for row, (a, b) in zip(rows, placed, strict=True)]
    return pl.DataFrame(found, schema=ANNOTATION, orient="row")


def reference(sequences: dict[str, str], width: int = 7) -> pl.DataFrame:
    """Sequences in small pieces."""
    rows = [(name, start + 1, text[start : start + width]) for name, text in sequences.items() for start in range(0, len(text), width)]
    return pl.DataFrame(rows, schema=["chromosome", "start", "sequence"], orient="row")


def variants(rows: list[tuple[Any, ...]], chromosome: str = "1") -> pl.DataFrame:
    """Position, REF and ALT."""
    frame = pl.DataFrame([row[:3] for row in rows], schema=["base_pair_location", "ref", "alt"], orient="row")
    return frame.with_row_index("n").select(
        pl.lit(chromosome).alias("chromosome"), "base_pair_location", pl.format("v{}", "n").alias("variant_id"), "ref", "alt"
    )


def tables(rows: list[tuple[Any, ...]] = CASES, **given: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {"variants": variants(rows), "genes": annotation(), "reference": reference({"1": SEQUENCE}), **given}


GENES = pl.concat([annotation(), annotation("chr2", "-", len(SEQUENCE) + 980)]).with_columns(pl.col("start", "end") + 985)
BASES = reference({"1": "N" * 985 + SEQUENCE, "2": "acgt" * 520}, 150)
EXAMPLES = [
    StageExample(VariantConsequences(), tables(), ordered=True),
    StageExample(
        VariantConsequences(mismatches="keep", set_by="gene_name"),
        {"variants": examples.GENOTYPES, "genes": GENES, "reference": BASES},
        examples.AXES,
        ordered=True,
    ),
]


def test_variant_consequences__of_a_gene_by_hand() -> None:
    found = run_stage(VariantConsequences(), tables())[""]
    assert found["variant_id"].to_list() == [f"v{i}" for i in range(len(CASES))]
    for row, (*_, terms, place, amino_acids) in zip(found.iter_rows(named=True), CASES, strict=True):
        assert row["consequences"].startswith(terms) if terms.endswith("&") else row["consequences"] == terms, row
        assert (row["protein_position"], row["amino_acids"]) == (place, amino_acids), row
        assert row["consequence"] == row["consequences"].split("&")[0]
        assert row["gene_id"] == (None if terms == "intergenic_variant" else "g1")


def test_variant_consequences__are_the_same_on_the_other_strand() -> None:
    """Substitutions of the gene's mirror image."""
    length = len(SEQUENCE)
    single = [case for case in CASES if len(case[1]) == len(case[2])]
    turned = [(length + 2 - at - len(ref), ref.translate(COMPLEMENT)[::-1], alt.translate(COMPLEMENT)[::-1]) for at, ref, alt, *_ in single]
    mirror = {"genes": annotation("1", "-", length), "reference": reference({"1": SEQUENCE.translate(COMPLEMENT)[::-1].lower()})}
    found = run_stage(VariantConsequences(), tables(turned, **mirror))[""]
    assert found.select("consequences", "protein_position", "amino_acids").rows() == [tuple(case[3:]) for case in single]


def test_variant_consequences__of_each_gene_the_worst() -> None:
    inner = annotation(name="u").filter(pl.col("feature") == "exon")  # a transcript that does not code
    rows = [(21, "A", "T"), (34, "G", "A"), (5, "C", "A")]
    found = run_stage(VariantConsequences(), tables(rows, genes=pl.concat([inner, annotation()])))
    assert found[""].select("variant_id", "transcript_id", "consequences").rows() == [
        ("v0", "t", "stop_gained"),
        ("v0", "u", "non_coding_transcript_exon_variant"),
        ("v1", "t", "intron_variant"),
        ("v1", "u", "non_coding_transcript_variant"),
        ("v2", None, "intergenic_variant"),
    ]
    assert found["genes"].rows() == [("v0", "g1", "GENE", "t", "stop_gained"), ("v1", "g1", "GENE", "t", "intron_variant")]
    named = run_stage(VariantConsequences(set_by="gene_name"), tables(rows))["genes"]
    assert named["set_id"].to_list() == ["GENE"] * 2


def test_variant_consequences__are_the_same_for_any_parts() -> None:
    genome = simulated(5, {"1": 5_000})
    rows = [(at, ref, alt) for _, at, ref, alt in variants_of(genome, 5, 300)]
    lines = [line.split("\t") for line in genome.gtf().splitlines()]
    genes = pl.DataFrame(
        [
            ("1", int(f[3]), int(f[4]), f[6], f[2], f[8].split('"')[1], None, f[8].split('"')[3], "x", None if f[7] == "." else int(f[7]))
            for f in lines
        ],
        schema=ANNOTATION,
        orient="row",
    )
    given = {"variants": variants(rows), "genes": genes, "reference": reference(genome.sequences, 400)}
    keys = ["base_pair_location", "ref", "alt", "transcript_id"]
    assert_same_for_any_parts(VariantConsequences(), given, keys)
    whole, cut = (run_stage(VariantConsequences(), given, parts)["genes"] for parts in (1, 7))
    assert_frame_equal(whole, cut)


def test_variant_consequences__reads_mitochondrial_codons_on_mt() -> None:
    rows = [(62, "G", "A"), (57, "CG", "AG")]  # TGA is W there, AGT stays S
    given = tables(rows, variants=variants(rows, "chrM"), genes=annotation("MT"), reference=reference({"chrM": SEQUENCE}))
    found = run_stage(VariantConsequences(), given)[""]
    assert found.select("consequence", "amino_acids").rows() == [("synonymous_variant", "W"), ("missense_variant", "R/S")]


def test_variant_consequences__of_incomplete_and_unknown_codons() -> None:
    """A gene that begins in the middle of a codon and ends so; and a base that nobody knows."""
    genes = annotation().filter(pl.col("feature") != "stop_codon")
    genes = genes.with_columns(phase=pl.when(pl.col("start") == 15).then(2).otherwise("phase").cast(pl.Int8))
    unknown = SEQUENCE[:19] + "N" + SEQUENCE[20:]  # within its first whole codons, GGC TAA AGT
    rows = [(15, "A", "G"), (17, "G", "A"), (18, "G", "A"), (21, "A", "C"), (62, "G", "C")]
    found = run_stage(VariantConsequences(), tables(rows, genes=genes, reference=reference({"1": unknown})))[""]
    assert found.select("consequence", "amino_acids").rows() == [
        ("coding_sequence_variant", None),
        ("missense_variant", "G/S"),
        ("missense_variant", "G/D"),
        ("coding_sequence_variant", "X"),
        ("coding_sequence_variant", None),
    ]


def test_variant_consequences__leaves_out_what_is_no_bases() -> None:
    rows = [(21, "A", "<DEL>"), (21, "A", "*"), (21, "A", "A"), (21, "a", "t"), (None, "A", "T")]
    given = tables(rows)
    assert run_stage(VariantConsequences(), given)[""]["consequence"].to_list() == ["stop_gained"]


def test_variant_consequences__refuses_another_reference_or_keeps() -> None:
    given = tables([(20, "T", "C"), (21, "G", "T"), (22, "AA", "A")])
    with pytest.raises(
        DataError, match=r"'v1' \(1:21, REF G, ALT T\) has a REF that is not what the reference has there\. Are both of one"
    ):
        run_stage(VariantConsequences(), given)
    kept = VariantConsequences(mismatches="keep")
    found = run_stage(kept, given)[""]
    assert found["consequence"].to_list() == ["synonymous_variant", "coding_sequence_variant", "frameshift_variant"]
    assert found["amino_acids"].to_list() == ["A", None, "K/X"]


def test_variant_consequences__refuses_a_reference_of_other_names_or_twice() -> None:
    with pytest.raises(DataError, match=r"the reference \(sequences gi\|1\) has none of the coding parts of the genes \(on 1, .*`rename`"):
        run_stage(VariantConsequences(), tables(reference=reference({"gi|1": SEQUENCE})))
    with pytest.raises(DataError, match="the reference has chromosome 1 at 15 more than once, with different bases"):
        run_stage(VariantConsequences(), tables(reference=reference({"1": SEQUENCE, "chr1": SEQUENCE.translate(COMPLEMENT)})))
    given = tables(genes=pl.concat([annotation(), annotation("7", name="v").with_columns(gene_id=pl.lit("g7"))]))
    given["variants"] = pl.concat([variants([(21, "A", "T")]), variants([(21, "A", "T")], "7")])
    assert run_stage(VariantConsequences(), given)[""]["consequence"].to_list() == ["stop_gained", "coding_sequence_variant"]


def test_variant_consequences__refuses_annotations_without_what_is_needed() -> None:
    genes = annotation()
    with pytest.raises(
        DataError, match=r"no exons and no coding parts \(they have: gene\)\. Read them with features: \[exon, CDS, stop_codon\]"
    ):
        run_stage(VariantConsequences(), tables(genes=genes.with_columns(feature=pl.lit("gene"))))
    lacking = pl.when(pl.col("feature") == "exon").then(None).otherwise("transcript_id")
    with pytest.raises(DataError, match=r"2 rows of genes lack transcript_id, gene_id or chromosome, such as exon 1:11-25"):
        run_stage(VariantConsequences(), tables(genes=genes.with_columns(transcript_id=lacking)))
    first = pl.when(pl.col("start") == 11).then(pl.lit("exon:1")).otherwise("gene_id")
    with pytest.raises(DataError, match=r"the transcript 't' is of several genes \(exon:1, g1\)\. GFF3 of Ensembl"):
        run_stage(VariantConsequences(), tables(genes=genes.with_columns(gene_id=first)))
    with pytest.raises(DataError, match=r"the transcript 't' lies on several strands \(\+, -\)"):
        run_stage(
            VariantConsequences(),
            tables(genes=genes.with_columns(strand=pl.when(pl.col("start") == 11).then(pl.lit("-")).otherwise("strand"))),
        )
    with pytest.raises(StageError, match="the table given as 'genes' has no column 'phase'"):
        plan_stage(VariantConsequences(), tables(genes=genes.drop("phase")))
    with pytest.raises(DataError, match=r"the variants are of 29 autosomes"):
        run_stage(VariantConsequences(), tables(variants=variants(CASES).with_columns(autosomes=29)))


def test_variant_consequences__takes_coding_parts_without_exons() -> None:
    found = run_stage(
        VariantConsequences(),
        tables([(12, "G", "A"), (26, "G", "A"), (63, "T", "C")], genes=annotation().filter(pl.col("feature") != "exon")),
    )
    assert found[""]["consequence"].to_list() == ["intergenic_variant", "splice_donor_variant", "stop_lost"]


@needs_data
def test_variant_consequences__gencode() -> None:
    """DEFB125 of GENCODE 19 on GRCh37: rs6075788-like changes of its first and last codons."""
    folder = DATA / "annotation"
    genes = GtfInput(path=(str(folder / "gencode.v19.annotation.chr20.250k.gtf"),), features=("exon", "CDS", "stop_codon"))
    fasta = FastaInput(path=(str(folder / "chr20.250k.fa.gz"),), rename={"gi|224384749|gb|CM000682.1|": "20"})
    given = {"genes": genes.sources(1)[0].load().frame, "reference": fasta.sources(1)[0].load().frame}
    rows = [(68351, "A", "G"), (68353, "G", "T"), (77056, "T", "C"), (77058, "A", "G"), (76645, "G", "A")]
    found = run_stage(VariantConsequences(), {"variants": variants(rows, "chr20"), **given})["genes"]
    defb125 = found.filter(pl.col("gene_name") == "DEFB125")
    expected = ["start_lost", "start_lost", "stop_lost", "stop_retained_variant", "splice_acceptor_variant"]
    assert defb125["annotation"].to_list() == expected


JOB = """
job: rare
inputs:
  cohort: {format: vcf, path: cohort.vcf}
  people: {format: csv, path: people.csv}
  genes: {format: gtf, path: genes.gtf, features: [exon, CDS, stop_codon]}
  genome: {format: fasta, path: genome.fa.gz, rename: {"chromosome_1": "1"}}
  masks: {format: csv, path: masks.csv}
stages:
  - {use: variant_consequences, from: {variants: cohort, genes: genes, reference: genome}, as: csq}
  - {use: variant_sets, from: {annotations: csq.genes, masks: masks}, as: sets}
  - {use: set_association, from: {genotypes: cohort, samples: people, sets: sets}, as: tests, traits: [height], tests: [burden, skat]}
outputs:
  consequences: {from: csq}
  tests: {from: tests}
"""


def test_variant_consequences__a_job_from_files_to_tests_of_genes(tmp_path: Path) -> None:
    genome = simulated(9, {"1": 3_000})
    found = [*variants_of(genome, 9, 120), ("1", 2_900, genome.sequences["1"][2_899].upper(), "<DEL>")]
    people = [f"s{i}" for i in range(40)]
    calls = ["\t".join("0/1" if (i * 7 + j * j) % 11 == 0 else "0/0" for j in range(40)) for i in range(len(found))]
    head = "##fileformat=VCFv4.2\n##contig=<ID=1>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=x>\n"
    head += "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *people]) + "\n"
    lines = [f"1\t{at}\t.\t{ref}\t{alt}\t.\t.\t.\tGT\t{row}\n" for (_, at, ref, alt), row in zip(found, calls, strict=True)]
    (tmp_path / "cohort.vcf").write_text(head + "".join(lines))
    (tmp_path / "people.csv").write_text("sample_id,height\n" + "".join(f"{name},{i * 37 % 23}.5\n" for i, name in enumerate(people)))
    (tmp_path / "genes.gtf").write_text(genome.gtf())
    (tmp_path / "genome.fa.gz").write_bytes(gzip.compress(genome.fasta().replace(">1 ", ">chromosome_1 ").encode()))
    (tmp_path / "masks.csv").write_text('mask,annotations\nlof,"stop_gained,frameshift_variant"\naltered,"missense_variant,stop_gained"\n')
    (tmp_path / "job.yaml").write_text(re.sub(r"(?<=path: )", f"{tmp_path}/", JOB))
    run = load(tmp_path / "job.yaml", results=str(tmp_path / "results")).run()
    said, tested = run.table("consequences").to_polars(), run.table("tests").to_polars()
    genes = said.filter(pl.col("consequence").is_in(["stop_gained", "frameshift_variant", "missense_variant"]))["gene_id"]
    assert run.record["stages"]["csq"]["counts"] == {"not_bases": 1, "mismatches": 0, "unknown_sequence": 0}
    assert tested.height > 0
    assert set(tested["set_id"]) <= set(genes)
    assert set(tested["mask"].drop_nulls()) == {"lof", "altered"}


def test_variant_consequences__a_genotype_table_gives_rows_without_calls() -> None:
    found = run_stage(EXAMPLES[1].stage, {**EXAMPLES[1].tables, "variants": Part(examples.GENOTYPES.frame)})
    assert set(found[""]["chromosome"]) == {"1", "chr2", "X"}
