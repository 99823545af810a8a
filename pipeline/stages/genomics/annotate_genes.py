"""Genes of variants: those that each lies in, and the nearest one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import AUTOSOME_COUNT, autosomes_of, chromosome_key
from pipeline.genome.columns import dtypes_of
from pipeline.genome.species import ChromosomeSet
from pipeline.stage import Context, Outcome, Whole, need_columns, need_numeric
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

GIVEN = dtypes_of(("gene_name", "nearest_gene", "gene_distance"))
SEGMENTS = pl.Schema(
    {
        "chromosome": pl.String(),
        "start": pl.Int64(),
        "gene_name": pl.String(),
        "left_gene": pl.String(),
        "left_end": pl.Int64(),
        "right_gene": pl.String(),
        "right_start": pl.Int64(),
    }
)
"""Stretches of chromosomes (as chromosome_key names them), sorted: from `start` on, up to the next, the same genes lie over every position,
the gene before it is `left_gene`, which ends at `left_end`, and the gene after it `right_gene`, which starts at `right_start`."""
_POSITION_BITS = 40  # of a key that orders chromosome and position together


class AnnotateGenes(Whole, name="annotate_genes", version=1):
    """Add to each variant `gene_name`, the genes that it lies in (joined by commas, null for none), `nearest_gene` and `gene_distance`.

    A variant is its base_pair_location; a gene reaches from start to end, the ends included. gene_distance is 0 inside a gene; beyond
    `max_distance` it and nearest_gene are null. Of two genes as near, it is the one before. A gene without a name goes by its gene_id.
    Chromosomes are compared without a leading 'chr', 23 and the pseudoautosomal regions as X, 24 as Y, 26 as MT; of another
    species by its numbers. A genotype table keeps its calls. What variants do to transcripts is told by variant_consequences.

    Example:
        {use: annotate_genes, from: {variants: hits, genes: genes}, as: named_hits}
    """

    roles = ("variants", "genes")

    max_distance: int = Field(500_000, ge=0, description="Base pairs beyond which a gene is not called near.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The variants' columns and three more."""
        variants, genes = schemas["variants"], schemas["genes"]
        need_columns(variants, ("chromosome", "base_pair_location"), "variants")
        need_columns(genes, ("chromosome", "start", "end", "gene_name"), "genes")
        need_numeric(variants, ("base_pair_location",))
        need_numeric(genes, ("start", "end"))
        if there := [name for name in GIVEN if name in variants.columns]:
            raise StageError(f"the table given as 'variants' has a column {there[0]!r} already. Leave it out before, with select.")
        return {"": Schema(pl.Schema({**variants.columns, **GIVEN}), variants.arrays)}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The genes cut into segments once, a look at the chromosomes of both, and a search in each part."""
        variants = tables["variants"] if tables["variants"].cheap else tables["variants"].hold()
        variants = variants.named(context.name)
        people = next((axis.value() for axis in variants.axes.values()), None)
        names = variants.map_parts(_chromosomes, people).value()
        segments = tables["genes"].named(context.name).gather().map_parts(_segments, names).value()
        return Outcome({"": variants.map_parts(_annotated, segments, names, self.max_distance, writes=frozenset(GIVEN))})


def _chromosomes(part: Part, people: Part | None) -> Part:
    """The chromosomes as they are written, their keys, and the autosomes of the species: by the people, else by the variants."""
    autosomes = autosomes_of(part.frame if people is None else people.frame)
    names = part.frame.select(pl.col("chromosome").cast(pl.String)).unique()
    return Part(names.with_columns(pl.lit(autosomes).alias(AUTOSOME_COUNT), key=chromosome_key(autosomes=autosomes)))


def _segments(part: Part, names: Part) -> Part:
    """SEGMENTS of all genes, whose chromosomes are numbered as the variants' are. InputError where these are not of the species."""
    whose = f"the variants (people's without a column {AUTOSOME_COUNT!r})"
    ChromosomeSet(autosomes_of(names.frame)).check_names(names.frame["chromosome"].sort(), whose)
    name = pl.coalesce("gene_name", "gene_id") if "gene_id" in part.frame.columns else pl.col("gene_name")
    genes = part.frame.select(
        chromosome_key(autosomes=autosomes_of(names.frame)), pl.col("start", "end").cast(pl.Int64), name.alias("gene")
    )
    genes = genes.drop_nulls().sort("chromosome", "start", "end", "gene")
    frames = [SEGMENTS.to_frame()]
    for (chromosome,), some in genes.group_by("chromosome", maintain_order=True):
        rows = segments_of(some["start"].to_list(), some["end"].to_list(), some["gene"].to_list())
        frames.append(pl.DataFrame([(chromosome, *row) for row in rows], schema=SEGMENTS, orient="row"))
    return Part(pl.concat(frames))


