"""What a scan does with predictions of a whole-genome regression: a model for each chromosome, of what all others leave of the traits.

Not a stage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from pipeline.genome.chromosomes import AUTOSOME_COUNT, HUMAN, autosomes_of, chromosome_key, chromosome_kind
from pipeline.genome.columns import need_known
from pipeline.genome.genotypes import people_of
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.mean_genotypes import MeanGenotypes
from pipeline.kernels.whole_columns import Columns
from pipeline.stage import Context, Outcome
from pipeline.stages.genomics._audited import Audit
from pipeline.stages.genomics._predictions import (
    NEEDED,
    PredictedTraits,
    Stretch,
    joined_stretches,
    needed_predictions,
    people_counts,
    stretches_of,
)
from pipeline.stages.genomics._scan import FittedTraits, Scan
from pipeline.stages.genomics._sheet import read_sheet, sheet_rows
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

_TESTED = ("autosome", "x", "par", "haploid")


class PredictedScan(Scan):
    """Base of the scans that read predictions where a job gives them."""

    roles = ("genotypes", "samples", "predictions")
    optional: ClassVar[frozenset[str]] = frozenset({"predictions"})

    def prepare_for(self, roles: Collection[str], *, lean: bool = False) -> None:
        """Load the compiled kernels: with predictions those that all such scans begin with."""
        if "predictions" not in roles:
            super().prepare_for(roles, lean=lean)
            return
        block, everyone = GenotypeBlock(np.zeros((1, 1), np.uint8), None, 4), np.full(1, 255, np.uint8)
        columns = Columns(np.ones((4, 1 + len(self.covariates) + len(self.traits))))  # few have kernels of their own
        MeanGenotypes.of(block, everyone, np.ones(4, bool)).products(columns)

    def build_predicted(self, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]]) -> Any:
        """The design of `covariates: float64[n, c]` and `traits: float64[n, t]`, NaN where missing, with `names` of both.

        Its `less` takes predictions `[t, n]` and gives the model of a chromosome's scan. Raises DataError where it cannot be made.
        """
        raise NotImplementedError(f"{type(self).__name__} has no build_predicted")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait."""
        if "predictions" in schemas:
            need_known(schemas["predictions"], NEEDED, "predictions")
        return super().outputs(schemas)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """As without predictions; these are brought together first, four bytes for each of their rows, and go to every worker."""
        if "predictions" not in tables:
            return super().run(tables, context)
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        people, rows = people_of(genotypes), sheet_rows(tables["samples"].named(name), self.needed, self.covariates)
        predictions = tables["predictions"].named(name).map(needed_predictions)
        stretches = predictions.reduce(stretches_of, joined_stretches, people, self.traits)
        fitted = submit(self.predicted, people, rows, Audit(context.seed, len(genotypes.blocks)), stretches, stage=name)
        return Outcome(self.tables(genotypes, fitted, context), counts=submit(people_counts, fitted, stage=name))

    def scan(self, part: Part, fitted: FittedTraits | PredictedTraits) -> Part:
        """The results of one part's variants."""
        return self.scan_predicted(part, fitted) if isinstance(fitted, PredictedTraits) else super().scan(part, fitted)

    def predicted(self, people: Part, rows: Part, audit: Audit, stretches: list[Stretch]) -> PredictedTraits:
        """The traits of all people and what was predicted of them."""
        autosomes = autosomes_of(people.frame) if AUTOSOME_COUNT in people.frame.columns else None
        sheet = read_sheet(people.frame, rows.frame, self.traits, self.covariates)
        return PredictedTraits.of(sheet, stretches, self.build_predicted, audit, autosomes)

    def scan_predicted(self, part: Part, fitted: PredictedTraits) -> Part:
        """The results of one part's variants, each with the traits less what all other chromosomes predict of them."""
        autosomes = fitted.autosomes or HUMAN
        keys = part.frame.select(kind=chromosome_kind(autosomes=autosomes), key=chromosome_key(autosomes=autosomes)).fill_null("")
        places = keys.with_row_index("row").group_by("kind", "key", maintain_order=True).agg("row")
        found = [self._chromosome(part, rows.to_numpy(), (kind, key), fitted) for kind, key, rows in zip(*places, strict=True)]
        return self.put_together(found or [self.without(part.frame.with_columns(row=0), (), "")], fitted.autosomes)

    def _chromosome(self, part: Part, places: Any, chromosome: tuple[str, str], fitted: PredictedTraits) -> Part:
        kind, key = chromosome
        variants, block = self.piece(part, places.astype("int64"), kind, len(fitted.sheet.traits))
        design = fitted.less(key) if kind in _TESTED else None
        if design is None:
            return self.without(variants, fitted.sheet.trait_names, f"no predictions leave out chromosome {key}")
        share = len(places) / max(1, part.frame.height)
        return self.results(variants, block, (fitted.audited(design), design, fitted.audit.of_share(share)))
