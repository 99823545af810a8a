"""The lines of a JSON file that are none: no JSON, no object, or with a value that is none of the type that the job states."""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from pipeline.bounds import Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp
from pipeline.formats._bad_rows import BadRow, Sifted
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_text import UNREADABLE, opened_bytes, unreadable
from pipeline.formats._json_lines import columns_of_text, problem_of, typed

Columns = tuple[tuple[str, pl.DataType], ...]


@lru_cache(maxsize=64)
def sifted(path: str, _stamp: Stamp, limits: Bounds, stated: Columns) -> Sifted:
    """The bad lines of a file, looked for once while it is unchanged. Raises InputError for one that cannot be read."""
    lines = dict[int, bytes]()
    bad = dict[int, BadRow]()
    try:
        with opened_bytes(path, limits) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                if problem := problem_of(line):
                    bad[number] = BadRow(number, line.decode(errors="replace"), problem.split(". ")[0].rstrip("."))
                else:
                    lines[number] = line
    except UNREADABLE as error:
        raise InputError(unreadable(path, error, Dialect())) from error
    for number, reason in _unfit(path, lines, stated):
        bad[number] = BadRow(number, lines[number].decode(errors="replace"), reason)
    return Sifted(tuple(bad[number] for number in sorted(bad)), len(lines) + len(set(bad) - set(lines)))


def _unfit(path: str, lines: dict[int, bytes], stated: Columns) -> list[tuple[int, str]]:
    """The lines with a value that is none of a stated type, each with the first such column."""
    if not (stated and lines):
        return []
    text, numbers, found = b"".join(lines.values()), list(lines), dict[int, str]()
    read = columns_of_text(path, text)
    for name, dtype in stated:
        if name not in read:
            continue
        value = pl.col(name)
        rows = pl.scan_ndjson(text, schema=read).with_row_index("row")
        for row, shown in (
            rows.filter(value.is_not_null() & typed(value, dtype, strict=False).is_null()).select("row", name).collect().iter_rows()
        ):
            found.setdefault(numbers[row], f"column {name!r} is {dtype}, and {shown!r} is none")
    return list(found.items())


def without(path: str, limits: Bounds, lines: frozenset[int]) -> bytes:
    """The text of a file without some of its lines."""
    with opened_bytes(path, limits) as file:
        return b"".join(line for number, line in enumerate(file, 1) if number not in lines)
