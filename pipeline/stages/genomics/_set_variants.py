"""The variants of sets, from the part that has a set's first one to the part that has its last. Not a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.genome.columns import VARIANT
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.tables.part import Part, concat_parts, take


def ids_of(part: Part, sets: Part) -> Part:
    """The ids of a part's variants that are in a set."""
    return Part(part.frame.select("variant_id").join(sets.frame, on="variant_id", how="semi"))


def variants_of(part: Part, sets: Part) -> Part:
    """The variants that are in a set."""
    rows = part.frame.select("variant_id").with_row_index("row").join(sets.frame, on="variant_id", how="semi", maintain_order="left")
    return _rows(Part(part.frame.select(VARIANT), part.arrays), rows["row"].to_numpy())


def ends_of(sets: Part, *parts: Part) -> Part:
    """The rows of the sets, each with the number of the last part that has a variant of its set."""
    numbered = [part.frame.with_columns(pl.lit(number).alias("end")) for number, part in enumerate(parts)]
    met = pl.concat(numbered).join(sets.frame, on="variant_id")
    return Part(sets.frame.join(met.group_by("set_id").agg(pl.col("end").max()), on="set_id"))


def going_on(number: int, part: Part, before: Part | None, ends: Part) -> Part:
    """The variants so far of sets that end after this part."""
    whole = part if before is None else concat_parts([before, part])
    later = ends.frame.filter(pl.col("end") > number)
    rows = whole.frame.with_row_index("row").join(later, on="variant_id", how="semi", maintain_order="left")
    return _rows(whole, rows["row"].to_numpy())


def _rows(part: Part, rows: Any) -> Part:
    return Part(part.frame[rows], {name: take(array, rows) for name, array in part.arrays.items()})


def sets_of(rows: pl.DataFrame, place: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], NDArray[np.int64], dict[str, Any]]]:
    """Of each set in `rows`, which stand together: its id, `key`, `kind` and place, where its variants are, and by mask which are in it."""
    lengths = rows["set_id"].rle().struct.field("len").to_numpy()
    starts = np.cumsum(lengths) - lengths
    masks, numbers = rows["masks"].fill_null("").to_list(), rows["row"].to_numpy().astype(np.int64)
    told = rows.select("set_id", "key", "kind", *place)[starts].rows()
    for about, first, length in zip(told, starts.tolist(), lengths.tolist(), strict=True):
        yield about, numbers[first : first + length], _members(masks[first : first + length])


def block_of(part: Part, rows: NDArray[np.int64], people: int) -> GenotypeBlock:
    """The genotypes of some rows."""
    arrays = {name: take(array, rows) for name, array in part.arrays.items()}
    return GenotypeBlock(arrays.get("calls"), arrays.get("alt_dosages"), people)


def _members(masks: Sequence[str]) -> dict[str, Any]:
    of_rows = [set(text.split(",")) for text in masks]
    names = sorted(set().union(*of_rows) - {""})
    return {name: np.array([name in own_names for own_names in of_rows]) for name in names}


def check_sets(rows: pl.DataFrame) -> None:
    """Raise DataError where a set of these rows lies on several chromosomes, or has a variant twice."""
    keys = rows.group_by("set_id", maintain_order=True).agg(pl.col("key").unique().sort())
    for set_id, several in keys.filter(pl.col("key").list.len() > 1).head(1).iter_rows():
        raise DataError(f"the set {set_id!r} has variants on chromosomes {several[0]} and {several[1]}. Give a set the variants of one.")
    for set_id, name in rows.filter(pl.struct("set_id", "variant_id").is_duplicated()).select("set_id", "variant_id").head(1).iter_rows():
        raise DataError(
            f"the variant {name!r} of the set {set_id!r} comes twice, in the genotypes or in the sets. Give ids that are unique."
        )
