"""Lines of JSON as columns: the types that all lines of a file have, those of several files, and what is wrong with a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from itertools import islice

import polars as pl

from pipeline.backend.threads import cores
from pipeline.bounds import Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp, for_polars, is_url, stamp
from pipeline.formats._broken import BROKEN
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_text import BLOCK_BYTES, UNREADABLE, opened_bytes, unreadable
from pipeline.formats._drift import by_name
from pipeline.formats._text_stretches import PIECE_BYTES, Text, bounds_of, pieces

WALL = "%Y-%m-%dT%H:%M:%S%.f"
ZONED = f"{WALL}%:z"
BATCH_LINES = 10_000
PACKED = (".gz", ".zst")


def scannable(path: str, limits: Bounds) -> str | bytes:
    """What a scan of Polars takes for a file: all its bytes where they are packed."""
    if not path.endswith(PACKED):
        return for_polars(path)
    with opened_bytes(path, limits) as file:
        return bytes(file.read())


def need_lines(path: str, limits: Bounds) -> None:
    """Raise InputError for a plain file of this machine with a line beyond its limits; those of a packed one are met as it is unpacked."""
    if not (path.endswith(PACKED) or is_url(path)):
        with opened_bytes(path, limits) as file:
            while file.read(BLOCK_BYTES):
                pass


@lru_cache(maxsize=1024)
def columns_of(path: str, _stamp: Stamp, limits: Bounds) -> Mapping[str, pl.DataType]:
    """The columns of a file, by all its lines; of type Null where there is no value. Raises InputError for what is no JSON by lines."""
    try:
        if path.endswith(PACKED) or (not is_url(path) and stamp(path).size > PIECE_BYTES):
            return _columns_of_pieces(path, limits)
        need_lines(path, limits)
        return columns_of_text(path, scannable(path, limits))
    except UNREADABLE as error:
        raise InputError(unreadable(path, error, Dialect())) from error
    except InputError as error:
        raise InputError(bad_line(path, limits) or error.text) from error


def _columns_of_pieces(path: str, limits: Bounds) -> Mapping[str, pl.DataType]:
    """The same by pieces, of which few are held, where they have the same columns, but for numbers and nulls."""
    text = Text(path, Dialect(limits=limits))
    if text.is_sought_in:
        with ThreadPoolExecutor(cores()) as pool:
            bounds = bounds_of(text.blocks(BLOCK_BYTES), PIECE_BYTES, quoted=False)
            each = list(pool.map(lambda bound: columns_of_text(path, text.between(*bound)), bounds))
    else:
        each = [columns_of_text(path, piece) for piece in pieces(text.blocks(BLOCK_BYTES), PIECE_BYTES, quoted=False)]
    found = {f"{path} {number}": columns for number, columns in enumerate(each)}
    with suppress(InputError):
        if len({tuple(columns) for columns in found.values()}) == 1:
            return by_name(found, "error", _flat)
    return columns_of_text(path, scannable(path, limits))


def _flat(name: str, files: tuple[str, str], dtypes: tuple[pl.DataType, pl.DataType]) -> pl.DataType:
    """The type of a column in two pieces. Raises InputError for two of lists or structures, which Polars alone can bring together."""
    if dtypes[0] != dtypes[1] and any(dtype.is_nested() for dtype in dtypes):
        raise InputError(f"{files[1]}: column {name!r} is {dtypes[1]}, and {dtypes[0]} in {files[0]}")
    return common(name, files, dtypes)


def columns_of_text(path: str, text: str | bytes) -> Mapping[str, pl.DataType]:
    """The same of a file, or of what is left of one."""
    try:
        return dict(pl.scan_ndjson(text, infer_schema_length=None).collect_schema())
    except BROKEN as error:
        raise InputError(f"{path}: its lines do not make one table ({error})") from error


def bad_line(path: str, limits: Bounds) -> str | None:
    """The first line that is no JSON object, with its number; None where all are."""
    try:
        with opened_bytes(path, limits) as file:
            for number, line in enumerate(file, 1):
                if line.strip() and (problem := problem_of(line)):
                    return f"{path}:{number}: {problem}"
    except UNREADABLE as error:
        return unreadable(path, error, Dialect())
    return None


def unfit_line(path: str, limits: Bounds, schema: Mapping[str, pl.DataType]) -> str | None:
    """The first line that holds no values of these types, with its number; None where all do."""
    with opened_bytes(path, limits) as file:
        numbered = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while batch := list(islice(numbered, BATCH_LINES)):
            if _misfit([line for _, line in batch], schema):
                found = ((number, what) for number, line in batch if (what := _misfit([line], schema)))
                return next(
                    (f"{path}:{number}: its values are not those of other lines ({what}). Correct it." for number, what in found), None
                )
    return None


def _misfit(lines: Sequence[bytes], schema: Mapping[str, pl.DataType]) -> str | None:
    try:
        pl.read_ndjson(b"".join(lines), schema=dict(schema))
    except pl.exceptions.PolarsError as error:
        return str(error).partition("\n")[0]
    return None


def problem_of(line: bytes) -> str | None:
    """What keeps a line from being a row, with the remedy; None where nothing does."""
    try:
        value = json.loads(line)
    except ValueError as error:
        return f'not JSON ({error}). Every line is one object, as in {{"id": 1}}; correct the line.'
    if not isinstance(value, dict):
        return f'a line is one object, as in {{"id": 1}}, and this is {line.strip()[:40].decode()!r}. Write an array\'s items line by line.'
    return None


def common(name: str, files: tuple[str, str], dtypes: tuple[pl.DataType, pl.DataType]) -> pl.DataType:
    """The type of a column, or of what is nested in it, in two files. Raises InputError where values of one are none of the other."""
    first, second = dtypes
    if second in (first, pl.Null()):
        return first
    if first == pl.Null():
        return second
    if isinstance(first, pl.List) and isinstance(second, pl.List):
        return pl.List(common(name, files, (_inner(first), _inner(second))))
    if isinstance(first, pl.Struct) and isinstance(second, pl.Struct):
        fields = [{field.name: field.dtype for field in struct.fields} for struct in (first, second)]
        return pl.Struct({**_both(name, files, fields[0], fields[1])})
    if first.is_numeric() and second.is_numeric():
        return pl.Float64() if pl.Float64() in (first, second) else pl.Int128()
    raise InputError(f"{files[1]}: column {name!r} reads as {second}, and as {first} in {files[0]}. Give files of one kind.")


def _both(name: str, files: tuple[str, str], first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, pl.DataType]:
    nothing = pl.Null()
    pairs = {key: (_type(first.get(key, nothing)), _type(second.get(key, nothing))) for key in {**first, **second}}
    return {key: common(f"{name}.{key}", files, pair) for key, pair in pairs.items()}


def _inner(dtype: pl.List) -> pl.DataType:
    return _type(dtype.inner)


def _type(dtype: object) -> pl.DataType:
    assert isinstance(dtype, pl.DataType)
    return dtype


def known(dtype: pl.DataType) -> pl.DataType:
    """The type with text for what no line tells."""
    if isinstance(dtype, pl.List):
        return pl.List(known(_inner(dtype)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: known(_type(field.dtype)) for field in dtype.fields})
    return pl.String() if dtype == pl.Null() else dtype


def plain(dtype: pl.DataType) -> pl.DataType:
    """The type that the JSON of a column of a type is read as."""
    if dtype.is_integer():
        return dtype if dtype in (pl.UInt64, pl.Int128) else pl.Int64()
    if dtype.is_float():
        return pl.Float64()
    return dtype if dtype == pl.Boolean() or dtype.is_nested() else pl.String()


def typed(column: pl.Expr, dtype: pl.DataType, *, strict: bool = True) -> pl.Expr:
    """The values of a column that was read as `plain` of its type; where one is none, a query fails, or it is null if not `strict`."""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        found = column.str.to_datetime(ZONED, time_unit=dtype.time_unit, time_zone="UTC", strict=strict)
        return found.dt.convert_time_zone(dtype.time_zone)
    if isinstance(dtype, pl.Datetime):
        return column.str.replace(" ", "T", literal=True).str.to_datetime(WALL, time_unit=dtype.time_unit, strict=strict)
    return column.cast(dtype, strict=strict)
