"""Consequences of variants for transcripts: what they do to proteins and splice sites, and of each gene the worst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import DataError
from pipeline.genome.chromosomes import HUMAN, autosomes_of
from pipeline.genome.columns import VARIANT, dtypes_of, need_known
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._consequences.found import consequences
from pipeline.stages.genomics._consequences.gene_models import NEEDED as GENES
from pipeline.stages.genomics._consequences.gene_models import GeneModels, gene_models
from pipeline.stages.genomics._consequences.reference import NEEDED as REFERENCE
from pipeline.stages.genomics._consequences.reference import cut, with_coding
from pipeline.stages.genomics._consequences.spelled import COLUMNS, OF_GENES, names_of, spelled, worst
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class VariantConsequences(Whole, name="variant_consequences", version=1):
    """Say what each variant does to each transcript that it lies in, by Sequence Ontology: missense_variant, stop_gained and the like.

    Three tables: `variants` (a genotype table, or rows with chromosome, base_pair_location, variant_id, ref, alt), `genes` (a GTF read with
    `features: [exon, CDS, stop_codon]`) and `reference` (a FASTA). Gives a row for each variant and transcript: consequence is the most
    severe term, consequences are all of them with &; of changes inside a coding part also the first amino acid's number and the amino
    acids (R/W; X where the frame shifts). A variant in no transcript has one row, intergenic_variant. NAME.genes has the worst of each
    variant and gene, as variant_sets reads annotations: variant_id, set_id (the gene), annotation.

    Variants whose alleles are no bases (<DEL>, *) are left out and counted. One whose REF is not what the reference has stops the run,
    unless `mismatches: keep`. Codons are read by the standard code, on MT by that of vertebrate mitochondria. docs/genomics.md says how
    splice sites and introns are counted, and what was compared with bcftools csq.

    Example:
        {use: variant_consequences, from: {variants: passed, genes: genes, reference: genome}, as: csq}
    """

    roles = ("variants", "genes", "reference")
    counts: ClassVar[Mapping[str, Count]] = {
        "not_bases": Count("variants without place, or with alleles that are no bases", aside=True),
        "mismatches": Count("variants whose REF is not the reference's", aside=True),
        "unknown_sequence": Count("coding changes where the reference lacks the transcript", aside=True),
    }

    set_by: Literal["gene_id", "gene_name"] = Field(
        "gene_id", description="What set_id of NAME.genes is; a gene without a name goes by its id."
    )
    mismatches: Literal["refuse", "keep"] = Field(
        "refuse",
        description="Variants whose REF is not what the reference has: `keep` counts them, and says coding_sequence_variant of them.",
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant and transcript, and a row a variant and gene."""
        for role, columns in (("variants", VARIANT), ("genes", GENES), ("reference", REFERENCE)):
            need_known(schemas[role], columns, role)
        return {"": Schema(pl.Schema(dtypes_of(COLUMNS))), "genes": Schema(pl.Schema(dtypes_of(OF_GENES)))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Transcripts and their coding sequences once, as small values; then each part of the variants by itself."""
        submit, axes = context.session.submit, tables["variants"].axes.values()
        people = next((axis.value() for axis in axes), None)
        genes = tables["genes"].named(context.name).map(_picked).value()
        models = submit(_models, genes, people, stage=context.name)
        found = tables["reference"].named(context.name).map_parts(_cut, models, people).value()
        models = submit(with_coding, models, found, stage=context.name)
        names = submit(names_of, models, self.set_by, stage=context.name)
        variants = replace(tables["variants"].named(context.name).map_parts(_variants, people), axes={}).hold()
        rows = variants.map_parts(consequences, models, submit(_autosomes, people, stage=context.name), self.mismatches).hold()
        return Outcome({"": rows.zip_parts(variants, spelled, names), "genes": rows.zip_parts(variants, worst, names)})


def _picked(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(GENES)


def _autosomes(people: Part | None) -> int:
    """Of the people's species; people's where there are none."""
    return HUMAN if people is None else autosomes_of(people.frame)


def _models(genes: Part, people: Part | None) -> GeneModels:
    return gene_models(genes, _autosomes(people))


def _cut(part: Part, models: GeneModels, people: Part | None) -> Part:
    return cut(part, models, _autosomes(people))


def _variants(part: Part, people: Part | None) -> Part:
    """The columns of variants alone. Raises DataError where a column says another species than the people, who alone can say it."""
    if (stated := autosomes_of(part.frame)) not in {HUMAN, _autosomes(people)}:
        raise DataError(f"the variants are of {stated} autosomes, and their numbers are known from genotype tables alone. Give that table.")
    return Part(part.frame.select(VARIANT))
