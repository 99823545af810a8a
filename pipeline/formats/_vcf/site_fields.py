"""QUAL, FILTER and INFO of a VCF's records as columns of its variants, typed by its header (VCF 4.x, sections 1.4.2, 1.6.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import InputError, near
from pipeline.genome.columns import VARIANT

Place = Literal["QUAL", "FILTER", "INFO"]
PLACES: Mapping[Place, int] = {"QUAL": 5, "FILTER": 6, "INFO": 7}
"""The fields of a VCF's record, from 0."""
_TYPES: Mapping[str, pl.DataType] = {"Integer": pl.Int64(), "Float": pl.Float64(), "String": pl.String(), "Character": pl.String()}
_NUMBERS = ("0", "1", "A")
FIELDS: Any = Field((), description="QUAL, FILTER and INFO fields (R2, AF ...) to have as columns of the variants, for filter.")
"""The parameter of an input that names them."""


@dataclass(frozen=True)
class SiteField:
    """One of the fields: the name that its column has too, `number` of values (0, 1, or A: one of each ALT allele) and type."""

    name: str
    number: str
    dtype: pl.DataType

    @property
    def column(self) -> Place:
        """The column of a record that it stands in."""
        return "QUAL" if self.name == "QUAL" else "FILTER" if self.name == "FILTER" else "INFO"

    def texts(self, column: Callable[[Place], pl.Series]) -> pl.Series:
        """Its texts, a record each, null where there is none, of a flag whether it is there; `column` gives a column of the records."""
        if self.column != "INFO":
            return column(self.column).replace(".", None).alias(self.name)
        key, info = re.escape(self.name), column("INFO")
        if self.number == "0":
            return info.str.contains(f"(?:^|;){key}(?:;|$)").alias(self.name)
        return info.str.extract(f"(?:^|;){key}=([^;]*)", 1).replace(".", None).alias(self.name)

    def typed(self, variants: pl.DataFrame, path: str) -> pl.Series:
        """Its column of the variants. InputError, with the record, for a text that is none of its type."""
        texts = variants[self.name]
        if self.dtype == pl.Boolean:
            return texts
        texts = texts.replace(".", None)
        values = texts.cast(self.dtype, strict=False)
        if self.dtype == pl.Float64():
            values = values.fill_nan(None)
            wrong = values.is_null() & texts.is_not_null() & ~texts.str.to_lowercase().is_in(["nan", "-nan"])
        else:
            wrong = values.is_null() & texts.is_not_null()
        if wrong.any():
            row = variants.row(int(wrong.arg_true()[0]), named=True)
            kind = "whole number" if self.dtype == pl.Int64() else "number"
            record = f"record {row['chromosome']}:{row['base_pair_location']}"
            raise InputError(f"{path}: {record}: {self.name} is {row[self.name]!r}, and the header says it is one {kind}. Correct either.")
        return values


def site_fields(names: Sequence[str], path: str, infos: Mapping[str, tuple[str, str]]) -> tuple[SiteField, ...]:
    """The fields of those names, `infos` being Number and Type of the header's by their ids.

    InputError for one that the header does not have, or that has several values a record or allele.
    """
    found = []
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise InputError(f"{path}: fields names {twice[0]!r} twice")
    for name in names:
        if name in ("QUAL", "FILTER"):
            found.append(SiteField(name, "1", pl.Float64() if name == "QUAL" else pl.String()))
            continue
        if name not in infos:
            listed = ", ".join(infos) or "none"
            raise InputError(f"{path}: its header has no INFO field {name!r} (it has: {listed}).{near(name, list(infos))}")
        number, kind = infos[name]
        if kind == "Flag":
            found.append(SiteField(name, "0", pl.Boolean()))
        elif number in _NUMBERS[1:] and kind in _TYPES and name not in VARIANT:
            found.append(SiteField(name, number, _TYPES[kind]))
        else:
            text = f"INFO field {name!r} is Number={number}, Type={kind}; a column has one value a record (1) or ALT allele (A)"
            raise InputError(f"{path}: {text}. Leave it out of fields, or write the file again with bcftools annotate.")
    return tuple(found)


def by_allele(fields: Sequence[SiteField]) -> dict[str, pl.Expr]:
    """Lists of the values of each ALT allele, null where there are none: as many as the alleles where the file is right."""
    none = pl.col("alt").str.replace_all("[^,]+", ".")
    return {field.name: pl.coalesce(field.name, none).str.split(",") for field in fields if field.number == "A"}


def check_lengths(rows: pl.DataFrame, fields: Sequence[SiteField], path: str) -> None:
    """InputError for a record with another number of values than of ALT alleles."""
    for name in by_allele(fields):
        wrong = rows.filter(pl.col(name).list.len() != pl.col("alt").list.len())
        for place, position, values, alleles in wrong.select("chromosome", "base_pair_location", name, "alt").head(1).iter_rows():
            text = f"{name} has {len(values)} values, and the record has {len(alleles)} ALT alleles"
            raise InputError(f"{path}: record {place}:{position}: {text}. Correct the line.")
