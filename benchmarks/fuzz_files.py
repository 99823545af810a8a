"""What fuzz.py spoils: a small whole file of each format, job files and expressions; and the ways in which they are spoiled."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.format import InputFormat
from pipeline.formats.arrow import ArrowInput
from pipeline.formats.avro import AvroInput
from pipeline.formats.bcf import BcfInput
from pipeline.formats.bed import BedInput
from pipeline.formats.bgen import BgenInput
from pipeline.formats.chain import ChainInput
from pipeline.formats.csv import CsvInput
from pipeline.formats.fasta import FastaInput
from pipeline.formats.fastq import FastqInput
from pipeline.formats.gtf import GtfInput
from pipeline.formats.gwas_ssf import GwasSsfInput
from pipeline.formats.jsonl import JsonlInput
from pipeline.formats.orc import OrcInput, OrcOutput
from pipeline.formats.parquet import ParquetInput
from pipeline.formats.pgen import PgenInput
from pipeline.formats.pgs_catalog import PgsCatalogInput
from pipeline.formats.plink import PlinkInput
from pipeline.formats.plink_sheet import PlinkSheetInput
from pipeline.formats.vcf import VcfInput
from pipeline.tables.part import Part

ROWS, PEOPLE = 300, 7
FRAME = pl.DataFrame(
    {
        "id": range(ROWS),
        "x": [number / 7 for number in range(ROWS)],
        "name": [f"name {number % 13}" for number in range(ROWS)],
        "flag": [number % 3 == 0 for number in range(ROWS)],
    }
)
NESTED = pl.DataFrame(
    {
        "day": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 10, 26), eager=True),
        "at": pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2020, 10, 26), "1d", eager=True),
        "listed": [list(range(number % 5)) for number in range(ROWS)],
        "texts": [[f"t{number}"] * (number % 3) for number in range(ROWS)],
        "who": [{"a": number, "b": None if number % 2 else f"s{number}"} for number in range(ROWS)],
        "some": [None if number % 4 else "many" * number for number in range(ROWS)],
    }
)
CHECKED = frozenset({"csv.gz", "jsonl.gz", "vcf.gz", "vcf.bgz", "fa.gz", "fq.gz", "gtf.gz", "gwas_ssf.gz"})
"""Kinds whose packing has checksums: spoiled, they are refused, or hold what they held."""

EOF_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


def vcf() -> bytes:
    """Genotypes of a few people."""
    head = "##fileformat=VCFv4.2\n##contig=<ID=1,length=249250621>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"
    calls = ("0/0", "0/1", "1|1", "./.", "0/2")
    lines = [
        f"1\t{10 * row + 1}\trs{row}\tA\tC,G\t.\tPASS\t.\tGT:DP\t" + "\t".join(f"{calls[(row + i) % 5]}:9" for i in range(PEOPLE))
        for row in range(ROWS)
    ]
    return (head + "\t".join(f"p{i}" for i in range(PEOPLE)) + "\n" + "\n".join(lines) + "\n").encode()


def fasta() -> bytes:
    """Three sequences."""
    bases = ["".join("ACGTacgtNN"[(row * row + 7 * i * row + i * i * i) % 10] for i in range(60)) for row in range(ROWS)]
    return "".join(f">chr{number} of three\n" + "\n".join(bases[number::3]) + "\n" for number in range(3)).encode()


def fastq() -> bytes:
    """Reads of ten lengths."""
    reads = (("ACGTN"[number % 5] * (20 + number % 10), chr(40 + number % 30) * (20 + number % 10)) for number in range(ROWS))
    return "".join(f"@r{number} of many\n{bases}\n+\n{qualities}\n" for number, (bases, qualities) in enumerate(reads)).encode()


def gtf() -> bytes:
    """Genes."""
    lines = [f'1\tx\tgene\t{9 * row + 1}\t{9 * row + 7}\t.\t+\t.\tgene_id "g{row}"; gene_name "n{row}";' for row in range(ROWS)]
    return ("#!genome-build GRCh38\n" + "\n".join(lines) + "\n").encode()


def bgzipped(text: bytes) -> bytes:
    """Text in blocks of a kilobyte."""
    found = bytearray()
    for at in range(0, len(text), 1000):
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        data = deflate.compress(text[at : at + 1000]) + deflate.flush()
        found += struct.pack("<4BI2BH2BHH", 31, 139, 8, 4, 0, 0, 255, 6, ord("B"), ord("C"), 2, len(data) + 25) + data
        found += struct.pack("<II", zlib.crc32(text[at : at + 1000]), len(text[at : at + 1000]))
    return bytes(found) + EOF_BLOCK


def plink(folder: Path) -> list[str]:
    """A fileset of PLINK 1."""
    random_calls = np.random.default_rng(1).integers(0, 256, (ROWS, -(-PEOPLE // 4)), np.uint8)
    random_calls[:, -1] &= (1 << 2 * (PEOPLE % 4)) - 1
    (folder / "x.bed").write_bytes(bytes([0x6C, 0x1B, 1]) + random_calls.tobytes())
    (folder / "x.bim").write_text("".join(f"1\trs{row}\t0\t{row + 1}\tA\tC\n" for row in range(ROWS)))
    (folder / "x.fam").write_text("".join(f"f{i}\tp{i}\t0\t0\t1\t-9\n" for i in range(PEOPLE)))
    return ["x.bed", "x.bim", "x.fam"]


def pgen(folder: Path) -> list[str]:
    """A fileset of PLINK 2."""
    import pgenlib

    head = "##contig=<ID=1,length=249250621>\n#CHROM\tPOS\tID\tREF\tALT\n"
    (folder / "x.pvar").write_text(head + "".join(f"1\t{row + 1}\tv{row}\tA\tC\n" for row in range(ROWS)))
    (folder / "x.psam").write_text("#FID\tIID\tSEX\n" + "".join(f"f{i}\tp{i}\t1\n" for i in range(PEOPLE)))
    dosages = np.random.default_rng(2).uniform(0, 2, (ROWS, PEOPLE)).astype(np.float32)
    with pgenlib.PgenWriter(str(folder / "x.pgen").encode(), PEOPLE, variant_ct=ROWS, dosage_present=True) as writer:
        for row in dosages:
            writer.append_dosages(np.ascontiguousarray(row))
    return ["x.pgen", "x.pvar", "x.psam"]


def bgen(folder: Path) -> list[str]:
    """Probabilities in blocks of zlib."""
    from bgen import BgenWriter

    found = np.random.default_rng(3).dirichlet((0.2, 0.2, 0.2), (ROWS, PEOPLE))
    with BgenWriter(str(folder / "x.bgen"), PEOPLE, samples=[f"s{i}" for i in range(PEOPLE)], compression="zlib", layout=2) as writer:
        for row in range(ROWS):
            writer.add_variant(f"id{row}", f"rs{row}", "1", 10 * row + 1, ["A", "C"], found[row], bit_depth=8)
    (folder / "x.bgen.bgi").unlink()
    return ["x.bgen"]


def bcf(folder: Path) -> list[str]:
    """The same genotypes in binary, by htslib."""
    from pysam import bcftools

    (folder / "x.vcf").write_bytes(
        vcf().replace(b"#CHROM", b'##FORMAT=<ID=GT,Number=1,Type=String,Description="g">\n#CHROM').replace(b":DP", b"").replace(b":9", b"")
    )
    bcftools.view("--no-version", "-O", "b", "-o", str(folder / "x.bcf"), str(folder / "x.vcf"), catch_stdout=False)
    (folder / "x.vcf").unlink()
    return ["x.bcf"]


def scan() -> bytes:
    """Summary statistics."""
    head = "chromosome\tbase_pair_location\teffect_allele\tother_allele\tbeta\tstandard_error\teffect_allele_frequency\tp_value\n"
    return (head + "".join(f"{1 + row % 25}\t{row + 1}\tA\tC\t{row / 7}\t0.1\t0.5\t1e-{row}\n" for row in range(ROWS))).encode()


def weights() -> bytes:
    """A scoring file."""
    head = "#genome_build=GRCh37\nrsID\tchr_name\tchr_position\teffect_allele\tother_allele\teffect_weight\n"
    return (head + "".join(f"rs{row}\t1\t{row + 1}\tA\tC\t{row / 7}\n" for row in range(ROWS))).encode()


def chain() -> bytes:
    """Two chains."""
    stretches = "".join(f"{90 + row}\t{row % 7}\t{row % 5}\n" for row in range(ROWS)) + "50\n\n"
    lengths = [sum(90 + row + row % by for row in range(ROWS)) + 50 for by in (7, 5)]
    ends = "chr{0} 90000 + 0 {1} chr{0} 90000 {3} 0 {2} {0}\n"
    return "".join(f"chain 100 {ends.format(number, *lengths, strand)}{stretches}" for number, strand in ((1, "+"), (2, "-"))).encode()


def regions() -> bytes:
    """Regions, named and scored."""
    return (
        "track name=hard\n" + "".join(f"chr1\t{7 * row}\t{9 * row}\tr{row}\t{row / 7}\t{'+-'[row % 2]}\n" for row in range(ROWS))
    ).encode()


def sheet() -> bytes:
    """Phenotypes."""
    return (
        "#FID IID height site\n" + "".join(f"f{row} p{row} {row / 7 if row % 9 else 'NA'} s{row % 3}\n" for row in range(ROWS))
    ).encode()


def _avro(folder: Path) -> list[str]:
    fields = [{"name": name, "type": kind} for name, kind in (("id", "long"), ("x", "double"), ("name", "string"), ("flag", "boolean"))]
    with (folder / "x.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, FRAME.iter_rows(named=True), codec="deflate")
    return ["x.avro"]


def _written(name: str, write: Callable[[Path], Any]) -> Callable[[Path], list[str]]:
    def made(folder: Path) -> list[str]:
        write(folder / name)
        return [name]

    return made


KINDS: dict[str, tuple[type[InputFormat], Callable[[Path], list[str]]]] = {
    "csv": (CsvInput, _written("x.csv", FRAME.write_csv)),
    "csv.gz": (CsvInput, _written("x.csv.gz", lambda path: path.write_bytes(gzip.compress(FRAME.write_csv().encode())))),
    "csv.zst": (
        CsvInput,
        _written("x.csv.zst", lambda path: path.write_bytes(pa.Codec("zstd").compress(FRAME.write_csv().encode(), True))),
    ),
    "jsonl": (JsonlInput, _written("x.jsonl", FRAME.write_ndjson)),
    "jsonl.gz": (JsonlInput, _written("x.jsonl.gz", lambda path: path.write_bytes(gzip.compress(FRAME.write_ndjson().encode())))),
    "parquet": (ParquetInput, _written("x.parquet", FRAME.write_parquet)),
    "arrow": (ArrowInput, _written("x.arrow", lambda path: FRAME.write_ipc(path, compression="zstd"))),
    "avro": (AvroInput, _avro),
    "orc.plain": (OrcInput, _written("x.orc", lambda path: OrcOutput(compression="uncompressed").write(Part(FRAME), {}, str(path)))),
    "orc.nested": (OrcInput, _written("x.orc", lambda path: OrcOutput(compression="zlib").write(Part(NESTED), {}, str(path)))),
    "parquet.nested": (ParquetInput, _written("x.parquet", lambda path: NESTED.write_parquet(path, compression="snappy"))),
    "arrow.nested": (ArrowInput, _written("x.arrow", NESTED.write_ipc)),
    "orc": (OrcInput, _written("x.orc", lambda path: OrcOutput().write(Part(FRAME), {}, str(path)))),
    "vcf": (VcfInput, _written("x.vcf", lambda path: path.write_bytes(vcf()))),
    "vcf.gz": (VcfInput, _written("x.vcf.gz", lambda path: path.write_bytes(gzip.compress(vcf())))),
    "vcf.bgz": (VcfInput, _written("x.vcf.bgz", lambda path: path.write_bytes(bgzipped(vcf())))),
    "fa": (FastaInput, _written("x.fa", lambda path: path.write_bytes(fasta()))),
    "fa.gz": (FastaInput, _written("x.fa.gz", lambda path: path.write_bytes(bgzipped(fasta())))),
    "fq": (FastqInput, _written("x.fq", lambda path: path.write_bytes(fastq()))),
    "fq.gz": (FastqInput, _written("x.fq.gz", lambda path: path.write_bytes(bgzipped(fastq())))),
    "gtf": (GtfInput, _written("x.gtf", lambda path: path.write_bytes(gtf()))),
    "gtf.gz": (GtfInput, _written("x.gtf.gz", lambda path: path.write_bytes(bgzipped(gtf())))),
    "bcf": (BcfInput, bcf),
    "gwas_ssf": (GwasSsfInput, _written("x.tsv", lambda path: path.write_bytes(scan()))),
    "gwas_ssf.gz": (GwasSsfInput, _written("x.tsv.gz", lambda path: path.write_bytes(bgzipped(scan())))),
    "pgs_catalog": (PgsCatalogInput, _written("x.txt", lambda path: path.write_bytes(weights()))),
    "chain": (ChainInput, _written("x.chain", lambda path: path.write_bytes(chain()))),
    "bed": (BedInput, _written("x.bed", lambda path: path.write_bytes(regions()))),
    "plink_sheet": (PlinkSheetInput, _written("x.pheno", lambda path: path.write_bytes(sheet()))),
    "plink": (PlinkInput, plink),
    "pgen": (PgenInput, pgen),
    "bgen": (BgenInput, bgen),
}


def spoiled(content: bytes, chance: random.Random) -> bytes:
    """Bytes truncated, flipped, grown, zeroed, written over with the greatest numbers, or doubled in part; sometimes several times."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at, length = chance.randrange(len(data) + 1), chance.choice((1, 2, 4, 8, 100))
        way = chance.choice(("cut", "flip", "flip", "grow", "zero", "most", "double"))
        if way == "cut":
            del data[at:]
        elif way == "flip":
            for _ in range(length if data else 0):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif way == "grow":
            data[at:at] = chance.randbytes(length)
        elif way == "double":
            data[at:at] = data[at : at + 10 * length]
        else:
            data[at : at + length] = (b"\0" if way == "zero" else b"\xff") * len(data[at : at + length])
    return bytes(data) or b"\0"


