"""Which rows a condition picks to learn from, counted beside what is learned: where it picks none, the error says what there is."""

from __future__ import annotations

import polars as pl

from pipeline.errors import DataError
from pipeline.tables.part import Part

_MARK, _SEEN, _PICKED, _COLUMN, _VALUE, _MOST, _COUNT = (
    f"__{name}__" for name in ("mark", "seen", "picked", "column", "value", "most", "count")
)
SHOWN = 10


def with_picks(learned: pl.LazyFrame, rows: pl.LazyFrame, condition: pl.Expr) -> pl.LazyFrame:
    """What was learned, and below it how many rows the condition picks, and what the columns that it names hold."""
    schema = rows.collect_schema()
    frames = [rows.select(pl.len().cast(pl.Int64).alias(_SEEN), condition.cast(pl.Int64).sum().alias(_PICKED))]
    for name in sorted(set(condition.meta.root_names())):
        column, dtype = pl.col(name), schema[name]
        if dtype in (pl.String, pl.Boolean):
            found = rows.group_by(column.cast(pl.String).alias(_VALUE)).agg(pl.len().cast(pl.Int64).alias(_COUNT))
        elif dtype.is_numeric():
            found = rows.select(column.min().cast(pl.Float64).alias(_VALUE + "n"), column.max().cast(pl.Float64).alias(_MOST + "n"))
        elif dtype in (pl.Date, pl.Datetime):
            day = column.dt.strftime("%Y-%m-%d")
            found = rows.select(day.min().alias(_VALUE), day.max().alias(_MOST))
        else:
            continue
        frames.append(found.with_columns(pl.lit(name).alias(_COLUMN)))
    marked = [frame.with_columns(pl.lit(value=True).alias(_MARK)) for frame in frames]
    return pl.concat([learned, *marked], how="diagonal")


def need_picked(partial: Part, where: str) -> Part:
    """What all parts learned, without what `with_picks` put below. Raises DataError where there are rows, and none was picked."""
    picks = partial.frame.filter(pl.col(_MARK).is_not_null())
    rows = int(picks[_SEEN].sum())
    if rows and not picks[_PICKED].sum():
        names = picks[_COLUMN].drop_nulls().unique(maintain_order=True)
        held = "; ".join(f"{name!r} {_held(picks.filter(pl.col(_COLUMN) == name))}" for name in names)
        raise DataError(f"{where!r} picks none of {rows:,} rows to learn from: {held}. Correct the condition.", key="fit_where")
    hidden = [name for name in picks.columns if name.startswith((_MARK, _SEEN, _PICKED, _COLUMN, _VALUE, _MOST, _COUNT))]
    return Part(partial.frame.filter(pl.col(_MARK).is_null()).drop(hidden), counts=partial.counts)


def _held(found: pl.DataFrame) -> str:
    """The values of a text's column with their rows, the commonest first; of others the range."""
    if _COUNT in found.columns and found[_COUNT].count():
        counts = found.group_by(_VALUE).agg(pl.col(_COUNT).sum()).sort([_COUNT, _VALUE], descending=[True, False])
        shown = [f"{'null' if value is None else repr(value)} ({rows:,} rows)" for value, rows in counts.head(SHOWN).rows()]
        more = counts.height - len(shown)
        return f"has {', '.join(shown)}" + (f" and {more:,} more values" if more else "")
    for end in ("n", ""):  # numbers, then texts of dates
        if _VALUE + end in found.columns and found[_VALUE + end].count():
            least, most = found.select(pl.col(_VALUE + end).min(), pl.col(_MOST + end).max()).row(0)
            return f"runs from {least:.15g} to {most:.15g}" if end else f"runs from {least} to {most}"
    return "is null in all of them"
