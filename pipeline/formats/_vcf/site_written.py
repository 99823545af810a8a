"""Columns of a table of variants as QUAL, FILTER and INFO of a VCF's records: the other way round of `site_fields`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, JobError, near
from pipeline.genome.columns import VARIANT
from pipeline.tables.part import Schema

WRITTEN: Any = Field(
    (), description="Columns of a genotype table to write as QUAL, FILTER and INFO fields: what `fields` of its input brought (R2, AF ...)."
)
"""The parameter of an output that names them."""
_OWN = (*VARIANT, "AC", "AN")
_KEY = re.compile(r"[A-Za-z_][0-9A-Za-z_.]*")


def check_written(names: Sequence[str], schema: Schema, columns: Sequence[str]) -> None:
    """Raise JobError for a field that is no column, has another type than VCF's, or a name that is none of INFO's."""
    for at, name in enumerate(names):
        problem = None
        if name not in columns:
            problem = f"is no column that is written here (columns: {', '.join(columns)}).{near(name, list(columns))}"
        elif name in names[:at] or name in _OWN or not _KEY.fullmatch(name):
            problem = "is named twice, is written anyway, or is no name of an INFO field (letters, digits, _ and a dot). Rename the column."
        elif (kind := _kind(schema.columns[name])) is None or kind not in _kinds_of(name):
            problem = f"is {schema.columns[name]}, and {' or '.join(_kinds_of(name)).lower()} is written. Cast the column."
        if problem:
            raise JobError(f"fields: {name!r} {problem}")


def _kinds_of(name: str) -> tuple[str, ...]:
    """The types that a field may have."""
    return {"QUAL": ("Float", "Integer"), "FILTER": ("String",)}.get(name, ("Float", "Integer", "String", "Flag"))


def _kind(dtype: pl.DataType) -> str | None:
    """VCF's name of a column's type."""
    if dtype == pl.Boolean:
        return "Flag"
    return "Integer" if dtype.is_integer() else "Float" if dtype.is_float() else "String" if dtype == pl.String else None


def described(frame: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """The header's lines of these fields, and of the filters that there are."""
    texts = frame["FILTER"].drop_nulls().unique(maintain_order=True) if "FILTER" in names else ()
    filters = dict.fromkeys(name for text in texts for name in text.split(";") if name not in ("PASS", ".", ""))
    lines = [f'##FILTER=<ID={name},Description="As the input has it">' for name in filters]
    for name in names:
        if name not in ("QUAL", "FILTER"):
            kind = _kind(frame.schema[name])
            number = "0" if kind == "Flag" else "A" if name == "AF" else "1"  # as the specification has AF; a row has one ALT allele
            lines.append(f'##INFO=<ID={name},Number={number},Type={kind},Description="Column {name}">')
    return lines


def merged(found: Iterable[Sequence[str]]) -> list[str]:
    """Lines (or names) of several parts, each once, as they first stand, those of INFO last."""
    return sorted(dict.fromkeys(line for lines in found for line in lines), key=lambda line: line.startswith("##INFO"))


def site_texts(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """QUAL, FILTER and MORE, what stands behind AC and AN in INFO, of each row. DataError for a text that FILTER or INFO cannot hold."""
    for name in names:
        if frame.schema[name] == pl.String:
            breaks = r"[\s,]" if name == "FILTER" else r"[\s;,]"
            for text in frame[name].filter(frame[name].str.contains(breaks)).head(1):
                raise DataError(f"a VCF cannot hold {name} {text!r}: spaces, commas and semicolons part its fields. Replace them.")
    more = [_info(name, frame.schema[name]) for name in names if name not in ("QUAL", "FILTER")]
    return frame.with_columns(
        (_text("QUAL", frame.schema["QUAL"]) if "QUAL" in names else pl.lit(None, pl.String)).fill_null(".").alias("QUAL"),
        (_text("FILTER", frame.schema["FILTER"]).fill_null(".") if "FILTER" in names else pl.lit("PASS")).alias("FILTER"),
        (pl.concat_str(more) if more else pl.lit("")).alias("MORE"),
    ).select("QUAL", "FILTER", "MORE")


def _info(name: str, dtype: pl.DataType) -> pl.Expr:
    """A field with a semicolon before it; nothing where it is missing, or a flag that is not set."""
    if dtype == pl.Boolean:
        return pl.when(pl.col(name)).then(pl.lit(f";{name}")).otherwise(pl.lit(""))
    return pl.concat_str(pl.lit(f";{name}="), _text(name, dtype)).fill_null("")


def _text(name: str, dtype: pl.DataType) -> pl.Expr:
    """A value's text, with the digits that make it the same number again; null where it is missing or no finite number."""
    value = pl.col(name)
    if dtype.is_float():
        return pl.when(value.is_finite()).then(value).cast(pl.String).str.strip_suffix(".0")
    return value.cast(pl.String).replace("", None)
