"""Sets of variants for gene-based tests, from annotations, a list of sets and definitions of masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import polars as pl

from pipeline.errors import DataError
from pipeline.genome.columns import dtypes_of, need_known
from pipeline.stage import Context, Outcome, Whole, need_columns
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

ANNOTATION = ("variant_id", "set_id", "annotation")
MASK = ("mask", "annotations")
SET = ("set_id", "chromosome", "base_pair_location", "variant_ids")
PLACED = ("set_id", "chromosome", "base_pair_location", "variant_id", "annotation", "masks")
UNPLACED = ("set_id", "variant_id", "annotation", "masks")


class VariantSets(Whole, name="variant_sets", version=1):
    """Say for every set of variants (a gene, say) which of its variants each mask has: what set_association reads.

    Three tables, regenie's three files or others alike: `annotations` (variant_id, set_id, annotation: one row a variant and set), `masks`
    (mask, annotations: names with commas between them) and, where there is one, `sets` (set_id, chromosome, base_pair_location,
    variant_ids with commas), which says where a set counts as lying and which variants belong to it; without it those that are
    annotated do. Files without a header are read by `header: false` and named `columns` (docs/genomics.md).

    Gives a row for each variant of a set that is in a mask: set_id, chromosome, base_pair_location (these two of the list of sets),
    variant_id, annotation, masks (names with commas). Variants of the list that have no annotation for their set are left out and
    counted, and so are masks whose annotations nobody has.

    Example:
        {use: variant_sets, from: {annotations: annotations, masks: masks, sets: set_list}, as: sets}
    """

    roles = ("annotations", "masks", "sets")
    optional: ClassVar[frozenset[str]] = frozenset({"sets"})
    counts: ClassVar[Mapping[str, Count]] = {
        "sets": Count("sets", always=True),
        "not_annotated": Count("variants of sets without an annotation"),
        "in_no_mask": Count("annotated variants of sets in no mask"),
        "masks_of_nothing": Count("masks whose annotations no variant has"),
    }

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row per variant of a set."""
        need_known(schemas["annotations"], ANNOTATION, "annotations")
        need_known(schemas["masks"], MASK, "masks")
        if "sets" in schemas:
            need_columns(schemas["sets"], SET, "sets")
            need_known(schemas["sets"], SET, "sets")
        return {"": Schema(pl.Schema(dtypes_of(PLACED if "sets" in schemas else UNPLACED)))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """All of it in one task: a table of text with a row a variant."""
        parts = {role: table.named(context.name).map(_needed, role).value() for role, table in tables.items()}
        whole = context.session.submit(_joined, parts["annotations"], parts["masks"], parts.get("sets"), stage=context.name)
        return Outcome({"": Table.of(context.session, context.name, [whole])})


def _needed(rows: pl.LazyFrame, role: str) -> pl.LazyFrame:
    return rows.select({"annotations": ANNOTATION, "masks": MASK, "sets": SET}[role])


def _joined(annotations: Part, masks: Part, sets: Part | None) -> Part:
    """The rows. Raises DataError for what names something twice."""
    _once(annotations.frame, ("variant_id", "set_id"), "annotations")
    _once(masks.frame, ("mask",), "masks")
    defined = _split(masks.frame, "annotations").with_row_index("order")
    of_annotation = defined.sort("order").group_by(pl.col("annotations").alias("annotation"), maintain_order=True)
    named = of_annotation.agg(pl.col("mask").unique(maintain_order=True).str.join(",").alias("masks"))
    columns: tuple[str, ...] = UNPLACED
    members, lost = annotations.frame.sort("set_id", "variant_id"), 0
    if sets is not None:
        _once(sets.frame, ("set_id",), "sets")
        listed = _split(sets.frame, "variant_ids").rename({"variant_ids": "variant_id"}).unique(maintain_order=True)
        members = listed.join(annotations.frame, on=["set_id", "variant_id"], how="inner", maintain_order="left")
        columns, lost = PLACED, listed.height - members.height
    found = members.join(named, on="annotation", how="inner", maintain_order="left")
    known = pl.col("annotations").is_in(annotations.frame["annotation"].unique().implode())
    used = defined.group_by("mask").agg(known.any().alias("known"))
    counts = {
        "sets": found["set_id"].n_unique(),
        "not_annotated": lost,
        "in_no_mask": members.height - found.height,
        "masks_of_nothing": used.height - int(used["known"].sum()),
    }
    return Part(found.select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(columns).items()), counts=counts)


def _split(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """A row for each of the names that commas separate in a column."""
    names = (
        rows.with_columns(pl.col(column).str.split(",")).explode(column, empty_as_null=True).with_columns(pl.col(column).str.strip_chars())
    )
    return names.filter(pl.col(column).str.len_chars() > 0)


def _once(rows: pl.DataFrame, key: tuple[str, ...], role: str) -> None:
    """Raise DataError where a key is missing or comes twice."""
    bad = rows.filter(pl.any_horizontal(pl.col(*key).is_null()))
    if bad.height:
        raise DataError(f"{bad.height} rows of {role} lack {' or '.join(key)}, such as {bad.row(0)}. Filter them out, or fill them in.")
    twice = rows.filter(pl.struct(*key).is_duplicated())
    if twice.height:
        what = " with ".join(f"{name} {value!r}" for name, value in zip(key, twice.select(*key).row(0), strict=True))
        raise DataError(f"{role} name {what} more than once. Give one row of each (drop_duplicates).")
