"""The relationship matrix of a genotype table's people: as sums over its parts, or of many people in tiles on disk. Not a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError
from pipeline.genome.chromosomes import autosomes_of, on_autosome
from pipeline.genome.columns import VARIANT
from pipeline.genome.genotypes import array_of
from pipeline.kernels.dosages import alt_frequencies
from pipeline.kernels.relationship import GrmSums, grm, grm_sums, shared_variants
from pipeline.kernels.relationship_tiles import Calls, add_products, joined_calls, relationship_tile
from pipeline.stage import Context
from pipeline.stages.genomics._genotypes import genotypes_in, of_block
from pipeline.stages.genomics._on_disk import OnDisk
from pipeline.stages.genomics._tiles import pair_work, people_blocks
from pipeline.tables.part import Part, hidden, take
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

SIDE_BY_SIDE = 32  # sums, at most
WHOLE = 5_000
"""People up to whom the matrix is held where tiles of it would do: 0.3 GB of sums a thread, and as much while sums are added."""
MOST_PEOPLE = 10_000
"""Whose whole matrix is held where tiles do not do: sums of 1.2 GB a thread, and some four matrices of 0.8 GB for all eigenvectors."""
MOST_IN_TILES = 60_000
"""Whose matrix is made in tiles: 14.4 GB of relationships on disk, and half as much of the variants that both of a pair have."""
RATE = 4e10
"""Pairs times variants a second of a core."""


class PlacedTile(NamedTuple):
    """A tile on disk, its rows and columns in the matrix, with how many people each of both shares no variant, and of how many it is."""

    numbers: OnDisk
    places: tuple[slice, slice]
    apart: tuple[NDArray[np.int64], NDArray[np.int64]]
    variants: int
    shared: OnDisk | None
    """The variants that both of a pair are called for, where they were asked for."""


def matrix_work(people: int, variants: int, of_pair: int, after: float = 0.0) -> str:
    """How long the matrix takes, with so many seconds a pair `after` it, and where it lies: of many people so many bytes a pair on disk."""
    if people > MOST_IN_TILES:
        return refused_of(people, MOST_IN_TILES)
    place = f"{5e-10 * of_pair * people**2:,.1f} GB of tiles on local disk" if people > WHOLE else "in memory"
    return f"{pair_work(people, variants, RATE, after)}; the matrix {place}"


def refused_of(people: int, most: int) -> str:
    """What --explain says of more people than a stage is for; stages before may leave some out."""
    return f"pairs: refused where more than {most:,} people are left of {people:,}"


def varying_of(genotypes: Table, people: Any, *, all_chromosomes: bool = False) -> Table:
    """The variants that vary among `people` (a future), held, with their `alt_frequency`; of the autosomes alone unless told otherwise."""
    return genotypes.map(_needed, writes=frozenset()).map_parts(_varying, people, all_chromosomes).hold()


def _needed(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The columns that describe variants."""
    return rows.select(*VARIANT, *hidden(rows))


def _varying(part: Part, people: Part, all_chromosomes: bool) -> Part:
    frame, array = part.frame, array_of(part.arrays)
    genotypes = part.arrays[array]
    if not all_chromosomes:
        kept = frame.select(on_autosome(autosomes=autosomes_of(people.frame))).to_series()
        if not kept.all():
            frame, genotypes = frame.filter(kept), take(genotypes, kept.arg_true().to_numpy())
    frequency = to_host(alt_frequencies(genotypes, people.frame.height))
    rows = np.flatnonzero((frequency > 0) & (frequency < 1))
    if len(rows) < len(frequency):
        frame, genotypes = frame[rows], take(genotypes, rows)
    return Part(frame.with_columns(alt_frequency=pl.Series(frequency[rows])), {array: genotypes})


def frequency_of(part: Part) -> Any:
    """The `alt_frequency` of a part's variants, where its genotypes are, `float64[v]`."""
    return array_module(genotypes_in(part)).asarray(part.frame["alt_frequency"].to_numpy())


