"""One cohort in every format of genotypes, for tests that compare where files lie: on a disk, in a bucket, on an HTTP server."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.format import InputFormat
from pipeline.formats._bgzip.blocks import EOF_BLOCK
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats._plink.bed_files import write_plink
from pipeline.formats.bcf import BcfInput
from pipeline.formats.bgen import BgenInput
from pipeline.formats.fasta import FastaInput
from pipeline.formats.fastq import FastqInput
from pipeline.formats.gtf import GtfInput
from pipeline.formats.pgen import PgenInput
from pipeline.formats.plink import PlinkInput
from pipeline.formats.vcf import VcfInput
from pipeline.kernels.genotypes import pack

Made = tuple[InputFormat, Path]
"""How a file is read, and where it was written."""


def calls_of(variants: int, people: int) -> NDArray[np.int8]:
    """Calls `int8[variants, people]`, -9 missing; every third variant is nearly the one before, as neighbours are."""
    random = np.random.default_rng(variants)
    calls = random.choice(np.array([0, 1, 2, -9], np.int8), (variants, people), p=[0.5, 0.3, 0.15, 0.05])
    for row in range(2, variants, 3):
        calls[row] = calls[row - 1]
        calls[row, row % people] = 1
    return calls


def codes_of(variants: int, people: int) -> NDArray[np.uint8]:
    """The same, 3 missing."""
    calls = calls_of(variants, people)
    return np.where(calls < 0, 3, calls).astype(np.uint8)


def vcf_text(variants: int, people: int) -> bytes:
    """The cohort as a VCF."""
    words = np.array([b"0/0\t", b"0/1\t", b"1/1\t", b"./.\t"])[codes_of(variants, people)]
    head = "##fileformat=VCFv4.2\n##contig=<ID=1,length=249250621>\n"
    names = "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *(f"p{i}" for i in range(people))])
    rows = (f"1\t{10 * row + 1}\tv{row}\tA\tC\t.\t.\t.\tGT\t".encode() + calls.tobytes()[:-1] for row, calls in enumerate(words))
    return (head + names + "\n").encode() + b"\n".join(rows) + b"\n"


def _packed(text: bytes, ending: str) -> bytes:
    """A text as it is, as bgzip (.vcf.bgz, .gff.gz) or as gzip."""
    if ending in {"vcf.bgz", "gff.gz"}:
        return bgzip(text) + EOF_BLOCK
    return gzip.compress(text, 1) if ending.endswith("gz") else text


def vcf(folder: Path, variants: int, people: int, ending: str) -> Made:
    """A VCF, packed as its ending says."""
    text, path = vcf_text(variants, people), folder / f"x.{ending}"
    path.write_bytes(_packed(text, ending))
    return VcfInput(path=(str(path),)), path


def bcf(folder: Path, variants: int, people: int) -> Made:
    """A BCF, made of the VCF by htslib."""
    bcftools = pytest.importorskip("pysam.bcftools")
    text, path = vcf_text(variants, people), folder / "x.bcf"
    typed = b'##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n'
    (folder / "text.vcf").write_bytes(text.replace(b"#CHROM", typed + b"#CHROM", 1))
    bcftools.view("-Ob", "-o", str(path), str(folder / "text.vcf"), catch_stdout=False)
    return BcfInput(path=(str(path),)), path


def plink(folder: Path, variants: int, people: int) -> Made:
    """A PLINK fileset."""
    rows = pl.DataFrame({"chromosome": "1", "base_pair_location": range(1, variants + 1), "variant_id": [f"v{i}" for i in range(variants)]})
    rows = rows.with_columns(ref=pl.lit("A"), alt=pl.lit("C"), centimorgan=pl.lit(0.0))
    write_plink(folder / "x", rows, pl.DataFrame({"sample_id": [f"p{i}" for i in range(people)]}), [pack(codes_of(variants, people))])
    return PlinkInput(path=(str(folder / "x.bed"),)), folder / "x.bed"


def _tables(folder: Path, alts: list[str], people: int) -> Path:
    lines = "".join(f"1\t{10 * i + 1}\tv{i}\tA\t{alt}\n" for i, alt in enumerate(alts))
    (folder / "x.pvar").write_text("#CHROM\tPOS\tID\tREF\tALT\n" + lines)
    (folder / "x.psam").write_text("#IID\tSEX\n" + "".join(f"p{i}\t{1 + i % 2}\n" for i in range(people)))
    return folder / "x.pgen"


def pgen(folder: Path, variants: int, people: int) -> Made:
    """A PLINK 2 fileset of calls; many records hold what differs from the one before."""
    pgenlib = pytest.importorskip("pgenlib")
    path = _tables(folder, ["C"] * variants, people)
    with pgenlib.PgenWriter(str(path).encode(), people, variant_ct=variants) as writer:
        for row in calls_of(variants, people):
            writer.append_biallelic(np.ascontiguousarray(row))
    return PgenInput(path=(str(path),)), path


def pgen_of_alleles(folder: Path, variants: int, people: int) -> Made:
    """One with sites of several alleles, and phase."""
    pgenlib = pytest.importorskip("pgenlib")
    random = np.random.default_rng(7)
    alts = ["C,G" if i % 5 == 0 else "C" for i in range(variants)]
    path = _tables(folder, alts, people)
    options = {"variant_ct": variants, "allele_ct_limit": 3, "hardcall_phase_present": True}
    with pgenlib.PgenWriter(str(path).encode(), people, **options) as writer:
        for alt in alts:
            count = alt.count(",") + 2
            writer.append_alleles(random.integers(0, count, 2 * people).astype(np.int32), all_phased=True, allele_ct=count)
    return PgenInput(path=(str(path),)), path


def pgen_of_dosages(folder: Path, variants: int, people: int) -> Made:
    """One of dosages."""
    pgenlib = pytest.importorskip("pgenlib")
    path = _tables(folder, ["C"] * variants, people)
    with pgenlib.PgenWriter(str(path).encode(), people, variant_ct=variants, dosage_present=True) as writer:
        for row in np.random.default_rng(3).uniform(0, 2, (variants, people)).astype(np.float32):
            writer.append_dosages(row)
    return PgenInput(path=(str(path),), field="dosages"), path


def pgen_of_one_width(folder: Path, variants: int, people: int) -> Made:
    """One whose records all have as many bytes, and whose REF alleles are marked one by one: storage mode 2."""
    pytest.importorskip("pgenlib")
    path = _tables(folder, ["C"] * variants, people)
    flags = np.packbits(np.arange(variants) % 2 == 0, bitorder="little").tobytes()
    head = b"\x6c\x1b\x02" + variants.to_bytes(4, "little") + people.to_bytes(4, "little") + b"\xc0"
    path.write_bytes(head + flags + pack(codes_of(variants, people)).tobytes())
    return PgenInput(path=(str(path),)), path


def bgen(folder: Path, variants: int, people: int, *, layout: int = 2) -> Made:
    """A BGEN file with its index; ids in it, or of layout 1 beside it."""
    package: Any = pytest.importorskip("bgen")
    found = np.random.default_rng(5).dirichlet((0.2, 0.2, 0.2), (variants, people))
    samples = [f"p{i}" for i in range(people)]
    options = {"samples": samples if layout == 2 else None, "layout": layout, "compression": "zlib"}
    if layout == 1:
        (folder / "x.sample").write_text("ID_1 ID_2 missing\n0 0 0\n" + "".join(f"f {name} 0\n" for name in samples))
    with package.BgenWriter(str(folder / "x.bgen"), people, **options) as writer:
        for i, row in enumerate(found):
            writer.add_variant(f"id{i}", f"rs{i}", "01", 10 * i + 1, ["A", "C"], row, bit_depth=16)
    return BgenInput(path=(str(folder / "x.bgen"),)), folder / "x.bgen"


def gtf(folder: Path, genes: int, _: int, ending: str) -> Made:
    """Genes."""
    lines = "".join(f'chr1\tH\tgene\t{10 * i + 1}\t{10 * i + 5}\t.\t+\t.\tgene_id "g{i}"; gene_name "n{i}";\n' for i in range(genes))
    text, path = b"#!genome-build GRCh38\n" + lines.encode(), folder / f"x.{ending}"
    path.write_bytes(_packed(text, ending))
    return GtfInput(path=(str(path),)), path


def fasta(folder: Path, pieces: int, _: int, ending: str) -> Made:
    """Sequences of a few pieces."""
    text, path = b"".join(b">%d GRCh38\n" % i + b"ACGTTGCANN\n" * 10_500 for i in range(1 + pieces // 100)), folder / f"x.{ending}"
    path.write_bytes(_packed(text, ending))
    return FastaInput(path=(str(path),)), path


def fastq(folder: Path, reads: int, _: int, ending: str) -> Made:
    """Reads of some lengths."""
    text = b"".join(b"@r%d\n%b\n+\n%b\n" % (i, b"ACGTTGCA" * (i % 5), b"I#5:F,,A" * (i % 5)) for i in range(reads))
    path = folder / f"x.{ending}"
    path.write_bytes(_packed(text, ending))
    return FastqInput(path=(str(path),), sample="s"), path


MAKERS: dict[str, Callable[[Path, int, int], Made]] = {
    **{ending: partial(vcf, ending=ending) for ending in ("vcf", "vcf.gz", "vcf.bgz")},
    "bcf": bcf,
    "plink": plink,
    "pgen": pgen,
    "pgen of alleles": pgen_of_alleles,
    "pgen of dosages": pgen_of_dosages,
    "pgen of one width": pgen_of_one_width,
    "bgen": bgen,
    "bgen of layout 1": partial(bgen, layout=1),
    **{ending: partial(fasta, ending=ending) for ending in ("fa", "fa.gz")},
    **{ending: partial(fastq, ending=ending) for ending in ("fq", "fq.gz")},
    **{ending: partial(gtf, ending=ending) for ending in ("gtf", "gtf.gz", "gff.gz")},
}
