"""Association results as GWAS-VCF 1.0: a bgzipped VCF a trait, with effect, standard error and p-value of each variant as its one sample.

Lyon et al. (2021), Genome Biology 22:32; https://github.com/MRCIEU/gwas-vcf-specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import polars as pl

from pipeline.formats._by_trait import EFFECT, P_VALUE, PLACE, OfTrait, TraitOutput, log_effects, logarithms, without_nan
from pipeline.genome.builds import Build, build_field

_FORMAT = {
    "ES": ("beta", "Effect of one more ALT allele (log odds of a binary trait)"),
    "SE": ("standard_error", "Standard error of the effect"),
    "LP": ("neg_log_10_p_value", "-log10 of the p-value"),
    "AF": ("effect_allele_frequency", "Frequency of ALT among the people used"),
    "SS": ("n", "People used"),
}
_FIXED = ("#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT")
_ALLELES = "^[ACGTNacgtn]+$"


class GwasVcfOutput(TraitOutput):
    """GWAS-VCF: NAME.TRAIT.vcf.gz for each trait (NAME.vcf.gz without a column trait), its one sample the trait.

    ES, SE, LP, AF and SS of each variant; REF is other_allele, ALT effect_allele. Rows are in the table's order: a genotype table's is what
    an index needs. Left out are rows without an effect or a p-value, and those whose alleles are not of A, C, G, T and N.
    """

    name = "gwas_vcf"
    ending: ClassVar[str] = "vcf"
    label: ClassVar[str] = "GWAS-VCF"
    needed: ClassVar[tuple[tuple[str, ...], ...]] = (*PLACE, EFFECT, P_VALUE)

    build: Build = build_field()

    def lines(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The fixed columns, and the sample's fields as they are."""
        rows = without_nan(rows)
        known = {name: pl.col(name) if name in rows.columns else pl.lit(None, pl.Float64) for name, _ in _FORMAT.values()}
        known |= {"beta": log_effects(rows), "neg_log_10_p_value": logarithms(rows)}
        ids = pl.col("variant_id").cast(pl.String).str.replace_all(r"[\s;]", "_") if "variant_id" in rows.columns else pl.lit(".")
        table = rows.select(
            pl.col("chromosome").cast(pl.String).alias("#CHROM"),
            pl.col("base_pair_location").cast(pl.Int64).alias("POS"),
            ids.fill_null(".").alias("ID"),
            pl.col("other_allele").cast(pl.String).str.to_uppercase().alias("REF"),
            pl.col("effect_allele").cast(pl.String).str.to_uppercase().alias("ALT"),
            *(known[name].alias(field) for field, (name, _) in _FORMAT.items()),
        )
        fits = pl.all_horizontal(pl.col("REF", "ALT").str.contains(_ALLELES)) & (pl.col("POS") > 0)
        there = pl.all_horizontal(pl.col("#CHROM", "ES", "LP").is_not_null()) & pl.col("ES").is_finite()
        return table.filter(fits, there)

    def text(self, lines: pl.DataFrame) -> bytes:
        """Lines of a VCF."""
        values = pl.concat_str([pl.col(field).cast(pl.String).fill_null(".") for field in _FORMAT], separator=":")
        constant = {"QUAL": ".", "FILTER": "PASS", "INFO": ".", "FORMAT": ":".join(_FORMAT)}
        whole = lines.select(*_FIXED[:5], *(pl.lit(value).alias(name) for name, value in constant.items()), values.alias("values"))
        return whole.write_csv(include_header=False, separator="\t", quote_style="never").encode()

    def header(self, columns: Sequence[str], whole: OfTrait) -> str:
        """The fields that there are, the chromosomes, and the columns' names."""
        build = f",assembly={self.build}" if self.build else ""
        sample = " ".join(whole.trait.split()) or "results"
        return "\n".join(
            (
                "##fileformat=VCFv4.2",
                '##FILTER=<ID=PASS,Description="All filters passed">',
                *(
                    f'##FORMAT=<ID={field},Number={"1" if field == "SS" else "A"},Type=Float,Description="{said}">'
                    for field, (_, said) in _FORMAT.items()
                ),
                *(f"##contig=<ID={name}{build}>" for name in whole.noted.get("chromosomes", [])),
                "\t".join((*_FIXED, sample)) + "\n",
            )
        )

    def noted(self, lines: pl.DataFrame) -> dict[str, Any]:
        """The chromosomes, in the order in which they first stand."""
        return {"chromosomes": lines["#CHROM"].unique(maintain_order=True).to_list()}

    def noted_together(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """The same of both."""
        return {"chromosomes": list(dict.fromkeys([*before["chromosomes"], *after["chromosomes"]]))}

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame | None:
        """A trait's rows, with its name."""
        trait = self.trait_of(rest)
        if trait is None:
            return None
        names = {"#CHROM": "chromosome", "POS": "base_pair_location", "ID": "variant_id", "REF": "other_allele", "ALT": "effect_allele"}
        rows = pl.scan_csv(
            source,
            separator="\t",
            comment_prefix="##",
            quote_char=None,
            infer_schema=False,
            with_column_names=lambda had: [*had[:9], "values"],
        )
        numbers = [name for name, _ in _FORMAT.values()]
        fields = pl.col("values").str.split_exact(":", len(numbers) - 1).struct.rename_fields(numbers).alias("values")
        found = rows.select(*(pl.col(name).alias(ours) for name, ours in names.items()), fields).unnest("values")
        typed = found.with_columns(
            pl.col("base_pair_location").cast(pl.Int64), *(pl.col(name).replace(".", None).cast(pl.Float64) for name in numbers)
        )
        p_value = (10.0 ** -pl.col("neg_log_10_p_value")).alias("p_value")
        return typed.with_columns(p_value, pl.col("n").cast(pl.Int64), *([pl.lit(trait).alias("trait")] if trait else []))
