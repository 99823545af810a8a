"""variant_consequences beside bcftools csq --local-csq (1.16), and beside whole proteins translated before and after each change.

`tests/data/consequences` has a simulated genome, its genes, and what bcftools printed (tests/data/README.md). Where bcftools is installed,
another genome is made and compared. What csq says differently by design is undone by `alike`, in words of its own.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from pipeline.formats.fasta import FastaInput
from pipeline.formats.gtf import GtfInput
from pipeline.stages.genomics.variant_consequences import VariantConsequences
from pipeline.testing.stages import run_stage
from tests.stages.genomics.gene_models import Gene, Genome, Transcript, Variant, protein, simulated, variants_of, vcf

RECORDED = Path(__file__).parents[2] / "data" / "consequences"
SEED, LENGTHS, COUNT = 11, {"1": 16_000, "2": 9_000}, 2_500
OURS_OF = {
    "5_prime_UTR_variant": "5_prime_utr",
    "3_prime_UTR_variant": "3_prime_utr",
    "non_coding_transcript_exon_variant": "non_coding",
    "non_coding_transcript_variant": "non_coding",
}
APART = {"intron", "non_coding"}
CODE = {"frameshift", "inframe_insertion", "inframe_deletion", "synonymous", "missense", "coding_sequence", "stop_gained", "stop_retained"}
CODE |= {"start_retained"}
Pair = tuple[Variant, str]


class Said(NamedTuple):
    """Terms, in bcftools' words, and changes of amino acids by variant and transcript (theirs of introns: by variant and gene)."""

    terms: dict[Pair, set[str]]
    amino_acids: dict[Pair, str]


def ours_of(variants: list[Variant], fasta: Path, gtf: Path) -> Said:
    """What the stage says, from files."""
    tables = {
        "variants": pl.DataFrame(variants, orient="row", schema=["chromosome", "base_pair_location", "ref", "alt"]).with_row_index("id"),
        "genes": GtfInput(path=(str(gtf),), features=("exon", "CDS", "stop_codon")).sources(1)[0].load().frame,
        "reference": FastaInput(path=(str(fasta),)).sources(1)[0].load().frame,
    }
    tables["variants"] = tables["variants"].with_columns(variant_id=pl.col("id").cast(pl.String))
    rows = run_stage(VariantConsequences(), tables, 2)[""].filter(pl.col("transcript_id").is_not_null())
    said = Said({}, {})
    for row in rows.iter_rows(named=True):
        pair = ((row["chromosome"], row["base_pair_location"], row["ref"], row["alt"]), row["transcript_id"])
        said.terms[pair] = {OURS_OF.get(term, term.removesuffix("_variant")) for term in row["consequences"].split("&")}
        if row["amino_acids"]:
            before, _, after = row["amino_acids"].partition("/")
            after = after or before
            said.amino_acids[pair] = f"{row['protein_position']}{before.strip('-')}>{after.strip('-')}"
    return said


def theirs_of(lines: Iterable[str]) -> Said:
    """What bcftools csq printed."""
    said = Said(defaultdict(set), {})
    for line in lines:
        fields = line.rstrip().split("\t")
        if not line.startswith("#") and fields[7].startswith("BCSQ="):
            variant = (fields[0], int(fields[1]), fields[3], fields[4])
            for one in fields[7].removeprefix("BCSQ=").split(","):
                words = one.split("|")
                pair = (variant, words[2] or words[1])
                said.terms[pair] |= {term.lstrip("*") for term in words[0].split("&")}
                if len(words) > 5:
                    at, before, _, after = re.fullmatch(r"(\d+)([A-Z*?]*)(?:>(\d+)([A-Z*?]*))?", words[5]).groups()  # type: ignore[union-attr]
                    said.amino_acids[pair] = f"{at}{before}>{before if after is None else after}"
    return said


def alike(ours: set[str], theirs: set[str]) -> bool:
    """Whether both say the same of a pair, but for what csq does by design.

    It says introns of a gene alone; of a shifted frame also that it meets a stop where the annotation's transcript has none; of a lost
    start nothing else; and of changes across an end of a coding part what they would do if nothing were spliced.
    """
    ours, theirs = ours - {"intron"}, set(theirs)
    if "frameshift" in ours:
        theirs -= {"stop_gained", "stop_retained"}
    if "stop_gained" in ours & theirs:
        theirs -= {"stop_retained"}
    if "start_lost" in ours & theirs or "coding_sequence" in ours:
        ours, theirs = ours - CODE, theirs - CODE
    return ours == theirs


def whole(genome: Genome, pair: Pair, found: tuple[Gene, Transcript], change: str) -> bool:
    """Whether a change of amino acids is what translating the whole coding sequence, before and after, shows."""
    at, before, after = re.fullmatch(r"(\d+)([A-Z*?]*)>([A-Z*?]*)", change).groups()  # type: ignore[union-attr]
    old, new = protein(genome.coding(*found)), protein(genome.coding(*found, pair[0]))
    first = int(at) - 1
    if after == "X":
        return old[:first] == new[:first] and old[first:].startswith(before)
    return old[first:].startswith(before) and old[:first] + after + old[first + len(before) :] == new


