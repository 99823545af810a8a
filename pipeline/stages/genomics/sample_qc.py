"""Quality of people: call rate, heterozygosity and inbreeding, and a filter on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError
from pipeline.genome.columns import dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex, counted_people, refuse_haploid
from pipeline.kernels.dosages import alt_frequencies, are_dosages, hard_calls
from pipeline.kernels.genotypes import Array, missing_sums, sample_counts
from pipeline.kernels.variant_quality import MALE, People
from pipeline.stage import Context, Outcome, Share, Whole
from pipeline.stages.genomics._genotypes import genotypes_in, keep_people, special_rows
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

QUALITY = ("call_rate", "heterozygosity", "inbreeding")
_GRID = 2.0**32  # expected heterozygotes are multiples of its inverse, so that sums over millions of variants are exact in any order


class SampleQc(Whole, name="sample_qc", version=2):
    """Measure every person over all variants and keep those with enough calls.

    The people of the new table, NAME.samples, carry call_rate, heterozygosity and inbreeding; NAME.measured has these for everyone, kept or
    not, and says who was kept. Variants stay as they are.

    call_rate is over all variants, but on Y, where the people have a column sex, over men alone. heterozygosity and inbreeding are of the
    autosomes and the pseudoautosomal regions; inbreeding is PLINK's F, 1 - heterozygous calls / those expected, 2f(1 - f) summed over the
    person's calls, with frequencies f of the founders. Both are null for a person without calls there, whom max_abs_inbreeding drops; in a
    haploid genome (inbred lines) they are null, and max_abs_inbreeding is refused. Of dosages all is of the calls nearest to them, none
    where one is further than 0.1 from 0, 1 and 2, but the frequencies f are their own.

    Example:
        {use: sample_qc, from: cohort, as: people_passed, min_call_rate: 0.97}
    """

    roles = ("genotypes",)
    counts: ClassVar[Mapping[str, Count]] = {
        "people_in": Count("people read"),
        "low_call_rate": Count("call rate too low", always=True),
        "extreme_inbreeding": Count("inbreeding beyond its limit"),
        "people_out": Count("people kept"),
    }

    min_call_rate: Share = Field(0.0, description="Least share of variants with a call.")
    max_abs_inbreeding: float | None = Field(None, ge=0, description="Largest |inbreeding|; any where it is not given.")
    founders_only: bool = Field(
        True, description="Expected heterozygotes from those with no parent named (father_id, mother_id), as PLINK; false: from everyone."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table with three more columns on its people."""
        schema = schemas["genotypes"]
        axis = need_genotypes(schema, ("chromosome",), dosages=True)
        check_sex(axis)
        people = {name: dtype for name, dtype in axis.items() if name not in QUALITY} | dtypes_of(QUALITY)
        return {
            "": Schema(schema.columns, dict.fromkeys(schema.arrays, pl.Schema(people))),
            "measured": Schema(pl.Schema({**people, "kept": pl.Boolean()})),
        }

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        _sums(np.zeros((1, 1), np.uint8), People(1), {})

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A reduction for the counts, then a map that packs the calls of those who stay."""
        genotypes = tables["genotypes"]
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(context.name)
        people, submit = people_of(genotypes), context.session.submit
        sums = genotypes.reduce(self.summed, _added, people)
        measured = submit(self.measure, sums, people, stage=context.name)
        kept = submit(self.kept, measured, stage=context.name)
        axis = Table.of(context.session, context.name, [kept])
        smaller = replace(genotypes.map_parts(keep_people, measured, writes=frozenset()), axes=dict.fromkeys(genotypes.axes, axis))
        return Outcome(
            {"": smaller, "measured": Table.of(context.session, context.name, [measured])},
            counts=submit(self.tally, measured, stage=context.name),
        )

    def summed(self, part: Part, people: Part) -> NDArray[np.float64]:
        """What one part's variants add to everyone's sums."""
        who = counted_people(people.frame, self.founders_only)
        return np.asarray(to_host(_sums(genotypes_in(part), who, special_rows(part.frame, people.frame))))

    def measure(self, sums: NDArray[np.float64], people: Part) -> Part:
        """Everyone's measures, and whether they stay."""
        called, possible, het, diploid, expected = sums
        if self.max_abs_inbreeding is not None:
            refuse_haploid(people.frame, "nobody has an inbreeding", "Leave max_abs_inbreeding out.", key="max_abs_inbreeding")
        values = (_share(called, possible), _share(het, diploid), 1 - _share(het, expected))
        measures = [pl.Series(name, value, nan_to_null=True) for name, value in zip(QUALITY, values, strict=True)]
        frame = people.frame.drop(QUALITY, strict=False).hstack(measures)
        return Part(frame.with_columns(kept=self._called() & self._outbred()))

    def _called(self) -> pl.Expr:
        return pl.col("call_rate").fill_null(0) >= self.min_call_rate

    def _outbred(self) -> pl.Expr:
        if self.max_abs_inbreeding is None:
            return pl.lit(True)
        return pl.col("inbreeding").abs().fill_null(float("inf")) <= self.max_abs_inbreeding

    def kept(self, measured: Part) -> Part:
        """The people who stay, with their measures; DataError where there are none."""
        kept = measured.frame.filter("kept").drop("kept")
        if kept.height:
            return Part(kept)
        if not measured.frame.select(self._called().any()).item():
            best = max((rate or 0.0 for rate in measured.frame["call_rate"].to_list()), default=0.0)
            raise DataError(f"no person has the call rate asked for; the best has {best}. Lower min_call_rate.")
        least = measured.frame.filter(self._called()).select(pl.col("inbreeding").abs().min()).item()
        raise DataError(f"the least |inbreeding| of those with enough calls is {least}. Raise max_abs_inbreeding.")

    def tally(self, measured: Part) -> dict[str, int]:
        """How many came, fell at each filter in order, and stay."""
        frame, called = measured.frame, measured.frame.select(self._called().sum()).item()
        counts = {"people_in": frame.height, "low_call_rate": frame.height - called}
        kept = int(frame["kept"].sum())
        return {**counts, **({} if self.max_abs_inbreeding is None else {"extreme_inbreeding": called - kept}), "people_out": kept}


