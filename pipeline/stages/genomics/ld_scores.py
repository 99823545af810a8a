"""LD scores of variants: ldsc's --l2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError
from pipeline.genome.chromosomes import autosomes_of, on_autosome
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex
from pipeline.kernels.genotypes import alt_frequency, call_counts
from pipeline.kernels.ld_scores import ld_score_sums
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._neighbours import Ahead, Reach, Stretch, aheads, counts_of, neighbours
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, added_counts
from pipeline.tables.table import Table

Scores = NDArray[np.float64]

_MAPPED = 10_000_000
"""Base pairs from a chromosome's begin by which a genetic map has left 0."""


class LdScores(Whole, name="ld_scores", version=1):
    """Give each variant on an autosome its LD score: the sum of r^2 with the variants around it, each less what chance gives it.

    ldsc's --l2 with --ld-wind-kb or --ld-wind-cm: r^2 - (1 - r^2) / (n - 2) of calls, missing ones at the variant's mean, of founders, over
    the variants within `kb` (or `cm`) on either side and itself. A variant that does not vary has none, and counts for none. Columns:
    those that name the variant, minor_allele_frequency, ld_score. Variants must be sorted by position within a chromosome. Of
    dosages the calls within 0.1 count. Some hundreds of people are needed at least, of the ancestry of the scan.

    Example:
        {use: ld_scores, from: reference, as: scores, kb: 1000}
    """

    roles = ("genotypes",)
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        "variants": Count("variants"),
        "not_autosomal": Count("not on an autosome"),
        "not_varying": Count("without variation"),
    }

    kb: float | None = Field(None, gt=0, le=1_000_000, description="Thousands of base pairs on either side; give this or cm.")
    cm: float | None = Field(None, gt=0, le=1_000, description="Centimorgans on either side, by the column centimorgan; ldsc advises 1.")

    @model_validator(mode="after")
    def _one_reach(self) -> Self:
        if (self.kb is None) == (self.cm is None):
            raise ValueError("give either kb or cm")
        return self

    @property
    def reach(self) -> Reach:
        """How far pairs of variants are apart at most."""
        return Reach(self.cm, "centimorgan") if self.cm is not None else Reach(int((self.kb or 0) * 1000))

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row a variant on an autosome."""
        check_sex(need_genotypes(schemas["genotypes"], (*VARIANT, self.reach.column), dosages=True))
        return {"": Schema(pl.Schema(dtypes_of((*VARIANT, "minor_allele_frequency", "ld_score"))))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A task a part, with the variants of the next parts that it reaches; what these have of it is added to them."""
        genotypes, session, name = tables["genotypes"].named(context.name), context.session, context.name
        people, parts = people_of(genotypes), genotypes.futures()
        carried: Any = np.empty(0)
        scored = []
        for part, later in zip(parts, aheads(session, parts, self.reach, name), strict=True):
            sums = session.submit(self.sums, part, later, people, stage=name)
            scored.append(session.submit(_scored, part, people, sums, carried, stage=name))
            carried = session.submit(_carried, sums, carried, stage=name)
        table = Table.of(session, name, scored)
        return Outcome({"": table}, counts=table.reduce(counts_of, added_counts))

    def sums(self, part: Part, later: Ahead | None, people: Part) -> tuple[Scores, Scores, Scores]:
        """Of the pairs whose first variant is in this part: sums of its variants, and of those ahead of it; and its frequencies.

        Raises DataError where variants are not in order, or there are fewer than three founders.
        """
        sums, frequency, spilt = np.full(part.frame.height, np.nan), np.full(part.frame.height, np.nan), np.empty(0)
        autosomal = _autosomal(part, people)
        for stretch in neighbours(part, later, people.frame, self.reach):
            if not autosomal[stretch.low]:
                continue
            if stretch.samples.count < 3:
                raise DataError(f"LD scores are of three founders at least, and there are {stretch.samples.count}")
            self._need_map(stretch)
            found = to_host(ld_score_sums(stretch.packed, stretch.ends, stretch.samples.count))
            own = len(stretch.ends)
            rows = slice(stretch.low, stretch.low + own)
            sums[rows], spilt = found[:own], np.nan_to_num(found[own:])
            frequency[rows] = to_host(alt_frequency(call_counts(stretch.packed[:own], stretch.samples.count)))
        return sums, spilt, frequency

    def _need_map(self, stretch: Stretch) -> None:
        """Raise DataError where variants far down a chromosome are at 0 centimorgans."""
        last = stretch.variants.row(-1, named=True)
        if self.cm is not None and last["centimorgan"] == 0 and last["base_pair_location"] > _MAPPED:
            where = f"{last['chromosome']}:{last['base_pair_location']}"
            raise DataError(f"centimorgan is 0 up to {where}: the genotypes have no genetic map. Give them one, or a reach in kb.")


def _autosomal(part: Part, people: Part) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = part.frame.select(on_autosome(autosomes=autosomes_of(people.frame))).to_series().to_numpy()
    return found


def _scored(part: Part, people: Part, sums: tuple[Scores, Scores, Scores], carried: Scores) -> Part:
    """The variants on autosomes with their scores."""
    own, _, frequency = sums
    score = own.copy()
    reached = min(len(carried), len(score))
    score[:reached] += carried[:reached]
    autosomal = _autosomal(part, people)
    numbers = {"minor_allele_frequency": np.minimum(frequency, 1 - frequency), "ld_score": score}
    rows = part.frame.select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(VARIANT).items())
    rows = rows.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in numbers.items()).filter(autosomal)
    counts = {"variants": rows.height, "not_autosomal": int((~autosomal).sum()), "not_varying": rows["ld_score"].null_count()}
    return Part(rows, counts=counts)


def _carried(sums: tuple[Scores, Scores, Scores], carried: Scores) -> Scores:
    """What the variants behind a part have of pairs with those before, in order."""
    own, spilt, _ = sums
    left = carried[len(own) :]
    total = np.zeros(max(len(left), len(spilt)))
    total[: len(left)] += left
    total[: len(spilt)] += spilt
    return total
