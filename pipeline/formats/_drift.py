"""Files of one table whose columns are not the same: brought together by their names, or refused with the file that differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeVar

import polars as pl
from pydantic import Field

from pipeline.errors import InputError, near

Missing = Annotated[
    Literal["error", "nulls"],
    Field(description="A column that some of the files lack: error, or nulls (it is missing in all their rows)."),
]
D = TypeVar("D")


def by_name(
    files: Mapping[str, Mapping[str, D]], missing: Missing, common: Callable[[str, tuple[str, str], tuple[D, D]], D]
) -> dict[str, D]:
    """The columns of all files, in the order of the first one; columns that later ones add follow.

    `common` gives the type of a column of two files, and raises InputError where there is none. Raises InputError where a file lacks a
    column of another one, unless what lacks is to be null.
    """
    found, where = dict[str, D](), dict[str, str]()
    for number, (file, columns) in enumerate(files.items()):
        if number and missing == "error" and columns.keys() != found.keys():
            raise InputError(_lacking(file, list(columns), next(iter(files)), list(found)))
        for name, dtype in columns.items():
            found[name] = common(name, (where[name], file), (found[name], dtype)) if name in found else dtype
            where.setdefault(name, file)
    return found


def same(name: str, files: tuple[str, str], dtypes: tuple[pl.DataType, pl.DataType]) -> pl.DataType:
    """The type of a column that files tell themselves. Raises InputError for two types."""
    if dtypes[0] != dtypes[1]:
        remedy = "Give files of one schema, or write that one anew."
        raise InputError(f"{files[1]}: column {name!r} is {dtypes[1]}, and {dtypes[0]} in {files[0]}. {remedy}")
    return dtypes[0]


def fitted(rows: pl.LazyFrame, own: Mapping[str, pl.DataType], table: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """The rows of a file as those of the table: its columns in their order, null where the file has none."""
    if list(own) == list(table):
        return rows
    return rows.select(pl.col(name) if name in own else pl.lit(None, dtype).alias(name) for name, dtype in table.items())


def _lacking(file: str, columns: list[str], first: str, known: list[str]) -> str:
    remedy = "Say missing: nulls to take the files as one table, or give files of one schema."
    if lost := [name for name in known if name not in columns]:
        return f"{file}: has no column {lost[0]!r}, which {first} has.{near(lost[0], columns)} {remedy}"
    new = [name for name in columns if name not in known]
    return f"{file}: has a column {new[0]!r}, which {first} has not.{near(new[0], known)} {remedy}"
