"""Quality of people: call rate and heterozygosity, and a filter on the call rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend import array_module, to_host
from pipeline.columns import VOCABULARY
from pipeline.errors import DataError
from pipeline.kernels.genotypes import call_rate, sample_counts, take_samples
from pipeline.part import Part, Schema
from pipeline.stage import Context, Outcome, Share, Whole, need_array
from pipeline.table import Table

QUALITY = ("call_rate", "heterozygosity")


class SampleQc(Whole, name="sample_qc", version=1):
    """Measure every person over all variants and keep those with enough calls.

    The people of the new table, NAME.samples, carry call_rate and heterozygosity; NAME.measured has these for everyone, kept or not, and
    says who was kept. Variants stay as they are.

    Example:
        {use: sample_qc, from: cohort, as: people_passed, min_call_rate: 0.97}
    """

    roles = ("genotypes",)

    min_call_rate: Share = Field(0.0, description="Least share of variants with a call.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table with two more columns on its people."""
        schema = schemas["genotypes"]
        axis = need_array(schema, "calls", "genotypes")
        people = {name: dtype for name, dtype in axis.items() if name not in QUALITY} | {name: VOCABULARY[name].dtype for name in QUALITY}
        return {"": Schema(schema.columns, {"calls": pl.Schema(people)}), "measured": Schema(pl.Schema({**people, "kept": pl.Boolean()}))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A reduction for the counts, then a map that packs the calls of those who stay."""
        genotypes = tables["genotypes"]
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(context.name)
        people, submit = genotypes.axes["calls"].value(), context.session.submit
        counts = genotypes.reduce(_counted, _added, people)
        measured = submit(self.measure, counts, people, stage=context.name)
        kept = submit(_kept, context.name, measured, stage=context.name)
        axis = Table.of(context.session, context.name, [kept])
        smaller = replace(genotypes.map_parts(_taken, measured, writes=frozenset()), axes={"calls": axis})
        return Outcome(
            {"": smaller, "measured": Table.of(context.session, context.name, [measured])},
            counts=submit(_tally, measured, stage=context.name),
        )

    def measure(self, counts: Any, people: Part) -> Part:
        """Everyone's measures, and whether they stay."""
        called = counts[:, :3].sum(axis=1)
        heterozygosity = np.where(called > 0, counts[:, 1] / np.maximum(called, 1), np.nan)
        measures = [pl.Series("call_rate", call_rate(counts)).fill_nan(None), pl.Series("heterozygosity", heterozygosity).fill_nan(None)]
        frame = people.frame.drop(QUALITY, strict=False).hstack(measures)
        return Part(frame.with_columns((pl.col("call_rate").fill_null(0) >= self.min_call_rate).alias("kept")))


def _counted(part: Part, people: Part) -> Any:
    return to_host(sample_counts(part.arrays["calls"], people.frame.height))


def _added(counts: list[Any]) -> Any:
    return sum(counts[1:], start=counts[0])


def _kept(stage: str, measured: Part) -> Part:
    kept = measured.frame.filter("kept").drop("kept")
    if kept.height == 0:
        best = max(rate or 0.0 for rate in measured.frame["call_rate"].to_list())
        raise DataError(f"stage {stage}: no person has the call rate asked for; the best has {best}. Lower min_call_rate.")
    return Part(kept)


def _taken(part: Part, measured: Part) -> Part:
    calls = part.arrays["calls"]
    index = array_module(calls).asarray(measured.frame["kept"].arg_true().to_numpy())
    return part.replaced(calls=calls if len(index) == measured.frame.height else take_samples(calls, measured.frame.height, index))


def _tally(measured: Part) -> dict[str, int]:
    kept = int(measured.frame["kept"].sum())
    return {"people_in": measured.frame.height, "low_call_rate": measured.frame.height - kept, "people_out": kept}
