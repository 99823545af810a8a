"""All rows of a table in one order: in one part, or, beyond memory, in several parts one behind the other.

Beyond memory a sample of the keys says where the order is divided. Each part is cut there, and what lies between two such places is read,
sorted and given as one part. Rows of a key that fills a part by itself are in order as they lie, in as many parts as they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import polars as pl

from pipeline.tables.budget import Size
from pipeline.tables.laid import Cut, cut, joined
from pipeline.tables.names import Order
from pipeline.tables.on_disk import cut_up
from pipeline.tables.packed import all_digits, numbered
from pipeline.tables.part import Part
from pipeline.tables.sorting import put_in_order, sorted_frame
from pipeline.tables.sources import Glanced
from pipeline.tables.steps import Step
from pipeline.tables.table import Table

SAMPLED = 64  # keys for each place where the order is divided
SPARED = 16  # of a part that is glanced at, as many times fewer rows are read: parts are as many as pieces, about, so that one is little
CELL_BITS = 12
SEARCHED = {pl.String(), pl.Boolean()}
"""Types, beside whole numbers, dates and decimals, that are looked up as a sort compares them: of floats it takes 0.0 and -0.0 for one."""
AT, SIDE = "__at__", "__side__"
"""Of a place in the order: BEFORE all rows of its key, or AFTER them; rows are AMID."""
BEFORE, AMID, AFTER = 0, 1, 2


def in_order(table: Table, order: Order) -> Table:
    """The rows in that order, nulls last; rows that tie keep the order they had. Beyond memory it waits for them to be cut."""
    if not table.is_beyond or table.size is None:
        return table.gather().map(put_in_order, order, writes=frozenset(), whole="order")
    size = table.size
    pieces, most = table.buckets(), size.bytes // table.buckets()
    step = max(1, size.rows // (pieces * SAMPLED))
    if (some := _some(table, 1 / min(step, SPARED)) if 2 * len(table.blocks) >= pieces else None) is not None:
        sampled = some.map(_sampled, order.names, max(1, step // SPARED)).value()
    else:
        table = table if table.cheap else table.hold()
        sampled = table.map(_sampled, order.names, step).value()
    places = table.session.submit(_places, sampled, order, pieces, stage=table.stage)
    cuts = cut_up(table, _cut, order, places)
    known: Sequence[Cut] = table.session.value(cuts)
    sides: list[int] = table.session.value(table.session.submit(_sides, places, stage=table.stage))
    blocks = [
        Step("part", table.stage, (), _between, (cuts, numbers, parts, order), (*numbers, *parts))
        for numbers, parts in [*_runs(known, sides, most)] or [([0], (0, 1))]
    ]
    rows, held = sum(one.rows for one in known), sum(one.nbytes for one in known)
    whole = Size(rows, -(-held // max(1, rows)))
    return replace(table, blocks=tuple(blocks), origins=(), spread=(), name=None, as_read=False, size=whole)


def _some(table: Table, share: float) -> Table | None:
    """The table with such a share of each part's rows, where those are as they are read and it takes little; None elsewhere."""
    sources = [block.source for block in table.blocks if block.kind == "read" and isinstance(block.source, Glanced)]
    if table.cheap or len(sources) < len(table.blocks):
        return None
    few = [source.some(share) for source in sources]
    if any(one is source for one, source in zip(few, sources, strict=True)):
        return None
    return replace(table, blocks=tuple(replace(block, source=one) for block, one in zip(table.blocks, few, strict=True)), origins=())


def _sampled(rows: pl.LazyFrame, names: list[str], step: int) -> pl.LazyFrame:
    return rows.select(names).gather_every(step)