def near_an_end(variant: Variant, one: Transcript) -> bool:
    """Whether a variant reaches an end of an exon or of what codes, where csq and ours count insertions and deletions differently."""
    ends = [place for exon in one.exons for place in exon] + one.coding[:3] + one.coding[-5:]
    return any(variant[1] - 10 <= place <= variant[1] + len(variant[2]) + 9 for place in ends)


def compare(genome: Genome, ours: Said, theirs: Said) -> None:
    """Assert that both say the same, and that our amino acids are those of the whole proteins."""
    of = {one.name: (gene, one) for gene in genome.genes for one in gene.transcripts}
    for pair, change in ours.amino_acids.items():
        assert whole(genome, pair, of[pair[1]], change), (pair, change)
    by_gene: dict[Pair, set[str]] = defaultdict(set)
    for (variant, name), terms in ours.terms.items():
        by_gene[variant, of[name][0].name] |= terms
    single, several = list[tuple[Pair, set[str], set[str]]](), list[tuple[Pair, set[str], set[str]]]()
    for pair in {*ours.terms, *theirs.terms}:
        said, told = ours.terms.get(pair, set()), theirs.terms.get(pair, set())
        if told and told <= APART:
            is_near = pair[1] not in of and any(
                near_an_end(pair[0], one) for gene in genome.genes for one in gene.transcripts if gene.name == pair[1]
            )
            assert told <= by_gene[pair] or is_near, pair
        elif not (told or said <= APART or said == {"coding_sequence"}) or told:
            (single if len(pair[0][2]) == len(pair[0][3]) == 1 else several).append((pair, said, told))
    assert len(single) > 500
    assert len(several) > 800
    for pair, said, told in single:
        coding = of[pair[1]][1].coding
        ends = {"start_lost": coding[:3], "stop_retained": coding[-3:]}  # csq takes such a codon that lies in two exons for any other
        is_split = any(term in said and abs(codon[0] - codon[-1]) > 2 for term, codon in ends.items())
        assert alike(said, told) or is_split, (pair, said, told)
    differ = [(pair, said, told) for pair, said, told in several if not alike(said, told)]
    assert len(differ) < 0.1 * len(several)
    for pair, said, told in differ:
        change = theirs.amino_acids.get(pair, "")
        is_missed = "missense" in told and bool({"stop_gained", "stop_lost"} & said) and "*" in change  # not in the first of several codons
        is_wrong = change != "" and not whole(genome, pair, of[pair[1]], change)
        assert near_an_end(pair[0], of[pair[1]][1]) or is_wrong or is_missed, (pair, said, told)


def test_variant_consequences__are_those_of_bcftools_csq_as_recorded() -> None:
    genome = simulated(SEED, LENGTHS)
    with gzip.open(RECORDED / "csq.vcf.gz", "rt") as file:
        lines = file.read().splitlines()
    variants = [(f[0], int(f[1]), f[3], f[4]) for line in lines if not line.startswith("#") for f in [line.split("\t")]]
    ours = ours_of(variants, RECORDED / "genome.fa.gz", RECORDED / "genes.gtf.gz")
    compare(genome, ours, theirs_of(lines))


@pytest.mark.skipif(shutil.which("bcftools") is None, reason="bcftools is not installed")
@pytest.mark.parametrize("seed", [3])
def test_variant_consequences__are_those_of_bcftools_csq(seed: int, tmp_path: Path) -> None:
    genome = simulated(seed, LENGTHS)
    variants = variants_of(genome, seed, COUNT)
    ours = ours_of(variants, *written(genome, tmp_path)[:2])
    compare(genome, ours, theirs_of(csq(genome, variants, tmp_path)))


def written(genome: Genome, folder: Path) -> tuple[Path, Path, Path]:
    """A FASTA, a GTF and a GFF3."""
    files = folder / "genome.fa", folder / "genes.gtf", folder / "genes.gff3"
    for file, text in zip(files, (genome.fasta(), genome.gtf(), genome.gff3()), strict=True):
        file.write_text(text)
    return files


def csq(genome: Genome, variants: list[Variant], folder: Path) -> list[str]:
    """What bcftools prints."""
    fasta, _, gff3 = written(genome, folder)
    (folder / "variants.vcf").write_text(vcf(genome, variants))
    command = ["bcftools", "csq", "--local-csq", "-f", str(fasta), "-g", str(gff3), str(folder / "variants.vcf")]
    printed: str = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return printed.splitlines()


def record(folder: Path) -> None:
    """Write the recorded files anew, into RECORDED, by way of an empty folder; the long proteins of shifted frames are left out."""
    genome = simulated(SEED, LENGTHS)
    shifted = re.compile(r"((?:[^|,=]*&)?frameshift[^|,]*\|[^|,]*\|[^|,]*\|[^|,]*)\|[^,]*")
    lines = [shifted.sub(r"\1", line) for line in csq(genome, variants_of(genome, SEED, COUNT), folder)]
    texts = {
        "genome.fa.gz": genome.fasta(),
        "genes.gtf.gz": genome.gtf(),
        "csq.vcf.gz": "\n".join(line for line in lines if line[:2] != "##"),
    }
    RECORDED.mkdir(exist_ok=True)
    for name, text in texts.items():
        (RECORDED / name).write_bytes(gzip.compress(text.encode(), mtime=0))