WORDS = (
    "id", "x", "name", "flag", "nothing", "1", "0", "-1", "2.5", "1e400", "9223372036854775807", "'a'", "''", "null", "true",
    "date '2026-01-31'", "+", "-", "*", "/", "%", "=", "<", ">", "<>", "and", "or", "not", "is", "in", "between", "like", "(", ")", ",",
    "case", "when", "then", "else", "end", "cast", "as", "int", "text", "abs(", "round(", "coalesce(", "substr(", "length(", "||", "::",
    "interval", "select", "from", ";", "--", "/*", '"', "'", "\0", "é", "\N{PILE OF POO}", "x y", "over", "sum(", "exists", "[", "]",
    "{", "}", "\\", "0x1f", "1_000", "$1", "?", "@",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "%", "=", "<", "<=", "and", "or", "||")


def expression(chance: random.Random, depth: int = 0) -> str:
    """An expression: half of them any words, half of them well formed but for their types."""
    if depth == 0 and chance.random() < 0.5:
        return " ".join(chance.choices(WORDS, k=chance.randrange(1, 12)))
    if depth == 0 and chance.random() < 0.01:
        return chance.choice(("(", "not ", "-", "abs(")) * chance.choice((100, 3000)) + "x"
    if depth > 4 or chance.random() < 0.3:
        return chance.choice(WORDS[:16])
    form = chance.choice(
        ("{} {} {}", "({} {} {})", "not ({})", "abs({})", "coalesce({}, {})", "case when {} then {} else {} end", "{} is null")
    )
    return form.format(
        *(chance.choice(OPERATORS) if form[:5] in ("{} {}", "({} {") and i == 1 else expression(chance, depth + 1) for i in range(3))
    )


