"""Regular expressions that replace and extract, written as in DuckDB: a group is a backslash and its number, no match an empty text."""

from __future__ import annotations

import re

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.arguments import need_arguments, need_text, stated_number, stated_text
from pipeline.sql.casts import made
from pipeline.sql.tree import Node

FLAGS = {"g": "every match", "i": "whatever the case", "s": "a dot is a line feed too"}


def regexp_replace(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """The first match replaced, every one with the flag g."""
    need_arguments("regexp_replace(t, 'a+', 'b', 'g')", nodes, 3, 4)
    need_text(nodes[0], dtypes[0])
    flags = _flags(nodes[3:], "gis")
    pattern = _compiled(nodes[1], flags)
    by = _replacement(stated_text(nodes[2], "what regexp_replace puts in"), _groups(pattern))
    return made(nodes[0], lambda text: text.str.replace_all(pattern, by) if "g" in flags else text.str.replace(pattern, by))


def regexp_extract(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """A group of the first match, all of it where none is named; empty where nothing matches."""
    need_arguments("regexp_extract(t, 'a(b+)', 1)", nodes, 2, 4)
    need_text(nodes[0], dtypes[0])
    pattern = _compiled(nodes[1], _flags(nodes[3:], "is"))
    group = stated_number(nodes[2], "the group of regexp_extract") if len(nodes) > 2 else 0
    _need_group(group, _groups(pattern))
    return made(nodes[0], lambda text: pl.when(text.is_not_null()).then(text.str.extract(pattern, group).fill_null("")).otherwise(None))


def _flags(given: list[Node], known: str) -> str:
    flags = "".join(stated_text(node, "the flags of a regular expression") for node in given)
    if unknown := [flag for flag in flags if flag not in known]:
        listed = ", ".join(f"{flag} ({FLAGS[flag]})" for flag in known)
        raise ExpressionError(f"{unknown[0]!r} is no flag of a regular expression here: there are {listed}")
    return flags


def _compiled(node: Node, flags: str) -> str:
    """The pattern with its flags, in brackets: of one without any sign Polars takes `$$` as it is. ExpressionError where it is none."""
    pattern = stated_text(node, "a regular expression")
    inline = "".join(flag for flag in "is" if flag in flags)
    try:
        pl.select(pl.lit("").str.contains(pl.lit(pattern)))
    except pl.exceptions.PolarsError as error:
        found = re.search("^error: (.*)", str(error), re.MULTILINE)
        reason = found[1] if found else str(error).strip().partition("\n")[0]
        raise ExpressionError(f"{pattern!r} is no regular expression: {reason}") from None
    return f"(?{inline}:{pattern})"


def _groups(pattern: str) -> int:
    found = pl.LazyFrame(schema={"t": pl.String}).select(pl.col("t").str.extract_groups(pattern)).collect_schema()["t"]
    return len(found.fields) if isinstance(found, pl.Struct) else 0


def _need_group(group: int, groups: int) -> None:
    if not 0 <= group <= groups:
        raise ExpressionError(f"there is no group {group} in the regular expression, which has {groups}: 0 is all that matches")


def _replacement(by: str, groups: int) -> str:
    """What is put in as Polars writes it: ${1} for \\1, and a $ twice."""
    found = ""
    for piece in re.findall(r"\\.|[^\\]+|\\$", by, re.DOTALL):
        if re.fullmatch(r"\\[0-9]", piece):
            _need_group(int(piece[1]), groups)
            found += f"${{{piece[1]}}}"
        elif piece == "\\\\":
            found += "\\"
        elif piece[0] == "\\":
            raise ExpressionError(f"{piece!r} means nothing in what regexp_replace puts in: \\1 is a group, and \\\\ a backslash")
        else:
            found += piece.replace("$", "$$")
    return found