def summed(parts: Sequence[Any], people: Any, context: Context) -> Any:
    """A future of the sums over parts of variants that vary: some grow side by side, each over neighbouring parts, and are added in order.

    How many there are depends on the parts alone: so do the last digits, wherever it runs. On GPUs it is one each, as their memory is
    short. One that is there is added before the next begins, if it can be, so that no more are held than tasks run at once.
    """
    submit, name = context.session.submit, context.name
    total: Any = None
    sums = context.session.workers if context.session.backend == "gpu" else SIDE_BY_SIDE
    for low, high in pairwise(len(parts) * i // sums for i in range(sums + 1)):
        grown: Any = None
        for part in parts[low:high]:
            grown = submit(_summed, part, people, grown, stage=name)
        if grown is not None:
            total = grown if total is None else submit(GrmSums.plus, total, grown, stage=name)
    return total


def _summed(part: Part, people: Part, earlier: GrmSums | None) -> GrmSums:
    return grm_sums(genotypes_in(part), people.frame.height, frequency_of(part), earlier, go_on)


def number_of(people: Part, most: int, what: str, remedy: str) -> int:
    """How many people there are. Raises DataError where they are more than `most`."""
    if people.rows > most:
        raise DataError(f"{what} for {most:,} people at most, and these are {people.rows:,}. {remedy}")
    return people.rows


def need_variants(number: int) -> None:
    """Raise DataError where there is no variant."""
    if number == 0:
        raise DataError("no autosomal variant varies among these people, so nothing tells how they are related")


def relationships_of(total: GrmSums | None, people: pl.Series) -> NDArray[np.float64]:
    """The matrix of sums of `people`, their ids, on the host. Raises DataError where no variant was summed, or two people share none."""
    need_variants(0 if total is None else total.variants)
    assert total is not None
    shared = shared_variants(total)
    refuse_apart(to_host((shared <= 0).sum(axis=0)), people)
    found: NDArray[np.float64] = to_host(grm(total, shared))
    return found


def of_tiles(make: Callable[..., Any], parts: Sequence[Any], people: int, context: Context, *others: Any) -> list[Any]:
    """Futures of what `make` gives of each tile of the lower triangle, row by row, from parts of variants that vary.

    It is called with the Calls of the later people, those of the earlier (None on the diagonal), both places, and `others`.
    """
    submit, name = context.session.submit, context.name
    blocks = people_blocks(people)
    calls = [submit(_joined, *(submit(_calls, part, block, stage=name) for part in parts), stage=name) for block in blocks]
    return [
        submit(make, calls[i], calls[j] if j < i else None, (blocks[i], blocks[j]), *others, stage=name)
        for i in range(len(blocks))
        for j in range(i + 1)
    ]


def _calls(part: Part, block: slice) -> Calls:
    return Calls(
        np.ascontiguousarray(genotypes_in(of_block(part, block))), part.frame["alt_frequency"].to_numpy(), block.stop - block.start
    )


def _joined(*pieces: Calls) -> Calls:
    return joined_calls(pieces)


def placed(later: Calls, earlier: Calls | None, places: tuple[slice, slice], shared: bool = False) -> PlacedTile:
    """A tile, laid on the worker's disk, with the variants that both of each pair have or without them."""
    tile = relationship_tile(later, earlier, go_on)
    return PlacedTile(OnDisk(tile.relationships), places, tile.apart, len(later.frequency), OnDisk(tile.shared) if shared else None)


def refuse_apart_in(tiles: Iterable[tuple[tuple[slice, slice], tuple[Any, Any]]], people: pl.Series) -> None:
    """As `refuse_apart`, of each tile's places and with how many people of the other place each of both shares no called variant."""
    apart = np.zeros(len(people), np.int64)
    for (rows, columns), (later, earlier) in tiles:
        apart[rows] += later
        if rows != columns:
            apart[columns] += earlier
    refuse_apart(apart, people)


def product_of(tiles: Sequence[PlacedTile], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix times `vectors: float64[people, k]`."""
    sums = np.zeros(vectors.shape)
    for tile in tiles:
        go_on()
        rows, columns = tile.places
        for first, some in tile.numbers.blocks():
            start = rows.start + first
            add_products(some, (slice(start, start + len(some)), columns), vectors, sums)
    return sums


def refuse_apart(apart: NDArray[np.int64], people: pl.Series) -> None:
    """Raise DataError, with the person who lacks most, where two people have no variant in common; `apart` counts those of each."""
    if apart.any():
        worst = int(apart.argmax())
        raise DataError(
            f"{people[worst]!r} shares no called variant that varies with {apart[worst]} of {len(people)} people, so their "
            "relationship is unknown. Remove people with a low call rate first (sample_qc), or use more variants."
        )
