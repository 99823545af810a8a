"""Reference sequences: FASTA, plain, gzip or bgzip, as rows of a hundred thousand bases each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError, near
from pipeline.files import stamp
from pipeline.format import CostlySource
from pipeline.formats._bgzip.blocks import Kind, file_kind
from pipeline.formats._bgzip.lines import read_text
from pipeline.formats._bounded import BoundedInput
from pipeline.genome.builds import build_in_text
from pipeline.genome.columns import dtypes_of
from pipeline.genome.inputs import PlacedInput
from pipeline.tables.part import Part, Schema

SEQUENCES = pl.Schema(dtypes_of(("chromosome", "start", "sequence")))
PIECE_BASES = 100_000
_PART_PIECES = 2_000  # a part holds 200 million bases at most
_SHRUNK = 4  # how many times its size a packed file of bases comes to, about
_LETTERS = b"ACGTUNRYKMSWBDHVXacgtunrykmswbdhvx*-"
_BLANK = b"\r\n\t "


class Piece(NamedTuple):
    """Neighbouring bases of a sequence, from `start` on."""

    name: str
    start: int
    bases: bytes


@dataclass(frozen=True)
class FastaSource(CostlySource):
    """The pieces of a file from `first` to before `stop` (None: to its end); what comes before is read and left out.

    `alone`: there is no other file, so that every name of `rename` must be found.
    """

    path: str
    first: int = 0
    stop: int | None = None
    rename: tuple[tuple[str, str], ...] = ()
    alone: bool = True
    limits: Bounds = DEFAULTS

    def load(self) -> Part:
        """Their rows. InputError for what is no FASTA, a letter that stands for no base, or a name that comes twice, or never."""
        rows, names, seen = [], dict(self.rename), set[str]()
        for number, piece in pieces(self.path, self.limits, seen, self.first):
            if self.stop is not None and number >= self.stop:
                break
            if number >= self.first:
                rows.append((names.get(piece.name, piece.name), piece.start, piece.bases.decode("ascii")))
        if self.stop is None and self.alone and (lost := [name for name in names if name not in seen]):
            raise InputError(f"{self.path}: rename: there is no sequence {lost[0]!r}.{near(lost[0], sorted(seen))}")
        return Part(pl.DataFrame(rows, schema=SEQUENCES, orient="row"))


def pieces(path: str, limits: Bounds, seen: set[str], first: int = 0) -> Iterator[tuple[int, Piece]]:
    """The sequences of a file in order, in pieces of PIECE_BASES, the last of each shorter, by number; a few megabytes are held at a time.

    Pieces before the `first` are counted and not looked at. The names met are put into `seen`.
    """
    name, start, number, held = "", 1, 0, bytearray()
    for title, text in _stretches(path, file_kind(path), limits):
        if title is not None:
            if held:
                yield number, Piece(name, start, bytes(held))
                number += 1
            name, start, held = _named(path, title, seen), 1, bytearray()
            continue
        if not name and text.strip():
            raise InputError(
                f"{path}: begins with {text[:40].decode(errors='replace')!r}, and FASTA with a line >NAME. Is format fasta right?"
            )
        bases = int(np.count_nonzero(np.frombuffer(text, np.uint8) > ord(" ")))
        if number + (len(held) + bases) // PIECE_BASES < first:
            done, rest = divmod(len(held) + bases, PIECE_BASES)
            number, start, held = number + done, start + done * PIECE_BASES, bytearray(rest)
            continue
        held += _bases(path, name, text)
        for _ in range(len(held) // PIECE_BASES):
            yield number, Piece(name, start, bytes(held[:PIECE_BASES]))
            del held[:PIECE_BASES]
            number, start = number + 1, start + PIECE_BASES
    if held:
        yield number, Piece(name, start, bytes(held))
    if not seen:
        raise InputError(f"{path}: has no line >NAME, with which a sequence of FASTA begins")


def _bases(path: str, name: str, text: bytes) -> bytes:
    """Text without line ends and blanks. InputError for a letter that stands for no base."""
    bases = text.translate(None, _BLANK)
    if other := bases.translate(None, _LETTERS):
        raise InputError(f"{path}: the sequence {name!r} has {chr(other[0])!r}, which stands for no base. Is it a FASTA of DNA?")
    return bases


def _stretches(path: str, kind: Kind, limits: Bounds) -> Iterator[tuple[bytes | None, bytes]]:
    """The text of a file, cut where sequences begin: the title of what begins there (None: what was before goes on) and bases."""
    text, at_line = b"", True
    for chunk in read_text(path, kind, limits):
        text += chunk
        while text:
            begin = 0 if at_line and text.startswith(b">") else text.find(b"\n>") + 1
            if begin or not text.startswith(b">") or not at_line:
                bases, text = (text[:begin], text[begin:]) if begin else (text, b"")
                at_line = bases.endswith(b"\n")
                yield None, bases
            elif (end := text.find(b"\n")) < 0:
                limits.need_line(path, len(text), "a title")
                break
            else:
                yield text[1:end], b""
                text = text[end + 1 :]
    if text:
        yield text[1:], b""


def _named(path: str, title: bytes, seen: set[str]) -> str:
    """The first word of a title."""
    words = title.decode(errors="replace").split()
    if not words:
        raise InputError(f"{path}: a line is > without a name. Name the sequence after its chromosome.")
    if words[0] in seen:
        raise InputError(f"{path}: has the sequence {words[0]!r} more than once. Give each chromosome once.")
    seen.add(words[0])
    return words[0]


class FastaInput(PlacedInput, BoundedInput):
    """Reference sequences of FASTA files: rows of chromosome, start (from 1) and sequence, up to 100,000 bases each."""

    name = "fasta"
    suffixes = (".fa", ".fa.gz", ".fasta", ".fasta.gz", ".fna", ".fna.gz")

    rename: Mapping[str, str] = Field(
        default_factory=dict, description="Other names for sequences, {name in the file: chromosome}; a name is the title's first word."
    )

    def table_schema(self) -> Schema:
        """Chromosome, start and sequence; the files are looked at, and the first piece of each."""
        for file in self.files():
            next(pieces(file, self.limits, set()), None)
        return Schema(SEQUENCES)

    def genome_build(self) -> str | None:
        """As the job says, else as the first title tells."""
        path = self.files()[0]
        title, _ = next(_stretches(path, file_kind(path), self.limits), (None, b""))
        return self.build or build_in_text((title or b"").decode(errors="replace"))

    def sources(self, parallel: int) -> Sequence[FastaSource]:
        """Stretches of up to 200 million bases; all but the first read over what lies before them."""
        found = []
        for file in self.files():
            bases = stamp(file).size * (1 if file_kind(file) == "plain" else _SHRUNK)
            count = max(1, round(bases / (PIECE_BASES * _PART_PIECES)))
            edges = [number * _PART_PIECES for number in range(count)]
            stops = [*edges[1:], None]
            alone, names = len(self.files()) == 1, tuple(self.rename.items())
            found += [FastaSource(file, edge, stop, names, alone, self.limits) for edge, stop in zip(edges, stops, strict=True)]
        return found
