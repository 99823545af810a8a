"""Quality of variants: call rate, frequencies and Hardy-Weinberg, and a filter on them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pydantic import Field

from pipeline.backend import to_host
from pipeline.columns import VOCABULARY, autosome_number
from pipeline.kernels.genotypes import alt_frequency, call_counts, call_rate, minor_allele_frequency
from pipeline.kernels.hardy_weinberg import hwe_exact
from pipeline.part import Part, Schema
from pipeline.stage import Context, Outcome, Share, Whole, need_array, need_columns
from pipeline.table import Table

QUALITY = ("call_rate", "alt_frequency", "minor_allele_frequency", "hwe_p_value")


class VariantQc(Whole, name="variant_qc", version=1):
    """Measure every variant and keep those of good quality.

    Adds call_rate, alt_frequency, minor_allele_frequency and hwe_p_value. A variant that nobody is called for has no frequency; any
    min_call_rate or min_maf above 0 drops it. Counts say how many fell at each filter, in the order call rate, frequency, Hardy-Weinberg.

    Example:
        {use: variant_qc, from: cohort, as: passed, min_call_rate: 0.98, min_maf: 0.01, min_hwe_p: 1e-6}
    """

    roles = ("genotypes",)

    min_call_rate: Share = Field(0.0, description="Least share of people with a call.")
    min_maf: float = Field(0.0, ge=0, le=0.5, description="Least frequency of the rarer allele.")
    min_hwe_p: Share = Field(0.0, description="Least exact Hardy-Weinberg p-value, two-sided, not mid-p.")
    all_chromosomes: bool = Field(
        False, description="Test Hardy-Weinberg beyond the autosomes too (its p-value assumes two copies in everyone)."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table with four more columns."""
        schema = schemas["genotypes"]
        axis = need_array(schema, "calls", "genotypes")
        need_columns(schema, ("chromosome",), "genotypes")
        kept = {name: dtype for name, dtype in schema.columns.items() if name not in QUALITY}
        return {"": Schema(pl.Schema({**kept, **{name: VOCABULARY[name].dtype for name in QUALITY}}), {"calls": axis})}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map over the parts."""
        genotypes = tables["genotypes"].named(context.name)
        return Outcome({"": genotypes.map_parts(self.measure, genotypes.axes["calls"].value(), writes=frozenset(QUALITY))})

    def measure(self, part: Part, samples: Part) -> Part:
        """The variants of one part that pass, with their measures."""
        counts = call_counts(part.arrays["calls"], samples.frame.height)
        measures = {
            "call_rate": call_rate(counts),
            "alt_frequency": alt_frequency(counts),
            "minor_allele_frequency": minor_allele_frequency(counts),
        }
        measured = part.frame.drop(QUALITY, strict=False).hstack([pl.Series(n, to_host(v)).fill_nan(None) for n, v in measures.items()])
        tested = part.frame.select(autosome_number().is_not_null() | self.all_chromosomes).to_series()
        p_value = pl.Series("hwe_p_value", to_host(hwe_exact(counts[:, 0], counts[:, 1], counts[:, 2]))).fill_nan(None)
        measured = measured.with_columns(pl.when(tested).then(p_value).alias("hwe_p_value"))
        fell = {
            "low_call_rate": pl.col("call_rate").fill_null(0) < self.min_call_rate,
            "low_maf": pl.col("minor_allele_frequency").fill_null(0) < self.min_maf,
            "out_of_hardy_weinberg": pl.col("hwe_p_value").fill_null(1) < self.min_hwe_p,
        }
        keep, lost = pl.repeat(True, measured.height, eager=True), {"variants_in": measured.height}
        for name, condition in fell.items():
            bad = measured.select(condition).to_series() & keep
            lost[name], keep = int(bad.sum()), keep & ~bad
        indexed = part.with_frame(measured.with_row_index("__row__").filter(keep))
        return Part(indexed.frame, indexed.arrays, {**lost, "variants_out": indexed.frame.height})
