"""Quality of variants: call rate, frequencies, Hardy-Weinberg and imputation, and a filter on them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import StageError
from pipeline.genome.columns import dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex, counted_people, refuse_haploid
from pipeline.kernels.dosage_quality import dosage_quality
from pipeline.kernels.variant_quality import People, variant_quality
from pipeline.stage import Context, Outcome, Share, Whole
from pipeline.stages.genomics._genotypes import genotypes_in, special_rows
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table

QUALITY = ("call_rate", "alt_frequency", "minor_allele_frequency", "hwe_p_value")
IMPUTED = (*QUALITY, "mach_r2")
_SOME = 20  # variants out of equilibrium that are worth a warning


class VariantQc(Whole, name="variant_qc", version=2):
    """Measure every variant and keep those of good quality.

    Adds call_rate, alt_frequency, minor_allele_frequency and hwe_p_value. A variant that nobody is called for has no frequency; any
    min_call_rate or min_maf above 0 drops it. Counts say how many fell at each filter: call rate, frequency, Hardy-Weinberg, R2, in turn.

    Sex chromosomes are counted as PLINK 2 does. Where the people have a column sex (1 male, 2 female), a man has one allele on X, half of
    each if he is called heterozygous there, and people of unknown sex two; X is tested by the women and the men together (Graffelman &
    Weir 2016); on Y only men count. Without that column X and Y are counted like autosomes and not tested. XY and PAR are autosomal, MT
    and other names are not tested. In a haploid genome (inbred lines) nothing is, and min_hwe_p is refused. Frequencies and tests are of
    founders, call rates of everyone. The same variant twice is two variants: drop_duplicates takes one away.

    Of dosages (imputed data) call rates and tests are of the calls nearest to them, missing where one is further than 0.1 from 0, 1 and 2.
    Frequencies are of the dosages, and mach_r2, MaCH's R2 of everyone, is added; where it is null min_mach_r2 lets a variant pass.

    Example:
        {use: variant_qc, from: cohort, as: passed, min_call_rate: 0.98, min_maf: 0.01, min_hwe_p: 1e-6}
    """

    roles = ("genotypes",)
    counts: ClassVar[Mapping[str, Count]] = {
        "variants_in": Count("variants read"),
        "low_call_rate": Count("call rate too low", always=True),
        "low_maf": Count("allele too rare", always=True),
        "out_of_hardy_weinberg": Count("out of Hardy-Weinberg equilibrium", always=True),
        "low_mach_r2": Count("imputed too badly"),
        "variants_out": Count("variants kept"),
    }

    min_call_rate: Share = Field(0.0, description="Least share of people with a call.")
    min_maf: float = Field(0.0, ge=0, le=0.5, description="Least frequency of the rarer allele.")
    min_hwe_p: Share = Field(0.0, description="Least Hardy-Weinberg p-value, two-sided.")
    min_mach_r2: Share = Field(0.0, description="Least imputation quality, MaCH's R2, of dosages.")
    hwe: Literal["exact", "midp"] = Field(
        "exact", description="The exact test, or its mid-p, which counts outcomes as likely as the observed one half."
    )
    founders_only: bool = Field(
        True,
        description="Frequencies and tests without those who have a parent named (father_id, mother_id), as PLINK; false: of everyone.",
    )
    all_chromosomes: bool = Field(
        False, description="Test Hardy-Weinberg on the chromosomes left out too (its p-value assumes two copies in everyone)."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table with four more columns, or five."""
        schema = schemas["genotypes"]
        axis = need_genotypes(schema, ("chromosome",), dosages=True)
        check_sex(axis)
        names = _measured(schema.arrays)
        if self.min_mach_r2 > 0 and names == QUALITY:
            raise StageError(
                "min_mach_r2 is of dosages, and the genotypes are calls. Read them with field: dosages, or leave min_mach_r2 out.",
                key="min_mach_r2",
            )
        kept = {name: dtype for name, dtype in schema.columns.items() if name not in names}
        return {"": Schema(pl.Schema({**kept, **dtypes_of(names)}), dict.fromkeys(schema.arrays, axis))}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        variant_quality(np.zeros((1, 1), np.uint8), People(1), {})

    def noticed(self, counts: Mapping[str, int]) -> Sequence[str]:
        """Where Hardy-Weinberg drops most variants: nearly always that is what the people are, and not how they were called."""
        tested = counts.get("variants_in", 0) - counts.get("low_call_rate", 0) - counts.get("low_maf", 0)
        fell = counts.get("out_of_hardy_weinberg", 0)
        if fell < _SOME or fell <= tested / 2:
            return ()
        text = f"min_hwe_p drops {fell:,} of {tested:,} variants, as it does where people are inbred, or of several populations"
        return (f"{text}. Leave it out, test each population by itself, or read inbred lines with `chromosomes: -N` (docs/genomics.md).",)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map over the parts."""
        genotypes = tables["genotypes"].named(context.name)
        return Outcome({"": genotypes.map_parts(self.measure, people_of(genotypes), writes=frozenset(_measured(genotypes.axes)))})

    def measure(self, part: Part, samples: Part) -> Part:
        """The variants of one part that pass, with their measures."""
        people = counted_people(samples.frame, self.founders_only)
        if self.min_hwe_p > 0 and not self.all_chromosomes:
            refuse_haploid(samples.frame, "the Hardy-Weinberg test has no meaning", "Leave min_hwe_p out.", key="min_hwe_p")
        quality = self._quality(part, people, special_rows(part.frame, samples.frame))
        fell = {
            "low_call_rate": (quality["call_rate"], self.min_call_rate),
            "low_maf": (quality["minor_allele_frequency"], self.min_maf),
            "out_of_hardy_weinberg": (np.nan_to_num(quality["hwe_p_value"], nan=1.0), self.min_hwe_p),
        }
        if "mach_r2" in quality:
            fell["low_mach_r2"] = np.nan_to_num(quality["mach_r2"], nan=1.0), self.min_mach_r2
        keep, lost = np.ones(part.frame.height, np.bool_), {"variants_in": part.frame.height}
        for name, (values, least) in fell.items():
            bad = keep & (np.nan_to_num(values) < least)
            lost[name], keep = int(bad.sum()), keep & ~bad
        measured = part.frame.drop(list(quality), strict=False).hstack(
            [pl.Series(n, values, nan_to_null=True) for n, values in quality.items()]
        )
        counts = {**lost, "variants_out": int(keep.sum())}
        if keep.all():
            return Part(measured, part.arrays, counts)
        rows = np.flatnonzero(keep)
        return Part(measured.filter(keep), {name: take(array, rows) for name, array in part.arrays.items()}, counts)

    def _quality(self, part: Part, people: People, special: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[Any]]:
        """The measures by column, on the host."""
        measure = dosage_quality if "alt_dosages" in part.arrays else variant_quality
        quality = measure(genotypes_in(part), people, special, midp=self.hwe == "midp", everywhere=self.all_chromosomes)
        return {name: to_host(getattr(quality, name)) for name in _measured(part.arrays)}


def _measured(arrays: Container[str]) -> tuple[str, ...]:
    """The columns of measures, by the arrays of a genotype table."""
    return IMPUTED if "alt_dosages" in arrays else QUALITY
