"""Kinship of pairs of people, and a cohort without relatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, StageError
from pipeline.genome.columns import VOCABULARY, dtypes_of
from pipeline.genome.genotypes import need_genotypes
from pipeline.genome.people import refuse_haploid
from pipeline.kernels.kinship import kinship, pair_counts, pair_members, unrelated
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import autosomal_calls, keep_people
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

MOST_PEOPLE = 20_000  # the counts of so many people's pairs take 4 GB a part of the table
PAIRS = ("sample_id_1", "sample_id_2", "variants_shared", "hethet", "ibs0", "kinship")


class Relatedness(Whole, name="relatedness", version=2):
    """Find relatives by KING-robust kinship and drop one of each pair.

    Kinship is 0.5 for twins and the same person twice, 0.25 for parents and siblings, 0.125 for the second degree and 0 or less for
    strangers, whatever their ancestry; from the autosomes, as PLINK 2's --autosome --make-king-table. Gives the genotype table with the
    people whom --king-cutoff would keep, labelled in NAME.samples, and NAME.pairs: a row a pair with kinship of min_kinship or more.

    While pairs above max_kinship are left: where people are in one alone, the partner of the first of them goes; else the person in most,
    the first where several are. A person who is heterozygous nowhere or has no call is related to nobody, and stays; counts say how many
    pairs have no kinship for that. A haploid genome (inbred lines) is refused.

    Example:
        {use: relatedness, from: people_passed, as: unrelated, max_kinship: 0.0884}
    """

    roles = ("genotypes",)
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        "people_in": Count("people read"),
        "related_pairs": Count("pairs above the limit", aside=True),
        "pairs_without_kinship": Count("pairs without a kinship", aside=True),
        "related": Count("related to someone who is kept", always=True),
        "people_out": Count("people kept"),
    }

    max_kinship: float = Field(0.0884, ge=0, le=0.5, description="Largest kinship that two people who stay may have; 0.0884 is 2nd degree.")
    min_kinship: float | None = Field(
        None, ge=-1, le=0.5, description="Least kinship of a pair that NAME.pairs lists; half of max_kinship, a degree further, by default."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table, and the pairs."""
        schema = schemas["genotypes"]
        axis = need_genotypes(schema, ("chromosome",))
        if self._listed() > self.max_kinship:
            raise StageError(
                f"min_kinship {self.min_kinship} is above max_kinship {self.max_kinship}: pairs that cost a person would not be listed",
                key="min_kinship",
            )
        return {"": Schema(schema.columns, {"calls": axis}), "pairs": Schema(pl.Schema(dtypes_of(PAIRS)))}

    def _listed(self) -> float:
        return self.max_kinship / 2 if self.min_kinship is None else self.min_kinship

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernel."""
        pair_counts(np.zeros((1, 1), np.uint8), 2)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A sum over the parts, a judgement, then a map that packs the calls of those who stay."""
        genotypes = tables["genotypes"]
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(context.name)
        people, submit, name = genotypes.axes["calls"].value(), context.session.submit, context.name
        judged = submit(self.judge, genotypes.reduce(_counted, _added, people), people, stage=name)
        marked, pairs, counts = (submit(itemgetter(index), judged, stage=name) for index in range(3))
        axis = Table.of(context.session, name, [submit(_kept, marked, stage=name)])
        smaller = replace(genotypes.map_parts(keep_people, marked, writes=frozenset()), axes={"calls": axis})
        return Outcome({"": smaller, "pairs": Table.of(context.session, name, [pairs])}, counts=counts)

    def judge(self, counts: Any, people: Part) -> tuple[Part, Part, dict[str, int]]:
        """The people with `kept`, the pairs that are listed, and how many there were. Raises DataError where nobody shares a variant."""
        counts, values = to_host(counts), to_host(kinship(counts))
        if len(counts) and not counts[:, 0].any():
            raise DataError("no two people are called for the same variant on an autosome, so nobody's kinship is known")
        related = np.flatnonzero(values > self.max_kinship)
        kept = unrelated(people.frame.height, *pair_members(related))
        listed = np.flatnonzero(values >= self._listed())
        tally = {
            "people_in": len(kept),
            "related_pairs": len(related),
            "pairs_without_kinship": int(np.isnan(values).sum()),
            "related": int((~kept).sum()),
            "people_out": int(kept.sum()),
        }
        pairs = _pairs(people.frame["sample_id"], listed, counts[listed], values[listed])
        return Part(people.frame.with_columns(kept=pl.Series(kept))), Part(pairs), tally


def _counted(part: Part, people: Part) -> Any:
    refuse_haploid(
        people.frame, "KING's kinship, which counts heterozygous calls, has no meaning", "Compare lines by principal_components."
    )
    n = people.frame.height
    if n > MOST_PEOPLE:
        raise DataError(f"kinship of all pairs of {n:,} people would need {10 * n * n / 2**30:.0f} GiB a part; at most {MOST_PEOPLE:,}")
    return pair_counts(autosomal_calls(part, people.frame), n)


def _added(counts: list[Any]) -> Any:
    total = counts[0].copy() if len(counts) > 1 else counts[0]
    for more in counts[1:]:
        total += more
    return total


def _pairs(people: pl.Series, listed: NDArray[np.int64], counts: NDArray[np.int32], values: NDArray[np.float64]) -> pl.DataFrame:
    """A row a pair, in PLINK's order: by the later person, then the earlier."""
    earlier, later = pair_members(listed)
    columns: tuple[Any, ...] = (
        people.gather(later),
        people.gather(earlier),
        counts[:, 0],
        counts[:, 1] / counts[:, 0],
        counts[:, 4] / counts[:, 0],
        values,
    )
    return pl.DataFrame({name: pl.Series(name, column).cast(VOCABULARY[name].dtype) for name, column in zip(PAIRS, columns, strict=True)})


def _kept(marked: Part) -> Part:
    return Part(marked.frame.filter("kept").drop("kept"))
