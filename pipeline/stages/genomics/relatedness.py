"""Kinship of pairs of people, and a cohort without relatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.genome.columns import VOCABULARY, dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import refuse_haploid
from pipeline.kernels.kinship import Bits, Near, in_order, joined, near, sample_bits, unrelated
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import keep_people
from pipeline.stages.genomics._tiles import calls_of, pair_work, people_blocks
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

RATE = 2e11  # pairs times variants a second of a core: 48 seconds for 20,000 people and 50,000 variants
AFTER = 1e-8  # seconds a pair, however few variants there are: half of the time of 100,000 people and 2,000 variants
MOST_LISTED, PAIR_BYTES = 100_000_000, 240  # 60 of each pair, four times while the tiles' pairs are put in order
PAIRS = ("sample_id_1", "sample_id_2", "variants_shared", "hethet", "ibs0", "kinship")


class Asked(NamedTuple):
    """The least kinship that is listed, people in all, and how many pairs may be listed."""

    least: float
    people: int
    most: int


class Relatedness(Whole, name="relatedness", version=2):
    """Find relatives by KING-robust kinship and drop one of each pair.

    Kinship is 0.5 for twins and the same person twice, 0.25 for parents and siblings, 0.125 for the second degree and 0 or less for
    strangers, whatever their ancestry; from the autosomes, as PLINK 2's --autosome --make-king-table. Gives the genotype table with the
    people whom --king-cutoff would keep, labelled in NAME.samples, and NAME.pairs: a row a pair with kinship of min_kinship or more.

    While pairs above max_kinship are left: where people are in one alone, the partner of the first of them goes; else the person in most,
    the first where several are. A person who is heterozygous nowhere or has no call is related to nobody, and stays; counts say how many
    pairs have no kinship for that. A haploid genome (inbred lines) is refused. Of dosages kinship is of the calls within 0.1 of them.

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
        axis = need_genotypes(schema, ("chromosome",), dosages=True)
        if self._listed() > self.max_kinship:
            raise StageError(
                f"min_kinship {self.min_kinship} is above max_kinship {self.max_kinship}: pairs that cost a person would not be listed",
                key="min_kinship",
            )
        return {"": Schema(schema.columns, dict.fromkeys(schema.arrays, axis)), "pairs": Schema(pl.Schema(dtypes_of(PAIRS)))}

    def of_pairs(self, rows: int, labels: int) -> str:
        """How many pairs of people there are, and how long they take."""
        return pair_work(labels, rows, RATE, AFTER)

    def _listed(self) -> float:
        return self.max_kinship / 2 if self.min_kinship is None else self.min_kinship

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        near(sample_bits(np.zeros((1, 1), np.uint8), 2), None, 0.0)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Tiles of pairs of people, a judgement, then a map that packs the calls of those who stay. Waits for the number of people."""
        genotypes = tables["genotypes"]
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(context.name)
        people, submit, name = people_of(genotypes), context.session.submit, context.name
        number = context.session.value(submit(_number, people, stage=name))
        blocks = people_blocks(number, large=context.session.backend == "gpu")
        budget = context.session.budget
        asked = Asked(self._listed(), number, min(MOST_LISTED, budget.bytes // PAIR_BYTES) if budget else MOST_LISTED)
        parts = genotypes.futures()
        bits = [submit(_joined, *(submit(_bits, part, people, block, stage=name) for part in parts), stage=name) for block in blocks]
        tiles = [
            submit(_near, bits[i], bits[j] if j < i else None, (blocks[i].start, blocks[j].start), asked, stage=name)
            for i in range(len(blocks))
            for j in range(i + 1)
        ]
        judged = submit(self.judge, people, *tiles, stage=name)
        marked, pairs, counts = (submit(itemgetter(index), judged, stage=name) for index in range(3))
        axis = Table.of(context.session, name, [submit(_kept, marked, stage=name)])
        smaller = replace(genotypes.map_parts(keep_people, marked, writes=frozenset()), axes=dict.fromkeys(genotypes.axes, axis))
        return Outcome({"": smaller, "pairs": Table.of(context.session, name, [pairs])}, counts=counts)

    def judge(self, people: Part, *tiles: Near) -> tuple[Part, Part, dict[str, int]]:
        """The people with `kept`, the pairs that are listed, and how many there were. Raises DataError where nobody shares a variant."""
        n = people.frame.height
        if n > 1 and sum(tile.apart for tile in tiles) == n * (n - 1) // 2:
            raise DataError("no two people are called for the same variant on an autosome, so nobody's kinship is known")
        listed = in_order(tiles)
        related = listed.kinship > self.max_kinship
        kept = unrelated(n, listed.earlier[related], listed.later[related])
        tally = {
            "people_in": n,
            "related_pairs": int(related.sum()),
            "pairs_without_kinship": listed.unknown,
            "related": int((~kept).sum()),
            "people_out": int(kept.sum()),
        }
        return Part(people.frame.with_columns(kept=pl.Series(kept))), Part(_pairs(people.frame["sample_id"], listed)), tally


def _number(people: Part) -> int:
    refuse_haploid(
        people.frame, "KING's kinship, which counts heterozygous calls, has no meaning", "Compare lines by principal_components."
    )
    return people.frame.height


def _bits(part: Part, people: Part, block: slice) -> Bits:
    return sample_bits(calls_of(part, people, block), block.stop - block.start)


def _joined(*pieces: Bits) -> Bits:
    return joined(pieces)


def _near(later: Bits, earlier: Bits | None, starts: tuple[int, int], asked: Asked) -> Near:
    """The near pairs of a tile, by their people's places among all. Raises DataError where all tiles would list too many.

    Families stand together, so tiles of some people among themselves do not say how many pairs others have.
    """
    least, people, most = asked
    found = near(later, earlier, least)
    if earlier is not None:
        seen = later.people * earlier.people
        expected = len(found.later) * (people * (people - 1) // 2) // seen
        if expected > most:
            memory = "" if most == MOST_LISTED else " in the memory that tables have"
            raise DataError(
                f"some {expected:,} pairs have a kinship of {least} or more, as {seen:,} of them tell, and at most {most:,} are listed"
                f"{memory}. Kinship from few variants is noise: use more of them, or a greater min_kinship."
            )
    return found._replace(later=found.later + starts[0], earlier=found.earlier + starts[1])


def _pairs(people: pl.Series, listed: Near) -> pl.DataFrame:
    """A row a pair, in PLINK's order: by the later person, then the earlier."""
    counts = listed.counts
    columns: tuple[Any, ...] = (
        people.gather(listed.later),
        people.gather(listed.earlier),
        counts[:, 0],
        counts[:, 1] / counts[:, 0],
        counts[:, 4] / counts[:, 0],
        listed.kinship,
    )
    return pl.DataFrame({name: pl.Series(name, column).cast(VOCABULARY[name].dtype) for name, column in zip(PAIRS, columns, strict=True)})


def _kept(marked: Part) -> Part:
    return Part(marked.frame.filter("kept").drop("kept"))
