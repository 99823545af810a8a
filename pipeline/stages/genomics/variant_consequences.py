"""Consequences of variants for transcripts: what they do to proteins and splice sites, and of each gene the worst."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import DataError
from pipeline.genome.chromosomes import HUMAN, autosomes_of
from pipeline.genome.columns import VARIANT, dtypes_of, need_known
from pipeline.kernels.ragged import Ragged
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._consequences.changes import Changes, changes_of, met
from pipeline.stages.genomics._consequences.effects import Effects, Ends, across_ends, effects
from pipeline.stages.genomics._consequences.gene_models import NEEDED as GENES
from pipeline.stages.genomics._consequences.gene_models import GeneModels, gene_models
from pipeline.stages.genomics._consequences.places import Met, places
from pipeline.stages.genomics._consequences.reference import NEEDED as REFERENCE
from pipeline.stages.genomics._consequences.reference import cut, with_coding
from pipeline.stages.genomics._consequences.terms import BIT, TERMS
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

_NAMES = ("gene_id", "gene_name", "transcript_id", "transcript_type", "strand")
COLUMNS = (*VARIANT, *_NAMES, "consequence", "consequences", "protein_position", "amino_acids")
_AT_ONCE = 50_000  # variants, of which each may be in a hundred transcripts
OF_GENES = ("variant_id", "set_id", "gene_name", "transcript_id", "annotation")


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
        rows = tables["variants"].named(context.name).map_parts(_rows, models, people, self.mismatches, self.set_by)
        rows = Table(rows.session, rows.stage, rows.blocks, written=None).hold()
        return Outcome({"": rows.map(_chosen), "genes": rows.map_parts(_worst)})


def _picked(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(GENES)


def _autosomes(people: Part | None) -> int:
    """Of the people's species; people's where there are none."""
    return HUMAN if people is None else autosomes_of(people.frame)


def _models(genes: Part, people: Part | None) -> GeneModels:
    return gene_models(genes, _autosomes(people))


def _cut(part: Part, models: GeneModels, people: Part | None) -> Part:
    return cut(part, models, _autosomes(people))


def _rows(part: Part, models: GeneModels, people: Part | None, mismatches: str, set_by: str) -> Part:
    """The rows of a part's variants, some at a time. Raises DataError for a REF that is not the reference's, where these are refused."""
    ends, autosomes = Ends.of(models), _autosomes(people)
    if (stated := autosomes_of(part.frame)) not in {HUMAN, autosomes}:
        raise DataError(f"the variants are of {stated} autosomes, and their numbers are known from genotype tables alone. Give that table.")
    names, frames, counts = _names(models, set_by), [], []
    for first in range(0, max(part.frame.height, 1), _AT_ONCE):
        changes = changes_of(part.frame.select(VARIANT)[first : first + _AT_ONCE], autosomes)
        found = Met.of(changes, models, met(changes, models))
        bits = places(found, models)
        done = effects(found, changes, models, bits, ends)
        if mismatches == "refuse":
            _check_reference(changes, found, done)
        across = (bits & BIT["coding_sequence_variant"]) > 0
        across[done.row] = False
        some = np.flatnonzero(across)
        bits[some] |= across_ends(found.taken(some), models, ends)
        fits = done.row[done.fits]
        bits[fits] = (bits[fits] & ~BIT["coding_sequence_variant"]) | done.bits[done.fits]
        frames.append(_table(changes, found, names, bits, done).with_columns(pl.col("of_variant") + first))
        unknown = (bits & BIT["coding_sequence_variant"] > 0) & (models.coding.length[found.transcript] == 0)
        wrong = np.unique(found.variant[done.row[~done.fits]])
        counts.append({"known": changes.rows.height, "mismatches": len(wrong), "unknown_sequence": int(unknown.sum())})
    total = {name: sum(count[name] for count in counts) for name in counts[0]}
    return Part(pl.concat(frames), counts={"not_bases": part.frame.height - total.pop("known"), **total})


def _names(models: GeneModels, set_by: str) -> pl.DataFrame:
    """What transcripts are called, and the set of each, by name and by number."""
    name = pl.col("gene_id") if set_by == "gene_id" else pl.coalesce("gene_name", "gene_id")
    names = models.transcripts.select(*(pl.col(name).cast(dtype) for name, dtype in dtypes_of(_NAMES).items()), set_id=name)
    return names.with_columns(of_set=pl.col("set_id").rank("dense").cast(pl.Int64))


def _check_reference(changes: Changes, found: Met, done: Effects) -> None:
    if done.fits.all():
        return
    row = changes.rows.row(int(found.variant[done.row[~done.fits][0]]), named=True)
    where = f"{row['variant_id']!r} ({row['chromosome']}:{row['base_pair_location']}, REF {row['ref']}, ALT {row['alt']})"
    raise DataError(
        f"the variant {where} has a REF that is not what the reference has there. Are both of one build, and is REF the reference's allele "
        "(a .bed may have them swapped; bcftools norm --check-ref tells)? With mismatches: keep such variants are counted and kept."
    )


def _table(changes: Changes, found: Met, names: pl.DataFrame, bits: Any, done: Effects) -> pl.DataFrame:
    """The rows in the order of the variants, with numbers of variant and set; those in no transcript stand among them."""
    alone = np.flatnonzero(np.bincount(found.variant, minlength=changes.rows.height) == 0)
    variant = np.concatenate([found.variant, alone])
    order = np.argsort(variant, kind="stable")
    none = np.full(len(alone), -1)
    pair = pl.Series(np.concatenate([np.arange(len(bits)), none])[order])
    transcript = pl.Series(np.concatenate([found.transcript, none])[order])
    words = _words(np.concatenate([bits, np.full(len(alone), BIT["intergenic_variant"])])[order])
    variants = changes.rows.select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(VARIANT).items())
    columns = [
        *variants[variant[order]],
        *names.select(pl.all().gather(transcript.set(transcript < 0, None))),
        *words,
        *_amino_acids(len(bits), done).select(pl.all().gather(pair.set(pair < 0, None))),
    ]
    return pl.DataFrame([*columns, pl.Series("of_variant", variant[order], pl.Int64)])


def _words(bits: Any) -> pl.DataFrame:
    """The most severe term, and all of them, of each row of bits."""
    different = np.flatnonzero(np.bincount(bits, minlength=1))
    named = [[term for term in TERMS if value & BIT[term]] for value in different.tolist()]
    words = pl.DataFrame(
        {"consequence": [terms[0] for terms in named], "consequences": ["&".join(terms) for terms in named]},
        schema=dtypes_of(("consequence", "consequences")),
    )
    return words.select(pl.all().gather(pl.Series(np.searchsorted(different, bits))))


def _amino_acids(rows: int, done: Effects) -> pl.DataFrame:
    """Place and amino acids of the rows that have them: R/W, K where both are the same, R/X where the frame shifts."""
    before, after = (_texts(side) for side in (done.before, done.after))
    found = pl.DataFrame({"place": done.row, "protein_position": done.position, "before": before, "after": after})
    found = found.with_columns(after=pl.when(pl.Series(done.in_frame)).then("after").otherwise(pl.lit("X")))
    none = pl.lit("-")
    sides = [pl.when(pl.col(side) == "").then(none).otherwise(side) for side in ("before", "after")]
    both = pl.when(pl.col("before") == pl.col("after")).then("before").otherwise(pl.concat_str(sides, separator="/"))
    found = found.select("place", "protein_position", amino_acids=both).filter(pl.Series(done.fits))
    every = pl.DataFrame({"place": np.arange(rows)}).join(found, on="place", how="left", maintain_order="left")
    return every.select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(("protein_position", "amino_acids")).items())


def _texts(amino_acids: Ragged) -> pl.Series:
    """Rows of letters, which lie one after the other, as texts."""
    whole = pl.DataFrame({"first": amino_acids.first, "length": amino_acids.length})
    letters = pl.lit(amino_acids.values.tobytes())
    return whole.select(letters.bin.slice("first", "length").cast(pl.String)).to_series()


def _chosen(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(COLUMNS)


def _worst(part: Part) -> Part:
    """Of each variant and set the most severe consequence, and the first transcript that has it."""
    rows = part.frame.filter(pl.col("of_set").is_not_null())
    rank = rows["consequence"].replace_strict({term: place for place, term in enumerate(TERMS)}, return_dtype=pl.Int64).to_numpy()
    variant, gene = rows["of_variant"].to_numpy(), rows["of_set"].to_numpy()
    order = np.lexsort((rank, gene, variant))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(variant[order]) != 0) | (np.diff(gene[order]) != 0)
    best = rows[order[is_first]].rename({"consequence": "annotation"})
    return Part(best.select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(OF_GENES).items()))
