"""PLINK's tables of people: phenotypes, covariates and lists to keep or remove, with FID and IID in front.

https://www.cog-genomics.org/plink/2.0/input#pheno: fields between blanks, a header line that begins with FID, #FID, IID or #IID or none,
and missing values as NA, nan or -9. Without a header one column is the IID, and of several the first two are FID and IID.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl
from pydantic import Field

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.format import CostlySource
from pipeline.formats._bgzip.lines import whole_text
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._plink.ids import Ids, ids_field
from pipeline.tables.part import Part, Schema

IDS = ("FID", "IID", "SID")


@dataclass(frozen=True)
class Reading:
    """How the fields of a file are taken."""

    ids: Ids
    missing: tuple[str, ...]
    text: tuple[str, ...]
    limits: Bounds = DEFAULTS


@dataclass(frozen=True)
class PlinkSheetSource(CostlySource):
    """One file."""

    path: str
    known: Stamp
    how: Reading

    def load(self) -> Part:
        """A row a person. Raises InputError for lines of other lengths, and for people who are there twice."""
        return Part(_sheet(self.path, self.known, self.how))


class PlinkSheetInput(BoundedInput):
    """PLINK's --pheno, --covar, --keep and --remove files: sample_id (the IID), family_id where there is a FID, and their columns.

    A column is Float64 where every value is a number, else text, for categories. A headerless file's columns are pheno1, pheno2, ... Use
    drops of columns by `select`.
    """

    name = "plink_sheet"
    suffixes = (".pheno", ".phen", ".covar", ".cov", ".keep", ".remove", ".txt")

    ids: Ids = ids_field()
    missing: tuple[str, ...] = Field(("NA", "nan", "NaN", "-9"), description="Texts that mean a missing value; of ids only NA does not.")
    text: tuple[str, ...] = Field((), description="Columns that stay text though they are numbers: codes of centres, say.")

    def table_schema(self) -> Schema:
        """The columns of the first file; the others have them, too. Raises InputError where they do not."""
        first, *others = self.sources(1)
        schema = first.load().frame.schema
        for source in others:
            if (found := source.load().frame.schema) != schema:
                raise InputError(f"{source.path}: has the columns {dict(found)}, and {first.path} {dict(schema)}. Give an input each.")
        return Schema(schema)

    def sources(self, parallel: int) -> Sequence[PlinkSheetSource]:
        """One a file."""
        how = Reading(self.ids, self.missing, self.text, self.limits)
        return [PlinkSheetSource(path, stamp(path), how) for path in self.files()]


@lru_cache(maxsize=8)
def _sheet(path: str, _known: Stamp, how: Reading) -> pl.DataFrame:
    """The rows of a file, read once while it is unchanged."""
    rows = [(number, line.split()) for number, line in enumerate(whole_text(path, how.limits).splitlines(), 1) if line.strip()]
    if not rows:
        raise InputError(f"{path}: has no line")
    names, rows = _named(path, rows)
    for number, fields in rows:
        if len(fields) != len(names):
            raise InputError(
                f"{path}: line {number} has {len(fields)} fields, and {', '.join(names[:4])} ... are {len(names)}. Missing values are NA."
            )
    columns = list(zip(*(fields for _, fields in rows), strict=True)) or [()] * len(names)
    frame = pl.DataFrame(dict(zip(names, columns, strict=True)), schema=dict.fromkeys(names, pl.String))
    for name in how.text:
        if name not in names:
            raise InputError(f"{path}: has no column {name!r}, which `text` names. It has {', '.join(names)}.")
    frame = frame.select(*_ids(names, how.ids), *(_values(frame[name], how) for name in names if name not in IDS))
    _need_once(path, frame, how)
    return frame


def _named(path: str, rows: list[tuple[int, list[str]]]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Names of the columns, and the lines without the header."""
    head = [rows[0][1][0].removeprefix("#"), *rows[0][1][1:]]
    if head[0] in ("FID", "IID"):
        if "IID" not in head:
            raise InputError(f"{path}: the header has FID and no IID")
        if twice := sorted({name for name in head if head.count(name) > 1}):
            raise InputError(f"{path}: the header has {twice[0]!r} twice")
        return head, rows[1:]
    ids = ["IID"] if len(head) == 1 else ["FID", "IID"]
    return [*ids, *(f"pheno{number}" for number in range(1, len(head) - len(ids) + 1))], rows


def _ids(names: Sequence[str], ids: Ids) -> list[pl.Expr]:
    """sample_id, and family_id where there is one."""
    family = "FID" in names
    sample = pl.concat_str("FID", "IID", separator="_") if family and ids == "fid_iid" else pl.col("IID")
    return [sample.alias("sample_id"), *([pl.col("FID").alias("family_id")] if family else [])]


def _values(column: pl.Series, how: Reading) -> pl.Series:
    """Numbers where all there are can be read as such, else text; missing ones null, also where they are written otherwise (-9.0)."""
    known = column.set(column.is_in([*how.missing]), None)
    numbers = known.cast(pl.Float64, strict=False)
    if column.name in how.text or numbers.null_count() > known.null_count() or numbers.is_infinite().any():
        return known
    unknown = pl.Series([*how.missing], dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
    return numbers.fill_nan(None).set(numbers.is_in(unknown.implode()), None)


def _need_once(path: str, frame: pl.DataFrame, how: Reading) -> None:
    """Raise InputError for a person who is there twice."""
    twice = frame.filter(pl.col("sample_id").is_duplicated())
    if twice.height:
        families = "family_id" in frame.columns and twice.unique(["sample_id", "family_id"]).height == twice.height
        remedy = "Tell people apart by their families: ids: fid_iid." if families and how.ids == "iid" else "Keep one of the lines."
        raise InputError(f"{path}: the sample {str(twice['sample_id'][0])!r} is there more than once. {remedy}")
