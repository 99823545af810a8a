"""Haseman-Elston regression of many people, whose relationships are made tile by tile and thrown away. Not a stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.haseman_elston import Regression, regressed, with_others
from pipeline.kernels.relationship_tiles import Calls, relationship_tile
from pipeline.stages.genomics._relationships import need_variants, refuse_apart_in
from pipeline.tables.part import Part
from pipeline.tables.rounds import go_on

Floats = NDArray[np.float64]
Group = tuple[NDArray[np.int64], Floats]
"""Places of the people who have some traits, `int64[m]`, and these traits with a mean of 0 and a variance of 1, `float64[m, t]`."""


class Vectors(NamedTuple):
    """What relationships are multiplied with: a column of 0 and 1 for each group's people, then one for each trait, 0 where missing."""

    columns: Floats
    groups: int


class PairSums(NamedTuple):
    """What a tile adds to the sums of its rows' people and, off the diagonal, of its columns'; its places, and who shares no variant."""

    later: Floats
    earlier: Floats | None
    places: tuple[slice, slice]
    apart: tuple[Any, Any]
    variants: int


def vectors_of(groups: Sequence[Group], people: int) -> Vectors:
    """The columns of all groups."""
    marks, traits = np.zeros((people, len(groups))), [np.zeros((people, standard.shape[1])) for _, standard in groups]
    for number, (places, standard) in enumerate(groups):
        marks[places, number] = 1
        traits[number][places] = standard
    return Vectors(np.hstack([marks, *traits]), len(groups))


def pair_sums(later: Calls, earlier: Calls | None, places: tuple[slice, slice], vectors: Vectors) -> PairSums:
    """The sums of one tile of relationships, without those of people with themselves."""
    tile, (rows, columns) = relationship_tile(later, earlier, go_on), places
    if earlier is None:
        np.fill_diagonal(tile.relationships, 0)
    ours = with_others(tile.relationships, vectors.columns[columns], vectors.groups)
    theirs = None if earlier is None else with_others(tile.relationships.T, vectors.columns[rows], vectors.groups)
    return PairSums(ours, theirs, places, tile.apart, len(later.frequency))


def regressions_of(groups: Sequence[Group], people: Part, tiles: Sequence[PairSums]) -> list[list[Regression]]:
    """Each group's traits' regressions. Raises DataError where no variant varies, or two people share none."""
    need_variants(tiles[0].variants)
    refuse_apart_in(((tile.places, tile.apart) for tile in tiles), people.frame["sample_id"])
    sums = np.zeros((people.rows, tiles[0].later.shape[1]))
    for tile in tiles:
        sums[tile.places[0]] += tile.later
        if tile.earlier is not None:
            sums[tile.places[1]] += tile.earlier
    found, column = list[list[Regression]](), len(groups)
    for number, (places, standard) in enumerate(groups):
        related, squares = sums[places, number], sums[places, number - len(groups)]
        products = sums[places, column : column + standard.shape[1]]
        pairs = zip(products.T, standard.T, strict=True)
        found.append([regressed(related, squares, product, trait) for product, trait in pairs])
        column += standard.shape[1]
    return found
