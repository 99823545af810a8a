"""Some of a genotype table's variants, by regions of a table such as a BED file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import autosomes_of, chromosome_key
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.stage import Context, Outcome, Whole, need_columns
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table

BOUNDS = ("start", "end")


class KeepRegions(Whole, name="keep_regions", version=1):
    """Keep the variants that lie in regions, or leave these out (the MHC, inversions), as PLINK's --extract bed0 and --exclude.

    `regions` has a row a region: chromosome, start, end. `bed` counts as BED files do, from 0, the end not in it; `inclusive` counts from 1
    and has both ends in it. Regions may overlap; chromosome names are compared without chr, and XY is X. A variant lies where its position
    is, whatever its length. A BED file is read by {format: bed, path: hard.bed}.

    Example:
        {use: keep_regions, from: {genotypes: cohort, regions: hard}, as: easy, leave_out: true}
    """

    roles = ("genotypes", "regions")
    counts: ClassVar[Mapping[str, Count]] = {
        "variants_in": Count("variants read"),
        "variants_out": Count("variants kept", always=True),
    }

    leave_out: bool = Field(False, description="Leave the variants in the regions out, and keep the others.")
    coordinates: Literal["bed", "inclusive"] = Field("bed", description="bed: from 0, without the end. inclusive: from 1, with both ends.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table as it is."""
        need_genotypes(schemas["genotypes"], ("chromosome", "base_pair_location"), dosages=True)
        need_columns(schemas["regions"], ("chromosome", *BOUNDS), "regions")
        for name in BOUNDS:
            if not schemas["regions"].columns[name].is_integer():
                raise StageError(
                    f"column {name!r} of the regions is {schemas['regions'].columns[name]}, and whole numbers are needed. Cast it."
                )
        return {"": schemas["genotypes"]}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The regions once, then a map over the parts."""
        genotypes, name = tables["genotypes"].named(context.name), context.name
        regions = tables["regions"].named(name).map(_needed).value()
        return Outcome({"": genotypes.map_parts(self.kept, regions, people_of(genotypes), writes=frozenset())})

    def kept(self, part: Part, regions: Part, people: Part) -> Part:
        """The variants of one part that stay. Raises DataError for a region that ends before it begins, or whose bounds are missing."""
        ranges = self._ranges(regions.frame, autosomes_of(people.frame))
        keys = part.frame.select(key=chromosome_key(autosomes=autosomes_of(people.frame)))["key"]
        positions, inside = part.frame["base_pair_location"].fill_null(-1).to_numpy(), np.zeros(part.rows, np.bool_)
        for name, (starts, ends) in ranges.items():
            rows = (keys == name).fill_null(value=False).to_numpy()
            last = np.searchsorted(starts, positions[rows], side="right") - 1
            inside[rows] = (last >= 0) & (positions[rows] <= ends[last])
        rows = np.flatnonzero(inside != self.leave_out)
        counts = {"variants_in": part.rows, "variants_out": len(rows)}
        return Part(part.frame[rows], {name: take(array, rows) for name, array in part.arrays.items()}, counts)

    def _ranges(self, regions: pl.DataFrame, autosomes: int) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """By chromosome first positions, ascending, and the furthest last one of the regions so far; both count from 1 and lie in them."""
        shift = 1 if self.coordinates == "bed" else 0
        own = regions.select(
            chromosome_key(autosomes=autosomes).alias("key"), "chromosome", *(pl.col(name).cast(pl.Int64) for name in BOUNDS)
        )
        wrong = own.filter((pl.col("start") + shift > pl.col("end") + 1) | pl.any_horizontal(pl.all().is_null()))
        for name, start, end in wrong.select("chromosome", *BOUNDS).head(1).iter_rows():
            raise DataError(f"a region of {name!r} has start {start} and end {end}: both must be there, the end not before the start")
        ordered = own.sort("key", "start")
        return {
            str(key): (rows["start"].to_numpy() + shift, np.maximum.accumulate(rows["end"].to_numpy()))
            for (key,), rows in ordered.group_by("key", maintain_order=True)
        }


def _needed(regions: pl.LazyFrame) -> pl.LazyFrame:
    return regions.select(pl.col("chromosome").cast(pl.String), *BOUNDS)
