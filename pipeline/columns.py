"""The vocabulary of named columns and arrays: what a name means, its type and its unit, wherever it stands."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Column:
    """One named column: its type, its unit ('' where it has none) and its meaning in a sentence."""

    dtype: pl.DataType
    unit: str
    meaning: str


VOCABULARY: dict[str, Column] = {
    "chromosome": Column(pl.String(), "", "Chromosome as the file names it; PLINK's codes 23 to 26 read X, Y, XY, MT."),
    "base_pair_location": Column(pl.Int64(), "base pairs", "Position on the chromosome, from 1."),
    "variant_id": Column(pl.String(), "", "The file's identifier, or chromosome:position:ref:alt where it gives none."),
    "ref": Column(pl.String(), "", "Reference allele."),
    "alt": Column(pl.String(), "", "Alternative allele; the one that calls count."),
    "centimorgan": Column(pl.Float64(), "centimorgans", "Genetic position of a PLINK .bim file; 0 where it gives none."),
    "call_rate": Column(pl.Float64(), "share", "Share of calls that are not missing."),
    "alt_frequency": Column(pl.Float64(), "share", "Frequency of ALT among the called alleles."),
    "minor_allele_frequency": Column(pl.Float64(), "share", "The smaller of the two alleles' frequencies."),
    "hwe_p_value": Column(pl.Float64(), "", "Exact Hardy-Weinberg p-value; null outside the autosomes."),
    "heterozygosity": Column(pl.Float64(), "share", "Share of a person's called genotypes that are heterozygous."),
    "sample_id": Column(pl.String(), "", "A person's identifier, unique in a genotype table."),
    "family_id": Column(pl.String(), "", "Family identifier of a PLINK .fam file."),
    "father_id": Column(pl.String(), "", "Father's identifier of a PLINK .fam file."),
    "mother_id": Column(pl.String(), "", "Mother's identifier of a PLINK .fam file."),
    "sex": Column(pl.Int8(), "", "1 male, 2 female, null unknown (PLINK's coding)."),
    "phenotype": Column(pl.Float64(), "", "Sixth column of a PLINK .fam file."),
    "effect_allele": Column(pl.String(), "", "The allele that beta is for: ALT (GWAS-SSF)."),
    "other_allele": Column(pl.String(), "", "The other allele: REF (GWAS-SSF)."),
    "beta": Column(pl.Float64(), "units of the trait per allele", "Effect of one more effect allele (GWAS-SSF)."),
    "standard_error": Column(pl.Float64(), "units of the trait per allele", "Standard error of beta (GWAS-SSF)."),
    "effect_allele_frequency": Column(pl.Float64(), "share", "Frequency of the effect allele among the people used (GWAS-SSF)."),
    "p_value": Column(pl.Float64(), "", "Two-sided p-value; 0 where it is below what a double holds (GWAS-SSF)."),
    "neg_log_10_p_value": Column(pl.Float64(), "", "-log10 of the p-value, right where p_value has underflowed (GWAS-SSF)."),
    "n": Column(pl.Int64(), "people", "People used (GWAS-SSF)."),
    "trait": Column(pl.String(), "", "The trait tested."),
    "statistic": Column(pl.Float64(), "", "The test's statistic: t for a linear model."),
    "test": Column(pl.String(), "", "Which test a row carries: linear."),
    "reason": Column(pl.String(), "", "Why a row has no result; null where it has one."),
    "split": Column(pl.String(), "", "train, validation or test."),
    "prediction": Column(pl.Float32(), "", "A model's prediction: a value, or the probability of a binary target."),
}

# An array that rides along with a frame -> the name of the table that labels its second axis.
AXES = {"calls": "samples", "alt_dosages": "samples", "dosages": "variants"}
# The column that names an entry of such an axis.
AXIS_IDS = {"samples": "sample_id", "variants": "variant_id"}

AUTOSOMES = tuple(str(number) for number in range(1, 23))


def autosome_number(column: str = "chromosome") -> pl.Expr:
    """The autosome's number 1 to 22 (Int64), with or without a leading 'chr'; null for every other chromosome."""
    name = pl.col(column).str.to_lowercase().str.strip_prefix("chr")
    return pl.when(name.is_in(AUTOSOMES)).then(name).otherwise(None).cast(pl.Int64)
