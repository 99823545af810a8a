"""Columns that are no part of files but of their folders, year=2020/part-0.parquet, as Hive, Spark and DuckDB write tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import polars as pl
from pydantic import Field

from pipeline.errors import InputError
from pipeline.files import folder_values
from pipeline.format import InputFormat
from pipeline.tables.dtypes import DTYPES, DtypeName

_BOOLEANS = {"true": True, "false": False}
_INTEGER, _DATE = re.compile(r"0|-?[1-9][0-9]{0,17}"), re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class FolderColumn:
    """A column that is one value in all rows of a file."""

    name: str
    dtype: pl.DataType
    value: Any


def with_folder_columns(rows: pl.LazyFrame, columns: Sequence[FolderColumn]) -> pl.LazyFrame:
    """The rows of a file, its folders' columns last."""
    return rows.with_columns(pl.lit(column.value, dtype=column.dtype).alias(column.name) for column in columns) if columns else rows


class HiveInput(InputFormat):
    """Base of inputs whose files may lie in folders KEY=VALUE, each of which makes a column."""

    reads_folders: ClassVar[bool] = True

    partitions: dict[str, DtypeName] | None = Field(
        None,
        description="Types of the columns that folders KEY=VALUE of the path make; int64, date or string where not given. {}: no columns.",
    )

    def pinned(self) -> Self:
        """The same reader of these files, with the columns of their folders."""
        reader = super().pinned()
        return reader.model_copy(update={"partitions": _types(reader.path) if self.partitions is None else self.partitions})

    def folder_columns(self, files: Sequence[str], own: Sequence[str]) -> Mapping[str, tuple[FolderColumn, ...]]:
        """Each file's columns by its folders; `own` are the columns that the files have.

        Raises InputError where a column is one of the files too, a file lies in no such folder, or a value is none of the column's type.
        """
        types = _types(files) if self.partitions is None else self.partitions
        if both := [name for name in types if name in own]:
            remedy = "Say partitions: {} to take the files' own."
            raise InputError(f"{files[0]}: the file has a column {both[0]!r}, and its folders make one of that name. {remedy}")
        return {file: tuple(_column(file, name, dtype) for name, dtype in types.items()) for file in files}


def _types(files: Sequence[str]) -> dict[str, DtypeName]:
    """The keys of the files' folders with the types that all values have."""
    values = [folder_values(file) for file in files]
    keys = list(dict.fromkeys(key for found in values for key in found))
    return {key: _type([text for found in values if (text := found.get(key)) is not None]) for key in keys}


def _type(texts: Sequence[str]) -> DtypeName:
    if texts and all(_INTEGER.fullmatch(text) for text in texts):
        return "int64"
    return "date" if texts and all(_DATE.fullmatch(text) for text in texts) else "string"


def _column(file: str, name: str, dtype: DtypeName) -> FolderColumn:
    values = folder_values(file)
    if name not in values:
        raise InputError(f"{file}: lies in no folder {name}=VALUE, as others do. Give files of one kind, or say partitions: {{}}.")
    try:
        return FolderColumn(name, DTYPES[dtype], _value(values[name], dtype))
    except (pl.exceptions.PolarsError, KeyError) as error:
        remedy = f"State another type in partitions, such as {name}: string."
        raise InputError(f"{file}: the folder's {name}={values[name]} is no {dtype}. {remedy}") from error


def _value(text: str | None, dtype: DtypeName) -> Any:
    """The value of a folder's text. Raises KeyError, or an error of Polars, where it is none of that type."""
    if dtype == "boolean" and text is not None:  # which Polars casts from no text
        return _BOOLEANS[text.lower()]
    return pl.Series([text], dtype=pl.String).cast(DTYPES[dtype]).item()
