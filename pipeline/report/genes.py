"""Genes that the outputs of a run have, and those that lie over places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from pipeline.genome.chromosomes import AUTOSOME_COUNT, HUMAN, chromosome_key
from pipeline.report.finding import Outputs
from pipeline.report.scan_data import CHROMOSOME, POSITION


def genes_of(outputs: Outputs, autosomes: int) -> pl.LazyFrame | None:
    """Genes of the first output that has any: a key of the chromosome, start, end, gene_name and strand (null where it is not known)."""
    for rows in outputs.values():
        columns = rows.collect_schema().names()
        if {CHROMOSOME, "start", "end", "gene_name"} <= {*columns}:
            whole = rows.filter(pl.col("feature").cast(pl.String) == "gene") if "feature" in columns else rows
            strand = pl.col("strand").cast(pl.String) if "strand" in columns else pl.lit(None, pl.String)
            place = [pl.col(name).cast(pl.Int64, strict=False) for name in ("start", "end")]
            named = whole.select(pl.col(CHROMOSOME).cast(pl.String), *place, pl.col("gene_name").cast(pl.String), strand=strand)
            return (
                named.drop_nulls([CHROMOSOME, "start", "end", "gene_name"]).with_columns(key=chromosome_key(autosomes=autosomes)).unique()
            )
    return None


def overlapping(genes: pl.LazyFrame, lead: Mapping[str, Any], span: tuple[float, float]) -> pl.DataFrame:
    """Genes (see `genes_of`) that reach into a stretch around a lead of a species, in the order of their starts."""
    key: Any = pl.select(pl.lit(lead[CHROMOSOME]).alias(CHROMOSOME)).select(chromosome_key(autosomes=lead[AUTOSOME_COUNT])).item()
    inside = genes.filter(pl.col("key") == key, pl.col("end") >= span[0], pl.col("start") <= span[1])
    return inside.sort("start", "end", "gene_name").collect(engine="streaming")


def gene_names(points: pl.DataFrame, genes: pl.DataFrame) -> pl.Series:
    """`gene_name` of every point: the genes (see `genes_of`) that it lies in, with commas between; null for none."""
    keys = points.select(chromosome_key(autosomes=HUMAN).alias("key")).to_series()
    names = np.full(points.height, None, object)
    for (key,), of_chromosome in genes.sort("start", "end", "gene_name").group_by("key", maintain_order=True):
        starts, ends = (of_chromosome[end].to_numpy() for end in ("start", "end"))
        here, longest = (keys == key).fill_null(value=False).arg_true().to_numpy(), int((ends - starts).max())
        places = points[POSITION].to_numpy()[here]
        first, last = np.searchsorted(starts, places - longest), np.searchsorted(starts, places, side="right")
        for point, place, low, high in zip(here, places, first, last, strict=True):
            over = np.flatnonzero(ends[low:high] >= place) + low
            if over.size:
                names[point] = ",".join(dict.fromkeys(of_chromosome["gene_name"][over].to_list()))
    return pl.Series("gene_name", names.tolist(), pl.String)
