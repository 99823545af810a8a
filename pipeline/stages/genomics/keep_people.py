"""Some of a genotype table's people, by a table that names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import DataError
from pipeline.genome.columns import need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import keep_people
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class KeepPeople(Whole, name="keep_people", version=1):
    """Keep the people that a table names, or leave these out, before quality control, axes and all that follows.

    `people` has a row a person, sample_id: a table of another stage (a filter of the sheet, say), or a list of PLINK's (format
    plink_sheet). Who is named there and has no genotypes is counted. Variants stay as they are, also those that nobody carries then.

    Example:
        {use: keep_people, from: {genotypes: cohort, people: withdrawn}, as: consented, leave_out: true}
    """

    roles = ("genotypes", "people")
    counts: ClassVar[Mapping[str, Count]] = {
        "people_in": Count("people read"),
        "people_out": Count("people kept", always=True),
        "people_not_there": Count("people named without genotypes", always=True),
    }

    leave_out: bool = Field(False, description="Leave the people of the table out, and keep the others.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table as it is."""
        need_genotypes(schemas["genotypes"], (), dosages=True)
        need_known(schemas["people"], ("sample_id",), "people")
        return {"": schemas["genotypes"]}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The people once, then a map that takes their genotypes."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        named = tables["people"].named(name).map(_ids).value()
        judged = submit(self.judged, people_of(genotypes), named, stage=name)
        kept = Table.of(context.session, name, [submit(_kept, judged, stage=name)])
        smaller = replace(genotypes.map_parts(keep_people, judged, writes=frozenset()), axes=dict.fromkeys(genotypes.axes, kept))
        return Outcome({"": smaller}, counts=submit(_tally, judged, named, stage=name))

    def judged(self, people: Part, named: Part) -> Part:
        """Everyone, and whether they stay. Raises DataError where nobody does."""
        there = people.frame["sample_id"].is_in(named.frame["sample_id"].implode())
        kept = ~there if self.leave_out else there
        if not kept.any():
            first, other = people.frame["sample_id"].head(1), named.frame["sample_id"].head(1)
            what = "the table names all of them" if self.leave_out else "the table names none of them"
            raise DataError(
                f"nobody stays of {people.frame.height:,} people: {what} (the genotypes begin with {first.item()!r}, the table with "
                f"{other.item() if len(other) else 'nobody'!r}). Are the ids written alike?"
            )
        return Part(people.frame.with_columns(kept=kept))


def _ids(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select("sample_id").drop_nulls().unique()


def _kept(judged: Part) -> Part:
    return Part(judged.frame.filter("kept").drop("kept"))


def _tally(judged: Part, named: Part) -> dict[str, int]:
    there = named.frame["sample_id"].is_in(judged.frame["sample_id"].implode()).sum()
    return {
        "people_in": judged.frame.height,
        "people_out": int(judged.frame["kept"].sum()),
        "people_not_there": named.frame.height - int(there),
    }