def from_schema(schema: dict[str, Any], root: dict[str, Any], chance: random.Random, depth: int = 0) -> Any:
    """A value of a JSON schema, or nearly one: now and then of another type."""
    if chance.random() < 0.02:
        return chance.choice((None, True, -1, 2**70, 1.5, "x", "é\0", [], {}, [[]], {"a": {"b": 1}}, "${HOME}", "1e999"))
    if "$ref" in schema:
        found = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return from_schema(found, root, chance, depth)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return from_schema(chance.choice(schema[key]), root, chance, depth)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else chance.choice(schema["enum"])
    kind = schema.get("type", "string")
    kind = chance.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        wanted, named = set(schema.get("required", ())), schema.get("properties", {})
        some = {name for name in named if name in wanted or chance.random() < (0.5 if depth < 2 else 0.15)}
        value = {name: from_schema(named[name], root, chance, depth + 1) for name in some}
        if isinstance(more := schema.get("additionalProperties"), dict):
            value |= {chance.choice("abcd"): from_schema(more, root, chance, depth + 1) for _ in range(chance.randrange(1, 4))}
        return value
    if kind == "array":
        items = schema.get("items", {})
        return [from_schema(items, root, chance, depth + 1) for _ in range(chance.randrange(0, 4))] if depth < 8 else []
    plain: dict[str, Callable[[], Any]] = {
        "integer": lambda: chance.choice((0, 1, 7, -3, 10**12)),
        "number": lambda: chance.choice((0.5, 0, -1.5, 1e308)),
        "null": lambda: None,
    }
    plain |= {"boolean": lambda: chance.random() < 0.5}
    return plain[kind]() if kind in plain else chance.choice(("a", "b", "c", "id", "x", "a.b", "x > 0", "data/x.csv", "-x", "", "7d"))
