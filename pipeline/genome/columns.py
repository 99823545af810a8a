"""The vocabulary of genomics: what a column's name means, its type and its unit, in every table that a format or a stage of genomics gives.

What these stages read may be from anywhere: `need_known` refuses a text where the name means a number, and a number where it means text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from pipeline.errors import StageError
from pipeline.stage import need_columns
from pipeline.tables.part import Schema


@dataclass(frozen=True)
class Column:
    """One named column: its type, its unit ('' where it has none) and its meaning in a sentence."""

    dtype: pl.DataType
    unit: str
    meaning: str


VOCABULARY: dict[str, Column] = {
    "chromosome": Column(
        pl.String(), "", "Chromosome as the file names it; PLINK's codes after the autosomes (23 to 26) read X, Y, XY, MT."
    ),
    "autosomes": Column(pl.Int16(), "chromosomes", "Autosomes of the species, where they are not 22; below 0 in a haploid genome."),
    "base_pair_location": Column(pl.Int64(), "base pairs", "Position on the chromosome, from 1."),
    "variant_id": Column(pl.String(), "", "The file's identifier, or chromosome:position:ref:alt where it gives none."),
    "ref": Column(pl.String(), "", "Reference allele."),
    "alt": Column(pl.String(), "", "Alternative allele; the one that calls count."),
    "centimorgan": Column(pl.Float64(), "centimorgans", "Genetic position of a PLINK .bim file; 0 where it gives none."),
    "call_rate": Column(pl.Float64(), "share", "Share of calls that are not missing."),
    "alt_frequency": Column(pl.Float64(), "share", "Frequency of ALT among the called alleles."),
    "minor_allele_frequency": Column(pl.Float64(), "share", "The smaller of the two alleles' frequencies."),
    "hwe_p_value": Column(pl.Float64(), "", "Exact Hardy-Weinberg p-value; null where it is not tested, as on Y and MT."),
    "mach_r2": Column(
        pl.Float64(), "", "Imputation quality, MaCH's R2: variance of dosages over 2f(1 - f); null on X, MT and without variation."
    ),
    "heterozygosity": Column(pl.Float64(), "share", "Share of a person's calls on autosomes that are heterozygous."),
    "inbreeding": Column(pl.Float64(), "", "F by moments: 1 - heterozygous calls over those expected from the allele frequencies."),
    "sample_id_1": Column(pl.String(), "", "The person of a pair who comes later in the genotype table."),
    "sample_id_2": Column(pl.String(), "", "The person of a pair who comes first in the genotype table."),
    "variants_shared": Column(pl.Int64(), "variants", "Variants that both of a pair have calls for."),
    "hethet": Column(pl.Float64(), "share", "Share of a pair's shared variants where both are heterozygous."),
    "ibs0": Column(pl.Float64(), "share", "Share of a pair's shared variants where they are homozygous for opposite alleles."),
    "kinship": Column(pl.Float64(), "", "KING-robust kinship: 0.5 the same person, 0.25 parent or sibling, 0 unrelated or less."),
    "sample_id": Column(pl.String(), "", "A person's identifier, unique in a genotype table."),
    "family_id": Column(pl.String(), "", "Family identifier of a PLINK .fam file."),
    "father_id": Column(pl.String(), "", "Father's identifier of a PLINK .fam file."),
    "mother_id": Column(pl.String(), "", "Mother's identifier of a PLINK .fam file."),
    "sex": Column(pl.Int8(), "", "1 male, 2 female, 0 or null unknown (PLINK's coding)."),
    "phenotype": Column(pl.Float64(), "", "Sixth column of a PLINK .fam file."),
    "effect_allele": Column(pl.String(), "", "The allele that beta is for: ALT (GWAS-SSF)."),
    "other_allele": Column(pl.String(), "", "The other allele: REF (GWAS-SSF)."),
    "beta": Column(pl.Float64(), "units of the trait per allele", "Effect of one more effect allele, log odds if binary (GWAS-SSF)."),
    "standard_error": Column(pl.Float64(), "units of the trait per allele", "Standard error of beta (GWAS-SSF)."),
    "effect_allele_frequency": Column(pl.Float64(), "share", "Frequency of the effect allele among the people used (GWAS-SSF)."),
    "p_value": Column(pl.Float64(), "", "Two-sided p-value; 0 where it is below what a double holds (GWAS-SSF)."),
    "neg_log_10_p_value": Column(pl.Float64(), "", "-log10 of the p-value, right where p_value has underflowed (GWAS-SSF)."),
    "n": Column(pl.Int64(), "people", "People used (GWAS-SSF)."),
    "trait": Column(pl.String(), "", "The trait tested."),
    "statistic": Column(pl.Float64(), "", "The test's statistic: t for a linear model, z for a logistic one."),
    "test": Column(pl.String(), "", "Which test a row carries: linear, score, wald or firth, and the coding where it is not additive."),
    "reason": Column(pl.String(), "", "Why a row has no result; null where it has one."),
    "set_id": Column(pl.String(), "", "A set of variants that are tested together, such as a gene."),
    "annotation": Column(pl.String(), "", "What a variant does in its set, such as missense."),
    "annotations": Column(pl.String(), "", "The annotations of a mask's variants, with commas between them."),
    "mask": Column(pl.String(), "", "A choice of a set's variants by annotation; null for a test of all of a set's masks."),
    "masks": Column(pl.String(), "", "The masks that a variant of a set is in, with commas between them."),
    "variant_ids": Column(pl.String(), "", "The variants of a set, with commas between them."),
    "frequency_bin": Column(pl.String(), "", "Greatest ALT frequency of a mask's variants, 'all', or 'singleton': one copy of ALT."),
    "prediction": Column(
        pl.Float64(), "standard deviations of the trait", "What all chromosomes but the row's one predict of a person's trait."
    ),
    "score_sum": Column(pl.Float64(), "", "Sum of weight x effect alleles; null where no variant counts."),
    "score_average": Column(pl.Float64(), "", "score_sum over the alleles that count; null where no variant counts."),
    "variants_used": Column(pl.Int64(), "variants", "Variants that count in a person's score or place."),
    "start": Column(pl.Int64(), "base pairs", "First position of a gene or other feature, from 1."),
    "end": Column(pl.Int64(), "base pairs", "Last position of a gene or other feature, itself included."),
    "strand": Column(pl.String(), "", "+ or -; null where a feature has none."),
    "feature": Column(pl.String(), "", "What a line of GTF or GFF3 describes: gene, transcript, exon."),
    "gene_id": Column(pl.String(), "", "The annotation's identifier of a gene, such as ENSG00000178591.6."),
    "gene_name": Column(pl.String(), "", "A gene's symbol; of a variant the genes that it lies in, joined by commas, null for none."),
    "gene_type": Column(pl.String(), "", "The annotation's biotype, such as protein_coding."),
    "transcript_id": Column(pl.String(), "", "The annotation's identifier of a transcript, such as ENST00000382410.2."),
    "transcript_type": Column(pl.String(), "", "The annotation's biotype of a transcript, such as protein_coding."),
    "phase": Column(pl.Int8(), "bases", "Bases of a coding part (CDS) before its first whole codon: 0, 1 or 2; null for other features."),
    "sequence": Column(pl.String(), "", "Bases of a reference, from `start` on."),
    "consequence": Column(pl.String(), "", "What a variant does to a transcript: the most severe of its Sequence Ontology terms."),
    "consequences": Column(pl.String(), "", "All of these terms, the most severe first, with & between them."),
    "protein_position": Column(
        pl.Int64(), "amino acids", "The first amino acid that a variant changes, from 1; null outside coding parts."
    ),
    "amino_acids": Column(
        pl.String(), "", "Amino acids before and after, such as R/W; - is none, X unknown or out of frame; one where they are the same."
    ),
    "nearest_gene": Column(pl.String(), "", "The gene nearest to a variant; the genes that it lies in, where it lies in any."),
    "gene_distance": Column(pl.Int64(), "base pairs", "From a variant to the nearest gene's nearer end; 0 inside it."),
    "members": Column(pl.Int64(), "variants", "Other variants of a clump."),
    "member_ids": Column(pl.String(), "", "Their variant ids with commas between them, in order of position; empty where there are none."),
    "index_variant_id": Column(pl.String(), "", "The strongest variant of a clump."),
    "r2": Column(pl.Float64(), "", "Squared correlation of two variants; null where one does not vary."),
    "ld_score": Column(pl.Float64(), "", "Sum of unbiased r^2 with the variants in reach, itself included; null where it does not vary."),
    "read_id": Column(pl.String(), "", "A sequencing read's name, that of its mate too."),
    "bases": Column(pl.String(), "", "A read's bases; of an alignment in the reference's direction."),
    "base_qualities": Column(pl.String(), "", "A letter a base: its Phred quality + 33."),
    "mate_bases": Column(pl.String(), "", "The bases of the other read of a pair."),
    "mate_base_qualities": Column(pl.String(), "", "A letter a base of the other read of a pair: its Phred quality + 33."),
    "flag": Column(
        pl.Int32(), "", "An alignment's flag: bits of SAM (4 not aligned, 16 reverse strand, 64 and 128 first and second of a pair)."
    ),
    "mapping_quality": Column(
        pl.Int16(), "Phred", "How sure a read's place is: -10 log10 of the probability that it is wrong, as the aligner has it."
    ),
    "cigar": Column(pl.String(), "", "How a read lies along the reference: lengths and operations of SAM; null where it is not aligned."),
    "mate_chromosome": Column(pl.String(), "", "Chromosome of the pair's other read."),
    "mate_location": Column(pl.Int64(), "base pairs", "Position of the pair's other read, from 1."),
    "template_length": Column(
        pl.Int64(), "base pairs", "From the first base of a pair to its last; negative for the later read (SAM's TLEN)."
    ),
    "edit_distance": Column(pl.Int32(), "bases", "Bases that differ, are missing or are too many beside the reference (SAM's NM)."),
    "mean_depth": Column(pl.Float64(), "reads", "Aligned bases over the length of a window: reads that cover a base, on average."),
    "call_quality": Column(pl.Float64(), "Phred", "-10 log10 of the probability that no sample has ALT (QUAL of VCF)."),
    "genotype": Column(pl.String(), "", "A sample's two alleles: 0/0, 0/1 or 1/1, 1 for ALT; null where no read tells."),
    "genotype_quality": Column(pl.Int32(), "Phred", "-10 log10 of the probability that the genotype is wrong, 99 at most (GQ of VCF)."),
    "depth": Column(pl.Int32(), "reads", "Reads that cover a position and are used for its calls (DP of VCF)."),
    "ref_depth": Column(pl.Int32(), "reads", "Those of them that have REF (the first of AD of VCF)."),
    "alt_depth": Column(pl.Int32(), "reads", "Those of them that have ALT (the second of AD of VCF)."),
}

VARIANT = ("chromosome", "base_pair_location", "variant_id", "ref", "alt")
"""The columns that every genotype table has of its variants."""


def dtypes_of(names: Iterable[str]) -> dict[str, pl.DataType]:
    """The types of these columns, in their order."""
    return {name: VOCABULARY[name].dtype for name in names}


def need_known(schema: Schema, columns: Iterable[str], role: str) -> None:
    """Raise StageError for the first of these columns that a table lacks, or that is a text or a number where its name means the other."""
    for name in columns:
        need_columns(schema, (name,), role)
        found, text = schema.columns[name], VOCABULARY[name].dtype == pl.String
        if found != pl.Null and not (found == pl.String if text else found.is_numeric()):
            needed = "text is" if text else "numbers are"
            raise StageError(f"column {name!r} of the table given as {role!r} is {found}, and {needed} needed. Cast it.")
