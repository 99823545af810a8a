"""Consequences in words: rows of variants and transcripts, and of each gene the worst."""

from __future__ import annotations

import numpy as np
import polars as pl

from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.stages.genomics._consequences.gene_models import GeneModels
from pipeline.stages.genomics._consequences.terms import BIT, TERMS
from pipeline.tables.part import Part

_NAMES = ("gene_id", "gene_name", "transcript_id", "transcript_type", "strand")
COLUMNS = (*VARIANT, *_NAMES, "consequence", "consequences", "protein_position", "amino_acids")
OF_GENES = ("variant_id", "set_id", "gene_name", "transcript_id", "annotation")


def names_of(models: GeneModels, set_by: str) -> pl.DataFrame:
    """What transcripts are called, and the set of each, by name and by number."""
    name = pl.col("gene_id") if set_by == "gene_id" else pl.coalesce("gene_name", "gene_id")
    names = models.transcripts.select(*(pl.col(name).cast(dtype) for name, dtype in dtypes_of(_NAMES).items()), set_id=name)
    return names.with_columns(of_set=pl.col("set_id").rank("dense").cast(pl.Int64))


def spelled(found: Part, variants: Part, names: pl.DataFrame) -> Part:
    """COLUMNS of what was found of a part's variants."""
    rows = found.frame
    columns = [
        *variants.frame.select(pl.col(VARIANT).gather(rows["variant"])),
        *names.select(pl.col(_NAMES).gather(rows["transcript"])),
        *_words(rows["bits"]),
        rows["protein_position"],
        rows["amino_acids"],
    ]
    return Part(pl.DataFrame(columns).select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(COLUMNS).items()))


def _words(bits: pl.Series) -> pl.DataFrame:
    """The most severe term, and all of them, of each row of bits."""
    values = bits.to_numpy()
    different = np.flatnonzero(np.bincount(values, minlength=1))
    named = [[term for term in TERMS if value & BIT[term]] for value in different.tolist()]
    words = pl.DataFrame(
        {"consequence": [terms[0] for terms in named], "consequences": ["&".join(terms) for terms in named]},
        schema=dtypes_of(("consequence", "consequences")),
    )
    return words.select(pl.all().gather(pl.Series(np.searchsorted(different, values))))


def worst(found: Part, variants: Part, names: pl.DataFrame) -> Part:
    """OF_GENES: of each variant and set the most severe consequence, and the first transcript that has it."""
    rows = found.frame.filter(pl.col("transcript").is_not_null())
    bits = rows["bits"].cast(pl.Int64).to_numpy()
    severity = bits & -bits  # the lowest bit is the most severe term
    variant, of_set = rows["variant"].to_numpy(), names["of_set"].gather(rows["transcript"]).to_numpy()
    order = np.lexsort((severity, of_set, variant))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(variant[order].astype(np.int64)) != 0) | (np.diff(of_set[order]) != 0)
    best = rows[order[is_first]]
    columns = [
        variants.frame["variant_id"].gather(best["variant"]),
        *names.select(pl.col("set_id", "gene_name", "transcript_id").gather(best["transcript"])),
        _words(best["bits"])["consequence"].alias("annotation"),
    ]
    return Part(pl.DataFrame(columns).select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(OF_GENES).items()))
