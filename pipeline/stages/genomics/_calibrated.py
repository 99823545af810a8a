"""What the scans that let null traits ride along share: they count what these pass, by the minor allele's frequency. Not a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.genome.chromosomes import HUMAN, chromosome_key, chromosome_kind
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.stage import Context
from pipeline.stages.genomics._calibration import TABLE, Tally
from pipeline.stages.genomics._predicted_scan import PredictedScan
from pipeline.stages.genomics._predictions import PredictedTraits
from pipeline.stages.genomics._scan import FittedTraits
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Fitted = FittedTraits | PredictedTraits


class NullResults(NamedTuple):
    """Results of some variants with traits, each before its null traits; on the host."""

    traits: list[str]
    statistic: NDArray[np.float64]
    """`[v, traits (1 + m)]`."""
    frequency: NDArray[np.float64]
    """`[v]`: of ALT."""
    freedom: NDArray[np.float64]
    """`[v]`: degrees of freedom of Student's t; infinite for the normal."""


class CalibratedScan(PredictedScan):
    """Base of the scans with `calibrate`."""

    calibrate: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Null traits beside each trait, whose results are counted in NAME.calibration; 100 is a good number.",
    )

    def with_nulls(self, model: Any, seed: int) -> Any:
        """A model of `build` with each trait before its null traits."""
        raise NotImplementedError(f"{type(self).__name__} has no with_nulls")

    def null_results(self, block: GenotypeBlock, model: Any, seed: int) -> Iterator[NullResults]:
        """Of a block with a model that has null traits, or with a chromosome's model of `build_predicted`, which gets them here."""
        raise NotImplementedError(f"{type(self).__name__} has no null_results")

    def calibration(self, tally: Tally, fitted: Fitted) -> Part:
        """The table of what was counted."""
        return Part(tally.frame(self.traits))

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait, and the calibration where it is asked for."""
        return super().outputs(schemas) | ({"calibration": Schema(pl.Schema(self.calibration_schema()))} if self.calibrate else {})

    def calibration_schema(self) -> dict[str, pl.DataType]:
        """The columns of the calibration."""
        return TABLE

    def tables(self, genotypes: Table, fitted: Any, context: Context) -> dict[str, Table]:
        """The rows, and the calibration; both come of one reading of the genotypes."""
        if not self.calibrate:
            return super().tables(genotypes, fitted, context)
        submit = context.session.submit
        ready = submit(self.ready, fitted, context.seed, stage=context.name)
        rows = genotypes.map_parts(self.rows_and_tally, fitted, ready, context.seed).hold()
        tally = rows.reduce(_tally_of, Tally.together)
        found = submit(self.calibration, tally, fitted, stage=context.name)
        return {"": rows, "calibration": Table.of(context.session, context.name, [found])}

    def rows_and_tally(self, part: Part, fitted: Fitted, ready: Fitted, seed: int) -> Part:
        """The results of one part's variants, and beside them what their null traits pass."""
        return replace(self.scan(part, fitted), beside=self.tallied(part, ready, seed))

    def ready(self, fitted: Fitted, seed: int) -> Fitted:
        """The models with their null traits, made once; where there are predictions each chromosome has its own."""
        if isinstance(fitted, PredictedTraits):
            return fitted
        return replace(fitted, models=[self.with_nulls(model, seed) for model in fitted.models])

    def tallied(self, part: Part, fitted: Fitted, seed: int) -> Tally:
        """What the null traits of a part's autosomal variants pass."""
        found, autosomes = Tally.empty(len(self.traits), self.calibrate), fitted.autosomes or HUMAN
        keys = part.frame.select(kind=chromosome_kind(autosomes=autosomes), key=chromosome_key(autosomes=autosomes)).with_row_index("row")
        sheet = fitted.sheet if isinstance(fitted, PredictedTraits) else fitted.sheets[0]
        for (key,), rows in keys.filter(kind="autosome").group_by("key", maintain_order=True):
            models = [fitted.less(str(key))] if isinstance(fitted, PredictedTraits) else fitted.models
            for model in models:
                if model is None:  # no predictions leave this chromosome out
                    continue
                _, block = self.piece(part, rows["row"].to_numpy().astype("int64"), "", len(sheet.traits))
                for results in self.null_results(block, model, seed):
                    places = [self.traits.index(name) for name in results.traits]
                    found.add(places, results.statistic, results.frequency, results.freedom)
        return found


def _tally_of(part: Part) -> Tally:
    return cast("Tally", part.beside)
