"""The coding sequences of transcripts, cut out of a reference that comes in pieces."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.genome.chromosomes import chromosome_key
from pipeline.kernels.genetic_code import base_codes, complement
from pipeline.kernels.ragged import Ragged, entries
from pipeline.stages.genomics._consequences.gene_models import GeneModels, coding_parts, spread
from pipeline.tables.part import Part

NEEDED = ("chromosome", "start", "sequence")
_POSITION_BITS = 40
_AT_ONCE = 1 << 22  # bases whose places are held at once


@dataclass(frozen=True)
class Wanted:
    """The different stretches that code: `rows` has key, first and last position, `place` their number for each coding exon."""

    rows: pl.DataFrame
    place: NDArray[np.int64]


def wanted(models: GeneModels) -> Wanted:
    """What is needed of the reference."""
    exons, of = coding_parts(models)
    rows = pl.DataFrame({"key": models.transcripts["key"].gather(of), "first": models.low[exons], "last": models.high[exons]})
    different = rows.unique().sort("key", "first", "last").with_row_index("number")
    place = rows.join(different, on=["key", "first", "last"], how="left", maintain_order="left")["number"]
    return Wanted(different, place.to_numpy().astype(np.int64))


def cut(part: Part, models: GeneModels, autosomes: int) -> Part:
    """What pieces of the reference have of the stretches that code: rows of number, place in the stretch, and bases.

    And a row for each sequence, with its name alone.
    """
    needed = wanted(models).rows
    bases = pl.col("sequence").cast(pl.Binary)
    pieces = part.frame.drop_nulls(NEEDED).select(
        chromosome_key(autosomes=autosomes).alias("key"), first=pl.col("start").cast(pl.Int64), bases=bases
    )
    pieces = pieces.with_columns(last=pl.col("first") + pl.col("bases").bin.size().cast(pl.Int64) - 1).sort("key", "first")
    ranks = {name: rank for rank, name in enumerate(pieces["key"].unique(maintain_order=True).to_list())}
    here = needed.filter(pl.col("key").is_in(list(ranks)))
    began = np.searchsorted(_places(pieces, ranks, "last"), _places(here, ranks, "first"), side="left")
    ended = np.searchsorted(_places(pieces, ranks, "first"), _places(here, ranks, "last"), side="right")
    row, step = entries(np.maximum(ended - began, 0))
    pairs = pl.DataFrame([here["number"].gather(row), here["first"].gather(row), here["last"].gather(row)])
    met = pairs.with_columns(pieces.select("bases", start="first", stop="last")[began[row] + step].get_columns())
    begin = pl.max_horizontal("first", "start")
    length = pl.min_horizontal("last", "stop") - begin + 1
    found = met.select("number", begin - pl.col("first"), bases=pl.col("bases").bin.slice(begin - pl.col("start"), length))
    names = part.frame.select(sequence=pl.col("chromosome").cast(pl.String)).unique()
    return Part(pl.concat([found.rename({"first": "at"}), names], how="diagonal"))


def _places(rows: pl.DataFrame, ranks: dict[str, int], column: str) -> NDArray[np.int64]:
    rank = rows["key"].replace_strict(ranks, return_dtype=pl.Int64).to_numpy() if rows.height else np.zeros(0, np.int64)
    return np.asarray((rank << _POSITION_BITS) + rows[column].to_numpy())


def with_coding(models: GeneModels, found: Part) -> GeneModels:
    """The transcripts with their coding sequences; those of which a base is not in the reference are left without.

    Raises DataError where that is so of all that code, or where a stretch comes more than once.
    """
    needed = wanted(models)
    pieces = found.frame.filter(pl.col("number").is_not_null()).unique().sort("number", "at")
    size = pieces["bases"].bin.size().cast(pl.Int64).to_numpy()
    held = np.bincount(pieces["number"].to_numpy(), weights=size, minlength=needed.rows.height).astype(np.int64)
    length = (needed.rows["last"] - needed.rows["first"] + 1).to_numpy()
    if (twice := np.flatnonzero(held > length)).size:
        key, first = needed.rows.select("key", "first").row(int(twice[0]))
        raise DataError(f"the reference has chromosome {key} at {first} more than once, with different bases. Give each sequence once.")
    if len(length) and not (held == length).any():
        names = found.frame["sequence"].drop_nulls().unique(), needed.rows["key"].unique()
        theirs, ours = (", ".join(some.sort().to_list()[:6]) or "none" for some in names)
        raise DataError(
            f"the reference (sequences {theirs}) has none of the coding parts of the genes (on {ours}, without chr). "
            "Are both of one build? Other names are given with `rename` of the fasta input: {name in the file: chromosome}."
        )
    codes = base_codes(np.frombuffer(b"".join(pieces["bases"].to_list()), np.uint8))
    return replace(models, coding=_spliced(models, Ragged(codes, np.cumsum(held) - held, np.where(held == length, held, 0)), needed.place))


def _spliced(models: GeneModels, stretches: Ragged, place: NDArray[np.int64]) -> Ragged:
    """The coding sequences, in the direction of their transcripts, without incomplete codons at either end."""
    exons, of = coding_parts(models)
    parts = stretches.taken(place)
    parts = replace(parts, length=models.high[exons] - models.low[exons] + 1)
    count = models.transcripts.height
    total = np.bincount(of, weights=parts.length, minlength=count).astype(np.int64)
    unknown = np.bincount(of, weights=stretches.length[place] == 0, minlength=count) > 0
    codes = np.empty(int(total.sum()), np.uint8)
    to, reverse = np.cumsum(parts.length) - parts.length, ~models.is_forward[of]
    for rows in spread(parts.length, _AT_ONCE):
        row, step = entries(parts.length[rows])
        row = row + rows.start
        source = parts.first[row] + np.where(reverse[row], parts.length[row] - 1 - step, step)
        source[unknown[of[row]]] = 0
        bases = stretches.values[source] if len(stretches.values) else np.zeros(len(source), np.uint8)
        codes[to[row] + step] = np.where(reverse[row], complement(bases), bases)
    phase = models.transcripts["phase"].cast(pl.Int64).to_numpy()
    whole = np.where(unknown, 0, np.maximum(total - phase, 0) // 3 * 3)
    return Ragged(codes, np.cumsum(total) - total + phase, whole)
