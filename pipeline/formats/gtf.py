"""Gene annotation: GTF and GFF3, plain, gzip or bgzip, as rows of genes (or of other features) with names and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import takewhile
from threading import Lock
from typing import Annotated, ClassVar

import polars as pl
from pydantic import BeforeValidator, Field

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.format import CostlySource
from pipeline.formats._bad_rows import BAD_ROWS, SiftedInput, quarantined
from pipeline.formats._bgzip.bad_lines import sift
from pipeline.formats._bgzip.blocks import TextRange, file_kind, reading
from pipeline.formats._bgzip.lines import open_text, read_lines
from pipeline.genome.builds import build_in_text
from pipeline.genome.columns import dtypes_of
from pipeline.genome.inputs import PlacedInput
from pipeline.tables.bad_rows import QUARANTINED
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema

_NAMED = ("gene_id", "gene_name", "gene_type", "transcript_id", "transcript_type")
COLUMNS = ("chromosome", "start", "end", "strand", "feature", *_NAMED, "phase")
GENES = pl.Schema(dtypes_of(COLUMNS))
_FIELDS = ("chromosome", "source", "feature", "start", "end", "score", "strand", "frame", "attributes")
LINES = pl.Schema(dict.fromkeys(_FIELDS, pl.String()))
_KEYS = {
    "gene_id": ("gene_id", "ID"),
    "gene_name": ("gene_name", "Name", "gene"),
    "gene_type": ("gene_type", "gene_biotype", "biotype"),
    "transcript_id": ("transcript_id", "Parent"),
    "transcript_type": ("transcript_type", "transcript_biotype"),
}
"""The attributes that hold each column, the first that a line has: GENCODE's, Ensembl's and NCBI's, in GTF and in GFF3."""


_ONE_AT_A_TIME = Lock()  # a run counts the rows of an input while it reads them: the second reader finds what the first has read


