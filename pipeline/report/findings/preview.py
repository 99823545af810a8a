"""What an output holds that no other finding is about: its first rows, and of every column the gaps, the range and how values lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import polars.selectors as cs

from pipeline.report.finding import Evidence, Finding, findings
from pipeline.report.pieces import Grid, Note, Section, headline, number_text
from pipeline.report.plots import bars

MOST_COLUMNS, FIRST_ROWS, FEW_ROWS, LETTERS, BINS = 60, 5, 20, 40, 16
MANY_ROWS, STRETCHES, STRETCH = 4_000_000, 32, 1 << 13
HELD_BYTES = 192 << 20  # of columns of numbers that are read at once, and kept until both passes are over


class Preview(Finding, name="preview"):
    """A table of columns and one of first rows, for every output that no other finding shows."""

    place = 840

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """A section for each of these outputs."""
        others = [finding for finding in findings() if finding.name != self.name]
        for output, columns in evidence.columns.items():
            if not any(finding.applies(columns) for finding in others):
                yield preview(output, evidence.outputs[output])


def preview(output: str, rows: pl.LazyFrame) -> Section:
    """A count (Parquet: by its footers) and two passes over the rows, of which at most HELD_BYTES are kept, whatever their number.

    Of very many rows the second one is over stretches of them: a picture of sixteen bars would look the same.
    """
    section, schema = Section(headline("Preview", output), output=output), rows.collect_schema()
    names = schema.names()[:MOST_COLUMNS]
    found: dict[str, Any] = {"rows": rows.select(pl.len()).collect(engine="streaming").item()}
    if found["rows"] == 0:
        section.blocks.append(Note("The output has no rows."))
        return section
    shapes, looked_at, drawn = dict[str, str](), rows.select(names), ""
    if found["rows"] > MANY_ROWS:
        found |= _counted(looked_at)
        stretches = _stretches(looked_at, found["rows"])
        shapes = _shapes(stretches.lazy(), dict(stretches.schema), found)
        drawn = f" How values lie is that of {STRETCHES * STRETCH:,} rows, in {STRETCHES} stretches."
    else:
        for some in _at_once(looked_at, found["rows"]):
            found |= _counted(some)
            shapes |= _shapes(some, dict(some.collect_schema()), found)
    more = f" The first {len(names)} of {len(schema)} columns." if len(schema) > len(names) else ""
    head = ("column", "type", "nulls", "least", "greatest", "mean", "how its values lie")
    cells = [(name, str(schema[name]), _gaps(name, found), *_range(name, found), shapes.get(name, "")) for name in names]
    columns = Grid(head, "llrllrs", cells, f"{found['rows']:,} rows.{more}{drawn}")
    few = found["rows"] <= FEW_ROWS
    first = rows.select(names).head(FEW_ROWS if few else FIRST_ROWS).collect(engine="streaming")
    align = "".join("r" if schema[name].is_numeric() else "l" for name in names)
    values = [[_short(value) for value in row] for row in first.iter_rows()]
    firsts = Grid(names, align, values, "All its rows." if few else "Its first rows.")
    section.blocks += [columns, firsts]
    return section


def _counted(rows: pl.LazyFrame) -> dict[str, Any]:
    """The facts of all columns, in one pass."""
    facts = [fact for name, dtype in rows.collect_schema().items() for fact in _facts(name, dtype)]
    return rows.select(facts).collect(engine="streaming").row(0, named=True)


def _stretches(rows: pl.LazyFrame, count: int) -> pl.DataFrame:
    """The columns of numbers and times, of rows that follow one another, from as many places as far from one another."""
    rows = rows.select(cs.numeric() | cs.temporal())
    starts = [(count - STRETCH) * place // (STRETCHES - 1) for place in range(STRETCHES)]
    return pl.concat(rows.slice(start, STRETCH).collect(engine="streaming") for start in starts)  # one query would read all


def _at_once(rows: pl.LazyFrame, count: int) -> Iterator[pl.LazyFrame]:
    """All columns; those of numbers in memory where two times that are enough, so that nothing is read more often than in two passes."""
    numbers = [name for name, dtype in rows.collect_schema().items() if dtype.is_integer() or dtype.is_float()]
    each = HELD_BYTES // (8 * count)
    if 0 < len(numbers) <= 2 * each:
        for first in range(0, len(numbers), each):
            yield rows.select(numbers[first : first + each]).collect(engine="streaming").lazy()
        rows = rows.drop(numbers)
    if rows.collect_schema():
        yield rows


def _facts(name: str, dtype: pl.DataType) -> list[pl.Expr]:
    """Of one column: nulls, values that are no finite numbers, least, greatest and mean, each under a name of its own."""
    found, column = [pl.col(name).is_null().sum().alias(f"nulls:{name}")], pl.col(name)
    if dtype.is_float():
        found.append((~column.is_finite()).sum().alias(f"odd:{name}"))
        column = pl.when(column.is_finite()).then(column)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if not dtype.is_nested() and dtype not in (pl.Binary, pl.Null):
        found += [column.min().alias(f"least:{name}"), column.max().alias(f"greatest:{name}")]
    if dtype.is_numeric() or dtype == pl.Boolean:
        found.append(column.cast(pl.Float64).mean().alias(f"mean:{name}"))
    return found


def _gaps(name: str, found: dict[str, Any]) -> str:
    """Nulls with their share, and what is no finite number."""
    nulls, odd = found[f"nulls:{name}"], found.get(f"odd:{name}") or 0
    share = f" ({100 * nulls / found['rows']:.3g} %)" if nulls else ""
    return f"{nulls:,}{share}" + (f"; {odd:,} NaN or infinite" if odd else "")


def _range(name: str, found: dict[str, Any]) -> tuple[str, str, str]:
    least, greatest, mean = (found.get(f"{fact}:{name}") for fact in ("least", "greatest", "mean"))
    return _short(least), _short(greatest), number_text(mean)


def _short(value: Any) -> str:
    """A value as text, cut where it is long."""
    text = "" if value is None else number_text(value) if isinstance(value, float) else str(value)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"


def _shapes(rows: pl.LazyFrame, schema: dict[str, pl.DataType], found: dict[str, Any]) -> dict[str, str]:
    """A small histogram of every column of numbers and times that has two values or more."""
    spans = {}
    for name, dtype in schema.items():
        ends = [found.get(f"{end}:{name}") for end in ("least", "greatest")]
        if (dtype.is_numeric() or dtype.is_temporal()) and ends[0] is not None and ends[0] < ends[1]:
            low, high = pl.DataFrame({"ends": pl.Series(ends, dtype=dtype)}).select(_place("ends", dtype))["ends"]
            spans[name] = (low, high)
    if not spans:
        return {}
    steps = [
        ((_place(name, schema[name]) - low) / (high - low) * BINS).floor().clip(0, BINS - 1).cast(pl.UInt8, strict=False).alias(name)
        for name, (low, high) in spans.items()
    ]  # in a selection of their own: within the sums they would be computed once a bin
    counts = [(pl.col(name) == number).sum().alias(f"{number}:{name}") for name in spans for number in range(BINS)]
    sums = rows.select(steps).select(counts).collect(engine="streaming").row(0, named=True)
    heights = {name: [sums[f"{number}:{name}"] for number in range(BINS)] for name in spans}
    return {name: bars(of, f"{name}: {', '.join(map(str, of))} values in {BINS} equal steps") for name, of in heights.items()}


def _place(name: str, dtype: pl.DataType) -> pl.Expr:
    """Values as finite numbers on a line."""
    value = (pl.col(name).to_physical() if dtype.is_temporal() else pl.col(name)).cast(pl.Float64)
    return pl.when(value.is_finite()).then(value).alias(name)