def segments_of(
    starts: list[int], ends: list[int], genes: list[str]
) -> list[tuple[int, str | None, str | None, int | None, str | None, int | None]]:
    """Segments of one chromosome's genes, sorted by start: start, genes over it, gene before and its end, gene after and its start.

    Of genes before that end together it is the one that starts last, of genes after that start together the one that ends first.
    """
    by_end = sorted(range(len(genes)), key=lambda gene: (ends[gene], gene))
    sorted_ends = [ends[gene] for gene in by_end]
    rows, over = [], list[int]()
    for start in sorted({0, *starts, *(end + 1 for end in ends)}):
        over = [gene for gene in over if ends[gene] >= start]
        over += range(bisect_left(starts, start), bisect_right(starts, start))
        names = list(dict.fromkeys(genes[gene] for gene in over))
        before, after = bisect_left(sorted_ends, start), bisect_right(starts, start)
        left = by_end[before - 1] if before else None
        right = after if after < len(genes) else None
        rows.append(
            (
                start,
                ",".join(names) or None,
                None if left is None else genes[left],
                None if left is None else ends[left],
                None if right is None else genes[right],
                None if right is None else starts[right],
            )
        )
    return rows


def _annotated(part: Part, segments: Part, names: Part, max_distance: int) -> Part:
    """The part with the three columns. DataError where no chromosome of the variants is one of the genes'."""
    ranks = {name: rank for rank, name in enumerate(segments.frame["chromosome"].unique(maintain_order=True).to_list())}
    known = names.frame.drop_nulls()
    if known.height and not any(key in ranks for key in known["key"]):
        theirs, ours = (", ".join(sorted(found)[:6]) or "none" for found in (set(ranks), set(known["chromosome"])))
        raise DataError(f"no chromosome of the variants ({ours}) is one of the genes' ({theirs}, without chr). Are both of one species?")
    key = chromosome_key(autosomes=autosomes_of(names.frame))
    chromosome = part.frame.select(key.replace_strict(ranks, default=None, return_dtype=pl.Int64)).to_series()
    position = part.frame["base_pair_location"].cast(pl.Int64)
    found = _found(_keys(segments, ranks), chromosome, position)
    here = segments.frame.select(pl.all().gather(found)).with_columns(at=position)
    over = pl.col("gene_name")
    left, right = pl.col("at") - pl.col("left_end"), pl.col("right_start") - pl.col("at")
    is_left = right.is_null() | (left <= right)
    distance = pl.when(over.is_not_null()).then(0).otherwise(pl.when(is_left).then(left).otherwise(right)).cast(pl.Int64)
    nearest = pl.when(over.is_not_null()).then(over).when(is_left).then("left_gene").otherwise("right_gene")
    near = distance <= max_distance
    added = here.select(over, nearest_gene=pl.when(near).then(nearest), gene_distance=pl.when(near).then(distance))
    return part.replaced(part.frame.with_columns(added.get_columns()))


def _keys(segments: Part, ranks: Mapping[str, int]) -> NDArray[np.int64]:
    """Chromosome and start of every segment as one number, in order."""
    rank = segments.frame["chromosome"].replace_strict(ranks, return_dtype=pl.Int64).to_numpy()
    keys: NDArray[np.int64] = (rank << _POSITION_BITS) + segments.frame["start"].to_numpy()
    return keys


def _found(keys: NDArray[np.int64], chromosome: pl.Series, position: pl.Series) -> pl.Series:
    """The segment of every variant; null where its chromosome has no genes, or its position is unknown."""
    key = (chromosome.fill_null(-1).to_numpy() << _POSITION_BITS) + position.fill_null(0).to_numpy()
    index = np.searchsorted(keys, key, side="right") - 1
    unknown = chromosome.is_null() | position.is_null() | (position < 0)
    return pl.Series(index).set(unknown, None)