def _places(sampled: Part, order: Order, pieces: int) -> pl.DataFrame:
    """Keys of the sample that divide it evenly, in order; one that is more than a piece by itself stands there twice."""
    keys = order.sort(sampled.frame.lazy()).collect()
    at = [keys.height * number // pieces for number in range(1, pieces)]
    found = keys[at] if keys.height else keys.clear()
    counted = found.group_by(order.names, maintain_order=True).len()
    first = counted.drop("len").with_columns(pl.lit(BEFORE, dtype=pl.Int8).alias(SIDE))
    last = counted.filter(pl.col("len") > 1).drop("len").with_columns(pl.lit(AFTER, dtype=pl.Int8).alias(SIDE))
    return order.sort(pl.concat([first, last]).lazy()).collect()


def _sides(places: pl.DataFrame) -> list[int]:
    return places[SIDE].to_list()


def _cut(part: Part, order: Order, places: pl.DataFrame, folder: str, compiled: bool) -> Cut:
    """The part, cut at these places; rows of a piece stay as they are."""
    pieces = _by_numbers(part.frame, order, places) if compiled else None
    pieces = _by_search(part.frame, order, places) if pieces is None else pieces
    return cut(part, pieces, places.height + 1, folder, compiled=compiled)


def _by_numbers(rows: pl.DataFrame, order: Order, places: pl.DataFrame) -> pl.Series | None:
    """Of each row how many of the places are before it; None where keys are not soon numbers."""
    from pipeline.kernels.compiled.pieces import between

    columns = pl.concat([places.select(order.names), rows.select(order.names)], rechunk=True).get_columns()
    if (digits := all_digits(columns)) is None:
        return None
    numbers, count = numbered(columns, digits, order.descending).to_numpy(), places.height
    ends = 2 * numbers[:count] + (places[SIDE] == AFTER).to_numpy()
    most = 2 * prod(own.room for own in digits)
    shift = max(0, most.bit_length() - CELL_BITS)
    starts = np.arange((most >> shift) + 2, dtype=np.uint64) << np.uint64(shift)  # the last may be 2**63
    cells = np.searchsorted(ends.view(np.uint64), starts).astype(np.uint64)
    found = np.empty(rows.height, np.uint64)
    between(numbers[count:], ends, cells, np.uint64(shift), found)
    return pl.Series(found)


def _by_search(rows: pl.DataFrame, order: Order, places: pl.DataFrame) -> pl.Series:
    """The same: rows are looked up among the places' first keys; those that have one of these are sorted with the places."""
    name, keys = order.names[0], rows[order.names[0]].rechunk()
    known = places.lazy().drop_nulls(name).sort(name).group_by(name, maintain_order=True).len().collect()
    if not (keys.dtype in SEARCHED or keys.dtype.is_integer() or keys.dtype.is_temporal() or keys.dtype.is_decimal()):
        return _by_sort(rows.select(order.names), order, places)
    low, high = (known[name].search_sorted(keys, side=side).to_numpy() for side in ("left", "right"))
    ends = np.concatenate([[0], known["len"].cum_sum().to_numpy()])
    found = ends[-1] - ends[high] if order.descending[0] else ends[low]
    none = keys.is_null().to_numpy()
    found[none] = ends[-1]
    tied = np.where(none, ends[-1] < places.height, low < high)
    if tied.any():
        found[tied] = _by_sort(rows.select(order.names).filter(pl.Series(tied)), order, places).to_numpy()
    return pl.Series(found)


def _by_sort(keys: pl.DataFrame, order: Order, places: pl.DataFrame) -> pl.Series:
    rows = keys.with_row_index(AT).with_columns(pl.lit(AMID, dtype=pl.Int8).alias(SIDE))
    sides = [places.filter(pl.col(SIDE) == BEFORE), rows, places.filter(pl.col(SIDE) == AFTER)]  # rows that tie keep this order
    both = sorted_frame(order, (), pl.concat(sides, how="diagonal").select(rows.columns))
    numbers = both.select(AT, (pl.col(SIDE) != AMID).cum_sum().cast(pl.Int64).alias(SIDE)).filter(pl.col(AT).is_not_null())
    return numbers.sort(AT)[SIDE]


def _runs(cuts: Sequence[Cut], sides: Sequence[int], most: int) -> Sequence[tuple[list[int], tuple[int, int]]]:
    """Which pieces, and of which parts (from, to), make a part: neighbours together; those of one key, that is more than one, apart."""
    found, run, held = list[tuple[list[int], tuple[int, int]]](), list[int](), 0
    every = (0, len(cuts))
    for number in range(len(sides) + 1):
        sizes = [one.sizes[number] for one in cuts]
        alone = number < len(sides) and sides[number] == AFTER
        if run and (alone or held + sum(sizes) > most):
            found.append((run, every))
            run, held = [], 0
        if alone:
            found += [([number], parts) for parts in _stretches(sizes, most)]
        elif sum(sizes):
            run, held = [*run, number], held + sum(sizes)
    return [*found, (run, every)] if run else found


def _stretches(sizes: Sequence[int], most: int) -> Sequence[tuple[int, int]]:
    """Parts that follow one another, of so many bytes together at most where that can be."""
    found, first, held = list[tuple[int, int]](), 0, 0
    for number, size in enumerate(sizes):
        if held and held + size > most:
            found.append((first, number))
            first, held = number, 0
        held += size
    return [*found, (first, len(sizes))] if held else found


def _between(cuts: Sequence[Cut], numbers: Sequence[int], parts: tuple[int, int], order: Order) -> Part:
    part = joined(cuts[slice(*parts)], numbers)
    return part.replaced(sorted_frame(order, (), part.frame))
