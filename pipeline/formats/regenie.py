"""Association results as regenie's step 2 writes them: a bgzipped file a trait, its columns separated by spaces.

Mbatchou et al. (2021), Nature Genetics 53:1097; https://rgcgithub.github.io/regenie/options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import polars as pl

from pipeline.formats._by_trait import EFFECT, P_VALUE, PLACE, OfTrait, TraitOutput, log_effects, logarithms, need_columns_of, without_nan
from pipeline.formats._regenie_sets import NEEDED, of_sets, set_columns, sets_of
from pipeline.genome.chromosomes import autosomes_of, chromosome_key, is_haploid
from pipeline.tables.part import Schema

_COLUMNS = {
    "CHROM": "chromosome",
    "GENPOS": "base_pair_location",
    "ID": "variant_id",
    "ALLELE0": "other_allele",
    "ALLELE1": "effect_allele",
    "A1FREQ": "effect_allele_frequency",
    "N": "n",
    "TEST": "test",
    "BETA": "beta",
    "SE": "standard_error",
    "CHISQ": "statistic",
    "LOG10P": "neg_log_10_p_value",
    "EXTRA": "reason",
}
_CODINGS = {"dominant": "DOM", "recessive": "REC"}
_FAILED = "TEST_FAIL"


class RegenieOutput(TraitOutput):
    """regenie's step 2: NAME.TRAIT.regenie.gz for each trait (NAME.regenie.gz without a column trait).

    Every row is there; one without a result has NA and TEST_FAIL. CHISQ is (beta / standard_error)^2, or statistic^2 where there is one.
    X, Y and MT are 23, 24 and 26 after 22 autosomes, PLINK's codes; other names stay. Rows of set_association are regenie's of sets: ID is
    SET.MASK.BIN, TEST its name of the test, burden_acat_equal is ADD-BURDEN-ACAT_EQUAL.
    """

    name = "regenie"
    ending: ClassVar[str] = "regenie"
    label: ClassVar[str] = "regenie's format"
    needed: ClassVar[tuple[tuple[str, ...], ...]] = (*PLACE, ("variant_id",), EFFECT, ("standard_error",), P_VALUE)

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without a column that is needed."""
        if of_sets(columns):
            need_columns_of(self.label, NEEDED, columns)
        else:
            super().check(schema, columns)

    def lines(self, rows: pl.DataFrame) -> pl.DataFrame:
        """All rows, in regenie's columns."""
        rows = without_nan(rows)
        if of_sets(rows.columns):
            rows = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in ("variant_id", "effect_allele", "other_allele"))
        effect, error = log_effects(rows), pl.col("standard_error")
        root = pl.col("statistic") if "statistic" in rows.columns else effect / error
        test = pl.lit("ADD")
        if "test" in rows.columns:
            coding = pl.col("test").cast(pl.String).str.extract("(dominant|recessive)$")
            test = coding.replace_strict(_CODINGS, default="ADD")
        p = logarithms(rows)
        last = autosomes_of(rows)
        codes = {} if is_haploid(last) else {"X": str(last + 1), "Y": str(last + 2), "MT": str(last + 4)}
        known = {name: pl.col(ours) if ours in rows.columns else pl.lit(None, pl.Float64) for name, ours in _COLUMNS.items()}
        known |= {"CHROM": chromosome_key(autosomes=last).replace(codes), "TEST": test, "BETA": effect}
        known |= {"CHISQ": root**2, "LOG10P": p, "EXTRA": pl.when(effect.is_null() | p.is_null()).then(pl.lit(_FAILED))}
        if of_sets(rows.columns):
            known |= set_columns()
        return rows.select(known[name].alias(name) for name in _COLUMNS)

    def text(self, lines: pl.DataFrame) -> bytes:
        """Lines of text; what is missing is NA."""
        return lines.write_csv(include_header=False, separator=" ", null_value="NA", quote_style="never").encode()

    def header(self, columns: Sequence[str], whole: OfTrait) -> str:
        """The columns' names."""
        return " ".join(columns) + "\n"

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame | None:
        """A trait's rows under our names; the statistic is chi-square's root, with the sign of beta."""
        trait = self.trait_of(rest)
        if trait is None:
            return None
        text = dict.fromkeys(("CHROM", "ID", "ALLELE0", "ALLELE1", "TEST", "EXTRA"), pl.String())
        numbers = {"GENPOS": pl.Int64(), "N": pl.Int64()}
        types = {name: text.get(name, numbers.get(name, pl.Float64())) for name in _COLUMNS}
        rows = pl.scan_csv(source, separator=" ", null_values="NA", schema=types, quote_char=None, comment_prefix="##").rename(_COLUMNS)
        p_value = (10.0 ** -pl.col("neg_log_10_p_value")).alias("p_value")
        statistic = (pl.col("statistic").sqrt() * pl.col("beta").sign().fill_null(1.0)).alias("statistic")
        found = rows.with_columns(p_value, statistic, *([pl.lit(trait).alias("trait")] if trait else []))
        return sets_of(found) if of_sets(dtypes) else found
