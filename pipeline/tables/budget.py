"""How large a table is, as far as anybody knows before it is there, and how much memory there is for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from pipeline.tables.part import Schema

SHARE = 4
"""A query over all rows may have a table of a quarter of the memory: it holds what it reads, what it looks up, and what it makes."""
PIECES = 16
"""A task works on a sixteenth of its share of the memory: it holds rows, the same sorted or joined, and what it writes."""
NEAR = 8
"""Tables of an eighth of that are looked at: they may be larger than what is known of them."""
STATED_PARTS = 64
"""Of an input whose rows become more, or longer, than one thinks: a task has what comes of one of them."""
LEAST_BYTES = 16 << 20
LESS = 16
"""What a table was thought to take may be wrong by as much: a list's or a text's length, rows that one becomes, is not known before."""
MOST_PIECES = 2048
LIBRARY_BYTES, BESIDE = 80 << 20, 12
"""Of a process, for the library of compiled code; it is loaded where tables may have as many times that."""
TEXT_BYTES, NESTED_BYTES = 24, 64  # of a value, guessed: 16 are Polars' own of a text


@dataclass(frozen=True)
class Size:
    """Rows of a table, at most, and bytes that each takes in memory; `texts`: of these what values of no fixed length take, if a sample
    has shown it."""

    rows: int
    row_bytes: int
    texts: int | None = None

    @property
    def bytes(self) -> int:
        """Of all rows."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Budget:
    """Bytes that all tasks of a worker may use together, how many of them run at once, and the folder for what is more.

    Where there are several, a table may come to one of them whole: rows of one key do.

    `stated`: the job says so, since its tables become larger than one thinks; then inputs, too, come in many parts.
    `on_disk` counts the parts that each stage has cut or laid down there; `foreseen` are the bytes, stage by stage, of tables that a sample
    showed to be larger than was thought, so that they went there.
    """

    bytes: int
    at_once: int
    folder: str
    stated: bool = False
    on_disk: Counter[str] = field(default_factory=Counter, compare=False)
    foreseen: dict[str, int] = field(default_factory=dict, compare=False)

    def holds(self, size: Size) -> bool:
        """Whether a query over all rows of such a table fits."""
        return size.bytes * SHARE <= self.bytes

    def is_near(self, *sizes: Size) -> bool:
        """Whether tables of such sizes are so large that it counts how much larger they, or what comes of them, may be than they say."""
        return sum(size.bytes for size in sizes) * SHARE * NEAR > self.bytes

    @property
    def compiles(self) -> bool:
        """Whether the library of compiled code is little beside the tables."""
        return self.bytes >= BESIDE * LIBRARY_BYTES

    @property
    def less(self) -> int:
        """Bytes to state where so much turned out to be too much: a sixteenth; 0 where they were stated already."""
        return 0 if self.stated else self.bytes // LESS

    def parts(self, size: Size | None) -> int:
        """In how many parts such an input comes at least."""
        if size is None or self.holds(size):
            return 1
        return max(self.pieces(size), STATED_PARTS if self.stated else 1)

    def pieces(self, size: Size) -> int:
        """In how many pieces such a table is worked on."""
        piece = max(self.bytes // (PIECES * self.at_once), LEAST_BYTES)
        return max(1, min(MOST_PIECES, -(-size.bytes // piece)))


def stacked(sizes: Sequence[Size | None]) -> Size | None:
    """Of several tables below one another; None where one is not known."""
    known = [size for size in sizes if size is not None]
    return Size(sum(size.rows for size in known), max(size.row_bytes for size in known)) if len(known) == len(sizes) else None


def row_bytes(schema: Schema) -> int:
    """Bytes of a row in memory; values of no fixed length are guessed."""
    return max(1, sum(map(_value_bytes, schema.columns.dtypes())))


def fixed_bytes(schema: Schema) -> int:
    """Bytes of a row in memory without its values of no fixed length."""
    return sum(_value_bytes(dtype) for dtype in schema.columns.dtypes() if is_fixed(dtype))


def is_fixed(dtype: pl.DataType) -> bool:
    """Whether all its values take as many bytes."""
    return not dtype.is_nested() and dtype not in {pl.String, pl.Binary}


def _value_bytes(dtype: pl.DataType) -> int:
    if dtype.is_nested():
        return NESTED_BYTES
    if dtype in {pl.String, pl.Binary}:
        return TEXT_BYTES
    fixed = {pl.Boolean: 1, pl.Int8: 1, pl.UInt8: 1, pl.Int16: 2, pl.UInt16: 2, pl.Int32: 4, pl.UInt32: 4, pl.Float32: 4, pl.Date: 4}
    return fixed.get(type(dtype), 16 if isinstance(dtype, pl.Decimal) or dtype == pl.Int128 else 8)
