"""BED files, plain or gzipped: regions of a genome, as UCSC's browser, bedtools and PLINK's --extract bed0 take them.

https://genome.ucsc.edu/FAQ/FAQformat.html#format1: a region a line, three to twelve fields between tabs or blanks, as many in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.format import CostlySource
from pipeline.formats._bgzip.lines import whole_text
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._plink.bed_files import BED_MAGIC
from pipeline.genome.inputs import PlacedInput
from pipeline.tables.part import Part, Schema

COLUMNS = pl.Schema(
    {
        "chromosome": pl.String(), "start": pl.Int64(), "end": pl.Int64(), "name": pl.String(), "score": pl.Float64(),
        "strand": pl.String(),
    }
)  # fmt: skip
_FEWEST = 3
_NO_REGION = r"^(#|browser\b|track\b|\s*$)"
_CALLS = "is PLINK's .bed, which has genotypes. Read it with format: plink."


@dataclass(frozen=True)
class BedSource(CostlySource):
    """One file."""

    path: str
    known: Stamp
    limits: Bounds = DEFAULTS

    def load(self) -> Part:
        """A row a region. Raises InputError, with the line, for what is no BED file."""
        return Part(_regions(self.path, self.known, self.limits))


class BedInput(PlacedInput, BoundedInput):
    """Regions of a BED file (hard.bed), not PLINK's .bed of genotypes: a row a region, without `track`, `browser` and comment lines.

    Columns: chromosome, start and end as the file counts, from 0, the end not in it; and name, score (a dot is missing) and strand, where
    its lines have so many fields. Further fields are left out.
    """

    name = "bed"
    suffixes = (".bed", ".bed.gz", ".bed.bgz")

    def table_schema(self) -> Schema:
        """The columns, which are those of all files. Raises InputError where they are not."""
        first, *others = self.sources(1)
        schema = first.load().frame.schema
        for source in others:
            if (found := source.load().frame.schema) != schema:
                fields = f"has {len(found)} of the fields of a region, and {first.path} {len(schema)}"
                raise InputError(f"{source.path}: {fields}. Give an input each.")
        return Schema(schema)

    def sources(self, parallel: int) -> Sequence[BedSource]:
        """One a file."""
        return [BedSource(path, stamp(path), self.limits) for path in self.files()]


@lru_cache(maxsize=8)
def _regions(path: str, _known: Stamp, limits: Bounds) -> pl.DataFrame:
    """The rows of a file, read once while it is unchanged."""
    text = whole_text(path, limits)
    if text.startswith(BED_MAGIC[:2].decode()):
        raise InputError(f"{path}: {_CALLS}")
    lines = pl.DataFrame({"text": text.splitlines()}, schema={"text": pl.String}).with_row_index("line", 1)
    lines = lines.filter(~pl.col("text").str.contains(_NO_REGION))
    if not lines.height:
        raise InputError(f"{path}: has no region")
    apart = pl.col("text") if "\t" in lines["text"][0] else pl.col("text").str.strip_chars().str.replace_all(r"\s+", "\t")
    rows = lines.with_columns(fields=apart.str.split("\t"))
    width = len(rows["fields"][0])
    _need_all(path, rows, max(width, _FEWEST))
    return _typed(path, rows, list(COLUMNS)[:width])


def _need_all(path: str, rows: pl.DataFrame, width: int) -> None:
    """Raise InputError for a line with another number of fields."""
    for line, fields in rows.filter(pl.col("fields").list.len() != width).select("line", "fields").head(1).iter_rows():
        why = "chromosome, start and end are three" if width == _FEWEST else f"the first region has {width}"
        raise InputError(f"{path}:{line}: has {len(fields)} field{'' if len(fields) == 1 else 's'}, and {why}. Correct the line.")


def _typed(path: str, rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The columns of those names. Raises InputError, with the line, for a place or a score that is none."""
    texts = rows.select("line", *(pl.col("fields").list.get(at).alias(name) for at, name in enumerate(names)))
    dots = {name: pl.col(name).replace(".", None) for name in names if name in ("score", "strand")}
    found = texts.with_columns(**dots).with_columns(pl.col(name).cast(COLUMNS[name], strict=False) for name in names)
    if "score" in names:
        found = found.with_columns(pl.when(pl.col("score").is_finite()).then("score"))
    start, end = pl.col("start"), pl.col("end")
    for line, *shown in texts.filter(found.select((start >= 0) & (end >= start)).to_series().fill_null(False).not_()).head(1).iter_rows():
        why = "start and end must be whole numbers from 0, the end not before the start; a header line begins with #"
        raise InputError(f"{path}:{line}: {' '.join(shown[:_FEWEST])!r}: {why}")
    if "score" in names:
        for line, *shown in texts.filter(found["score"].is_null() & ~texts["score"].is_in([".", ""])).head(1).iter_rows():
            why = 'must be a number, or a dot. Read other columns with {format: csv, separator: "\\t", header: false, names: [...]}.'
            raise InputError(f"{path}:{line}: the score {shown[4]!r} {why}")
    return found.select(names)