def _sums(genotypes: Array, people: People, special: Mapping[str, NDArray[np.int64]]) -> Array:
    """Sums of a block of variants for every person, `float64[5, n]`; blocks add up with +.

    Calls; variants where there could be one; and where everyone has two alleles: heterozygous calls, calls, heterozygous calls expected.
    """
    xp, packed = array_module(genotypes), hard_calls(genotypes) if are_dosages(genotypes) else genotypes
    counts, frequency = sample_counts(packed, people.n), alt_frequencies(genotypes, people.n, people.founders)
    rows = {name: xp.asarray(places) for name, places in special.items()}
    called, possible = len(packed) - counts[:, 3], xp.full(people.n, len(packed))
    het, diploid, expected = counts[:, 1], called, xp.round(xp.nan_to_num(2 * frequency * (1 - frequency)) * _GRID) / _GRID
    for places in rows.values():
        some = sample_counts(packed[places], people.n)
        het, diploid = het - some[:, 1], diploid - some[:, :3].sum(axis=1)
        expected[places] = 0
    if people.sex is not None and "y" in rows:
        others = xp.asarray(people.sex != MALE)
        on_y = sample_counts(packed[rows["y"]], people.n)
        called, possible = called - others * on_y[:, :3].sum(axis=1), possible - others * len(rows["y"])
    return xp.stack([called, possible, het, diploid, expected.sum() - missing_sums(packed, people.n, expected)]).astype(xp.float64)


def _added(sums: list[Any]) -> Any:
    return sum(sums[1:], start=sums[0])


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)
