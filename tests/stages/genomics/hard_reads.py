"""Reads that are hard to align, and what minimap2 2.31 made of them: tests/stages/genomics/alignments/, written by this file run alone.

    python -m tests.stages.genomics.hard_reads MINIMAP2

It runs `MINIMAP2 -t 1 -a --secondary=no -x PRESET` on the reads below and keeps the fields that are compared.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "data" / "alignment" / "reference.fa.gz"
MADE = Path(__file__).parent / "alignments"
FIELDS = (
    "read_id",
    "flag",
    "chromosome",
    "base_pair_location",
    "mapping_quality",
    "cigar",
    "mate_chromosome",
    "mate_location",
    "template_length",
)
COLUMNS = (*FIELDS, "bases", "base_qualities", "edit_distance")
_TURN = bytes.maketrans(b"ACGTN", b"TGCAN")

Reads = list[tuple[str, bytes, bytes]]


def _turned(bases: bytes) -> bytes:
    return bases.translate(_TURN)[::-1]


def _spoiled(bases: bytes, rate: float, rng: np.random.Generator) -> bytes:
    """Bases of which some are others, none, two or unknown."""
    found = bytearray()
    for base, draw in zip(bases, rng.random(len(bases)) / rate, strict=True):
        if draw > 1:
            found.append(base)
        elif draw > 0.7:
            found += bytes([base, rng.choice([*b"ACGT"])])
        elif draw > 0.4:
            found.append(rng.choice([*b"ACGTN"]))
    return bytes(found)


def hard_pairs(sequences: dict[str, bytes], seed: int = 3) -> tuple[Reads, Reads]:
    """Pairs of many lengths, some far apart, the wrong way round, of two places at once, of nowhere, of repeats and with unknown bases."""
    rng, ends = np.random.default_rng(seed), (Reads(), Reads())
    for number in range(260):
        bases = sequences["12"[number % 5 == 0]]
        length, size = int(rng.choice([40, 76, 150, 250])), int(rng.choice([180, 350, 420, 700, 1_200]))
        start = int(rng.integers(1_600, 2_500)) if number % 13 == 0 else int(rng.integers(0, len(bases) - size))
        fragment = bases[start : start + max(size, length)]
        first, second = fragment[:length], _turned(fragment)[:length]
        kind = number % 9
        if kind == 1:
            second = rng.choice([*b"ACGT"], length).astype(np.uint8).tobytes()
        elif kind == 2:
            first, second = (rng.choice([*b"ACGT"], length).astype(np.uint8).tobytes() for _ in range(2))
        elif kind == 3:
            other = int(rng.integers(0, 15_000))
            first = first[: length // 2] + sequences["2"][other : other + length - length // 2]
        elif kind == 4:
            second = _turned(second)
        if rng.random() < 0.5:
            first, second = second, first
        for which, read in enumerate((_spoiled(first, 0.02, rng), _spoiled(second, 0.02, rng))):
            qualities = (rng.integers(2, 41, len(read)) + 33).astype(np.uint8).tobytes()
            ends[which].append((f"p{number}/{which + 1}", read, qualities))
    return ends


def long_reads(sequences: dict[str, bytes], seed: int = 4) -> Reads:
    """Long reads with many errors, some of two places."""
    rng, found = np.random.default_rng(seed), Reads()
    for number in range(60):
        bases, size = sequences["12"[number % 3 == 0]], int(rng.integers(300, 4_000))
        start = int(rng.integers(0, len(bases) - size))
        read = bases[start : start + size]
        if number % 7 == 0:
            read = read[: size // 2] + _turned(sequences["1"][9_000 : 9_000 + size // 2])
        read = _spoiled(_turned(read) if rng.random() < 0.5 else read, 0.08, rng)
        found.append((f"l{number}", read, (rng.integers(2, 30, len(read)) + 33).astype(np.uint8).tobytes()))
    return found


def write_fastq(path: Path, reads: Reads) -> Path:
    """Write reads as FASTQ."""
    path.write_bytes(b"".join(b"@" + name.encode() + b" more\n" + bases + b"\n+\n" + qualities + b"\n" for name, bases, qualities in reads))
    return path


def sam_rows(text: str) -> pl.DataFrame:
    """The fields of SAM as text, and its tag NM."""
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("@")]
    edits = [next((tag[5:] for tag in line[11:] if tag.startswith("NM:i:")), None) for line in lines]
    return pl.DataFrame([[*line[:11], edit] for line, edit in zip(lines, edits, strict=True)], schema=list(COLUMNS), orient="row")


def digests() -> list[pl.Expr]:
    """Bases and qualities in the alignment's direction, short enough to be kept."""
    return [
        pl.col(name).map_elements(lambda text: hashlib.sha256(text.encode()).hexdigest()[:8], return_dtype=pl.String)
        for name in ("bases", "base_qualities")
    ]


def main() -> None:
    """Write what a minimap2 makes of both sets of reads."""
    from pipeline.files import stamp
    from pipeline.stages.genomics._reference import Reference

    sequences = dict(Reference(str(REFERENCE), stamp(REFERENCE)).sequences())
    with tempfile.TemporaryDirectory() as folder:
        pairs = [write_fastq(Path(folder) / f"{at}.fastq", reads) for at, reads in enumerate(hard_pairs(sequences))]
        alone = write_fastq(Path(folder) / "long.fastq", long_reads(sequences))
        for name, preset, files in (("pairs", "sr", pairs), ("long", "map-ont", [alone])):
            command = [sys.argv[1], "-t", "1", "-a", "--secondary=no", "-x", preset, str(REFERENCE), *map(str, files)]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            sam_rows(text).with_columns(digests()).write_parquet(MADE / f"{name}.parquet", compression="zstd")


if __name__ == "__main__":
    main()
