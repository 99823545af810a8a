"""Consequences as small rows of numbers: which variant, which transcript, which terms, and what becomes of the protein."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.genome.columns import VARIANT
from pipeline.kernels.ragged import Ragged
from pipeline.stages.genomics._consequences.changes import Changes, changes_of, met
from pipeline.stages.genomics._consequences.effects import Effects, Ends, across_ends, effects
from pipeline.stages.genomics._consequences.gene_models import GeneModels
from pipeline.stages.genomics._consequences.places import Met, places
from pipeline.stages.genomics._consequences.terms import BIT
from pipeline.tables.part import Part

FOUND = pl.Schema(
    {"variant": pl.UInt32(), "transcript": pl.UInt32(), "bits": pl.UInt32(), "protein_position": pl.UInt32(), "amino_acids": pl.String()}
)
"""`variant` is the row of the variant in its part, `transcript` that of GeneModels.transcripts, null where it is in none."""
_AT_ONCE = 50_000  # variants, of which each may be in a hundred transcripts


def consequences(part: Part, models: GeneModels, autosomes: int, mismatches: str) -> Part:
    """FOUND of a part's variants, in their order. Raises DataError for a REF that is not the reference's, where these are refused."""
    ends, frames, counts = Ends.of(models), [], []
    for first in range(0, max(part.frame.height, 1), _AT_ONCE):
        changes = changes_of(part.frame.select(VARIANT)[first : first + _AT_ONCE], autosomes)
        found = Met.of(changes, models, met(changes, models))
        bits = places(found, models)
        done = effects(found, changes, models, bits, ends)
        if mismatches == "refuse":
            _check_reference(changes, found, done)
        across = (bits & BIT["coding_sequence_variant"]) > 0
        across[done.row] = False
        some = np.flatnonzero(across)
        bits[some] |= across_ends(found.taken(some), models, ends)
        fits = done.row[done.fits]
        bits[fits] = (bits[fits] & ~BIT["coding_sequence_variant"]) | done.bits[done.fits]
        frames.append(_table(changes, found, bits, done).with_columns(pl.col("variant") + first))
        unknown = (bits & BIT["coding_sequence_variant"] > 0) & (models.coding.length[found.transcript] == 0)
        wrong = np.unique(found.variant[done.row[~done.fits]])
        counts.append({"known": changes.rows.height, "mismatches": len(wrong), "unknown_sequence": int(unknown.sum())})
    total = {name: sum(count[name] for count in counts) for name in counts[0]}
    return Part(pl.concat(frames).cast(pl.Schema(FOUND)), counts={"not_bases": part.frame.height - total.pop("known"), **total})


def _check_reference(changes: Changes, found: Met, done: Effects) -> None:
    if done.fits.all():
        return
    row = changes.rows.row(int(found.variant[done.row[~done.fits][0]]), named=True)
    where = f"{row['variant_id']!r} ({row['chromosome']}:{row['base_pair_location']}, REF {row['ref']}, ALT {row['alt']})"
    raise DataError(
        f"the variant {where} has a REF that is not what the reference has there. Are both of one build, and is REF the reference's allele "
        "(a .bed may have them swapped; bcftools norm --check-ref tells)? With mismatches: keep such variants are counted and kept."
    )


def _table(changes: Changes, found: Met, bits: NDArray[np.int64], done: Effects) -> pl.DataFrame:
    """The rows in the order of the variants; those in no transcript stand among them."""
    alone = np.flatnonzero(np.bincount(found.variant, minlength=changes.rows.height) == 0)
    intergenic = {"variant": alone, "bits": np.full(len(alone), BIT["intergenic_variant"])}
    rows = pl.DataFrame({"variant": found.variant, "transcript": found.transcript, "bits": bits})
    rows = pl.concat([rows.hstack(_amino_acids(len(bits), done)), pl.DataFrame(intergenic)], how="diagonal")
    rows = rows[np.argsort(rows["variant"].to_numpy(), kind="stable")]
    return rows.with_columns(changes.rows["row"].gather(rows["variant"]).cast(pl.Int64).alias("variant")).select(*FOUND)


def _amino_acids(rows: int, done: Effects) -> pl.DataFrame:
    """Place and amino acids of the rows that have them: R/W, K where both are the same, R/X where the frame shifts."""
    before, after = (_texts(side) for side in (done.before, done.after))
    found = pl.DataFrame({"place": done.row, "protein_position": done.position, "before": before, "after": after})
    found = found.with_columns(after=pl.when(pl.Series(done.in_frame)).then("after").otherwise(pl.lit("X")))
    none = pl.lit("-")
    sides = [pl.when(pl.col(side) == "").then(none).otherwise(side) for side in ("before", "after")]
    both = pl.when(pl.col("before") == pl.col("after")).then("before").otherwise(pl.concat_str(sides, separator="/"))
    found = found.select("place", "protein_position", amino_acids=both).filter(pl.Series(done.fits))
    every = pl.DataFrame({"place": np.arange(rows)}).join(found, on="place", how="left", maintain_order="left")
    return every.select("protein_position", "amino_acids")


def _texts(amino_acids: Ragged) -> pl.Series:
    """Rows of letters, which lie one after the other, as texts."""
    whole = pl.DataFrame({"first": amino_acids.first, "length": amino_acids.length})
    letters = pl.lit(amino_acids.values.tobytes())
    return whole.select(letters.bin.slice("first", "length").cast(pl.String)).to_series()
