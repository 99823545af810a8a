"""Positions of one genome build as those of another, by a chain file."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import StageError
from pipeline.genome.builds import MARK
from pipeline.genome.chromosomes import chromosome_key
from pipeline.genome.columns import need_known
from pipeline.stage import Context, Outcome, Whole, need_columns
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table

PLACE = ("chromosome", "base_pair_location")
ALLELES = (("ref", "alt"), ("other_allele", "effect_allele"))
REASON = "reason"
BLOCK = ("chromosome", "start", "end", "new_chromosome", "new_start", "strand", "score")
_LIFTED, _GAP, _SPLIT, _TURNED, _ELSEWHERE = range(5)
_REASONS = (
    None,
    "no place in the new build",
    "an allele reaches over the end of a stretch",
    "an insertion or deletion on the other strand",
    "a sequence that is no chromosome",
)
_COMPLEMENT = dict(zip("ACGTacgt", "TGCAtgca", strict=True))


class Liftover(Whole, name="liftover", version=1):
    """Move rows to the positions of another genome build, as UCSC's liftOver, CrossMap and pyliftover do for single positions.

    `rows` are variants (a genotype table, whose calls stay with them) or associations; `chain` is a chain file (format chain). chromosome
    and base_pair_location are those of the new build; where that lies on the other strand, alleles (ref and alt, effect_allele and
    other_allele) are complemented. Of several chains over a position the best takes it. What cannot be moved is left out, and stands with
    the `reason` in NAME.unmapped: no place, alleles that reach over the end of a stretch, insertions and deletions on the other strand
    (their anchor is another base there), and sequences that are no chromosome (names with _). Rows keep their order: sort what must be in
    that of positions. Ids keep the old position, and REF may be another base in the new build.

    Example: {use: liftover, from: {rows: variants, chain: chain}, as: lifted}
    """

    roles = ("rows", "chain")
    unmarks = frozenset({MARK})
    counts: ClassVar[Mapping[str, Count]] = {
        "rows_in": Count("rows read"),
        "rows_lifted": Count("rows moved", always=True),
        "rows_turned": Count("of them to the other strand"),
        "rows_unmapped": Count("rows left out", always=True),
    }

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The rows as they are, and those left out with the reason."""
        rows = schemas["rows"]
        need_known(rows, PLACE, "rows")
        need_columns(schemas["chain"], BLOCK, "chain")
        if REASON in rows.columns:
            raise StageError(f"there is a column {REASON!r} already. Rename or drop it before.")
        return {"": rows, "unmapped": Schema(pl.Schema({**rows.columns, REASON: pl.String()}))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The chains once, then a map over the parts."""
        name, submit = context.name, context.session.submit
        rows = tables["rows"] if tables["rows"].cheap else tables["rows"].hold()
        chain = submit(_stretches, tables["chain"].named(name).gather().value(), stage=name)
        rows, writes = rows.named(name), frozenset({*PLACE, *(allele for pair in ALLELES for allele in pair)})
        return Outcome({"": rows.map_parts(_lifted, chain, writes=writes), "unmapped": rows.map_parts(_unmapped, chain)})


@dataclass(frozen=True)
class Stretches:
    """Of a chromosome of the old build, stretches in their order that do not overlap: `int64[s]` ends and new places, names, strands."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    new_starts: NDArray[np.int64]
    forward: NDArray[np.bool_]
    names: NDArray[np.object_]


def _stretches(chain: Part) -> dict[str, Stretches]:
    """By chromosome key."""
    found = {}
    keyed = chain.frame.select(pl.all().exclude("chromosome"), key=chromosome_key()).sort("key", "start")
    for (key,), rows in keyed.group_by("key", maintain_order=True):
        overlaps = (rows["start"][1:] <= rows["end"][:-1].cum_max()).any()
        whole = disjoint(rows) if overlaps else rows
        start, end, new = (whole[name].to_numpy() for name in ("start", "end", "new_start"))
        found[str(key)] = Stretches(start, end, new, (whole["strand"] == "+").to_numpy(), whole["new_chromosome"].to_numpy())
    return found


def disjoint(blocks: pl.DataFrame) -> pl.DataFrame:
    """Blocks of a chromosome, sorted by start, cut so that every position is in the block of the best score alone, if in any."""
    rows = blocks.rows(named=True)
    edges = sorted({row["start"] for row in rows} | {row["end"] + 1 for row in rows})
    pending, following, found = list[tuple[int, int]](), 0, list[dict[str, object]]()
    for first, after in zip(edges, [*edges[1:], edges[-1]], strict=True):
        while following < len(rows) and rows[following]["start"] <= first:
            heapq.heappush(pending, (-rows[following]["score"], following))
            following += 1
        while pending and rows[pending[0][1]]["end"] < first:
            heapq.heappop(pending)
        if pending and after > first:
            row = rows[pending[0][1]]
            moved = (first - row["start"]) * (1 if row["strand"] == "+" else -1)
            found.append({**row, "start": first, "end": after - 1, "new_start": row["new_start"] + moved})
    return pl.DataFrame(found, schema=blocks.schema)


@dataclass(frozen=True)
class Moved:
    """Where rows of a part lie: new chromosomes and positions, whether on the other strand, and why they have no place (0: they have)."""

    chromosome: pl.Series
    position: NDArray[np.int64]
    turned: NDArray[np.bool_]
    why: NDArray[np.int8]


def _moved(frame: pl.DataFrame, chain: Mapping[str, Stretches]) -> Moved:
    keys = frame.select(key=chromosome_key())["key"]
    position = frame["base_pair_location"].cast(pl.Int64).fill_null(-1).to_numpy()
    lengths = _letters(frame, [name for pair in ALLELES for name in pair])
    # Of variants REF lies on the genome; of associations either allele may be it.
    on_genome = _letters(frame, ["ref"]) if "ref" in frame.columns else lengths
    new, turned = np.zeros(len(position), np.int64), np.zeros(len(position), np.bool_)
    why, names = np.full(len(position), _GAP, np.int8), np.full(len(position), None, object)
    for key, own in chain.items():
        rows = (keys == key).fill_null(value=False).arg_true().to_numpy()
        at = np.searchsorted(own.starts, position[rows], side="right") - 1
        inside = (at >= 0) & (position[rows] <= own.ends[at])
        rows, at = rows[inside], at[inside]
        offset, forward = position[rows] - own.starts[at], own.forward[at]
        new[rows] = own.new_starts[at] + np.where(forward, offset, -offset)
        turned[rows], names[rows] = ~forward, own.names[at]
        why[rows] = np.where(position[rows] + on_genome[rows] - 1 > own.ends[at], _SPLIT, _LIFTED)
    why[(why == _LIFTED) & turned & (lengths > 1)] = _TURNED
    chromosome = pl.Series("chromosome", names.tolist(), pl.String)
    why[(why == _LIFTED) & chromosome.str.contains("_", literal=True).fill_null(value=False).to_numpy()] = _ELSEWHERE
    plain = ~frame["chromosome"].cast(pl.String).str.starts_with("chr").fill_null(value=False)
    return Moved(chromosome.set(plain, None).fill_null(chromosome.str.strip_prefix("chr")), new, turned, why)


def _letters(frame: pl.DataFrame, names: list[str]) -> NDArray[np.int64]:
    """Of every row the letters of the longest allele in some columns, 1 where there is none."""
    own = [frame[name].cast(pl.String).str.len_bytes().fill_null(1).to_numpy().astype(np.int64) for name in names if name in frame.columns]
    return np.asarray(np.maximum.reduce([np.ones(frame.height, np.int64), *own]))


def _lifted(part: Part, chain: Mapping[str, Stretches]) -> Part:
    """The rows that have a place, at it."""
    moved = _moved(part.frame, chain)
    rows = np.flatnonzero(moved.why == _LIFTED)
    dtypes = part.frame.schema
    frame = part.frame.with_columns(
        moved.chromosome.cast(dtypes["chromosome"]), pl.Series("base_pair_location", moved.position).cast(dtypes["base_pair_location"])
    )
    turned = pl.Series("turned", moved.turned)
    alleles = [name for pair in ALLELES for name in pair if name in dtypes]
    other = [_complement(frame[name], turned) for name in alleles]
    counts = {"rows_in": part.rows, "rows_lifted": len(rows), "rows_unmapped": part.rows - len(rows)}
    counts |= {"rows_turned": int(moved.turned[rows].sum())}
    return Part(frame.with_columns(other)[rows], {name: take(array, rows) for name, array in part.arrays.items()}, counts)


def _complement(alleles: pl.Series, turned: pl.Series) -> pl.Series:
    """Alleles of one letter of the rows that are on the other strand, complemented."""
    text = alleles.cast(pl.String)
    letters = text.replace_strict([*_COMPLEMENT], [*_COMPLEMENT.values()], default=text, return_dtype=pl.String)
    return pl.select(pl.when(turned).then(letters).otherwise(text).alias(alleles.name)).to_series().cast(alleles.dtype)


def _unmapped(part: Part, chain: Mapping[str, Stretches]) -> Part:
    """The other rows, and why they have no place."""
    why = _moved(part.frame, chain).why
    reasons = pl.Series(REASON, [_REASONS[number] for number in why.tolist()], pl.String)
    return Part(part.frame.with_columns(reasons)[np.flatnonzero(why != _LIFTED)])