@dataclass(frozen=True)
class GtfSource(CostlySource):
    """The features of some kinds in some files."""

    paths: tuple[str, ...]
    features: tuple[str, ...]
    limits: Bounds = DEFAULTS
    sifts: bool = False

    def load(self) -> Part:
        """Their rows, in the files' order. InputError for a wrong line, or where there are none."""
        return Part(self._found()[0])

    def sifted(self) -> tuple[pl.DataFrame, int]:
        """The bad lines of the files, and how many lines of these features they have with them."""
        genes, bad = self._found()
        return bad, genes.height + bad.height

    def _found(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        stamps = tuple(stamp(path) for path in self.paths)
        with _ONE_AT_A_TIME:
            return _read(self.paths, self.features, stamps, self.limits, self.sifts)


@lru_cache(maxsize=4)
def _read(
    paths: tuple[str, ...], features: tuple[str, ...], _stamps: tuple[Stamp, ...], limits: Bounds, sifts: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The features of files, and bad lines, read once while the files are unchanged, a few megabytes of text at a time."""
    tables, bad, seen = [GENES.to_frame()], [QUARANTINED.to_frame()], set[str]()

    def parse(path: str, chunk: bytes) -> pl.DataFrame:
        """The wanted features of whole lines; all kinds that they have are noted."""
        lines = _lines(path, chunk)
        seen.update(lines["feature"].unique())
        return _genes(path, lines.filter(pl.col("feature").is_in(features)))

    for path in paths:
        first = 1
        for chunk in _chunks(path, limits):
            good, refused = sift(path, chunk, first, partial(parse, path)) if sifts else ([parse(path, chunk)], [])
            tables += good
            bad.append(quarantined(path, refused))
            first += chunk.count(b"\n")
    genes = pl.concat(tables)
    if genes.height == 0:
        found = f"they have: {', '.join(sorted(seen)[:12])}" if seen else "they have no lines at all"
        raise InputError(f"{', '.join(paths[:3])}: no line's feature (column 3) is {' or '.join(features)}; {found}")
    return genes, pl.concat(bad)


def _chunks(path: str, limits: Bounds) -> Iterator[bytes]:
    """Whole lines; the sequences of a GFF3 (##FASTA) end them."""
    for chunk in read_lines(TextRange(path, file_kind(path), 0, stamp(path).size), limits):
        lines = chunk.split(b"\n>", 1)[0] if not chunk.startswith(b">") else b""
        if lines.strip():
            yield lines
        if len(lines) < len(chunk):
            return


def _lines(path: str, chunk: bytes) -> pl.DataFrame:
    """Lines of nine fields, without comments; InputError, with the line, for another number of them."""
    text = chunk
    if b"\n\n" in text or b"\r" in text or b"\n#" in text or text.startswith((b"\n", b"#")):
        text = b"\n".join(line for line in chunk.splitlines() if line and not _is_comment(line))
    text = text if text.isascii() else text.decode(errors="replace").encode()
    if not text:
        return LINES.to_frame()
    try:
        lines = pl.read_csv(text, separator="\t", has_header=False, schema=LINES, quote_char=None)
    except pl.exceptions.PolarsError as error:
        raise _refused(path, text) from error
    if lines["attributes"].has_nulls():  # Polars fills a line that is too short with nulls
        raise _refused(path, text)
    return lines


def _refused(path: str, text: bytes) -> InputError:
    bad = next((line for line in text.split(b"\n") if line.count(b"\t") != len(_FIELDS) - 1 or line.endswith(b"\t")), b"")
    shown, fields = bad[:80].decode(errors="replace"), len([field for field in bad.split(b"\t") if field])
    return InputError(f"{path}: the line that begins with {shown!r} has {fields} fields where GTF and GFF3 have nine, separated by tabs")


def _genes(path: str, lines: pl.DataFrame) -> pl.DataFrame:
    """The columns of genes; InputError, with the line, for positions that are no numbers, or end before they begin."""
    rows = lines.with_columns(pl.col("start", "end").cast(pl.Int64, strict=False).name.prefix("number_"))
    first, last = pl.col("number_start"), pl.col("number_end")
    wrong = rows.filter(first.is_null() | last.is_null() | (first < 1) | (last < first))
    if wrong.height:
        shown = "\t".join(str(wrong[name][0]) for name in _FIELDS[:5])
        raise InputError(f"{path}: the line that begins with {shown!r}: start and end must be numbers from 1, the end not before the start")
    names = [_named(lines, name, keys) for name, keys in _KEYS.items()]
    strand = pl.when(pl.col("strand").is_in(["+", "-"])).then("strand").alias("strand")
    phase = pl.col("frame").cast(pl.Int8, strict=False).alias("phase")
    return rows.select("chromosome", first.alias("start"), last.alias("end"), strand, "feature", *names, phase)


def _named(lines: pl.DataFrame, name: str, keys: Sequence[str]) -> pl.Series:
    """The first of some attributes that each line has; the later ones are looked for only where lines lack the first."""
    found = lines.select(_attribute(keys[0]).alias(name)).to_series()
    for key in keys[1:]:
        if not found.has_nulls():
            break
        found = lines.select(pl.coalesce(found, _attribute(key)).alias(name)).to_series()
    return found


def _attribute(key: str) -> pl.Expr:
    """The value of an attribute, as GTF (key "value"; or key value;) or as GFF3 (key=value;) writes it; Ensembl's ID=gene:X is X."""
    value = pl.col("attributes").str.extract(rf'(?:^|;)\s*{key}(?:=|\s+"?)(?:gene:|transcript:)?([^;"]*)', 1).str.strip_chars()
    return pl.when(value != "").then(value)


def _is_comment(line: bytes) -> bool:
    return line.startswith(b"#")


class GtfInput(PlacedInput, SiftedInput):
    """Genes of GTF or GFF3 files, which may lie on different chromosomes; positions are from 1, the end included."""

    name = "gtf"
    suffixes = (".gtf", ".gtf.gz", ".gff3", ".gff3.gz", ".gff", ".gff.gz")

    counts: ClassVar[Mapping[str, Count]] = BAD_ROWS

    features: Annotated[
        tuple[str, ...], Field(min_length=1), BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
    ] = Field(("gene",), description="The features (column 3) to read; Ensembl's GFF3 names others beside gene, such as ncRNA_gene.")

    def table_schema(self) -> Schema:
        """The columns of genes; the files are looked at."""
        for file in self.files():
            file_kind(file)
        return Schema(GENES)

    def genome_build(self) -> str | None:
        """As the job says, else as the comments at the head of the first file tell."""
        path = self.files()[0]
        with reading(path), open_text(path, file_kind(path), self.limits) as file:
            head = [line.decode(errors="replace") for line in takewhile(_is_comment, self.limits.header(path, file))]
        return self.build or build_in_text("".join(head))

    def sources(self, parallel: int) -> Sequence[GtfSource]:
        """One part: an annotation is small."""
        return [GtfSource(tuple(self.files()), self.features, self.limits, self.sifts)]

    def sieves(self, parallel: int) -> Sequence[GtfSource]:
        """The files."""
        return self.sources(parallel) if self.sifts else ()
