"""Results of set_association as regenie writes them: a set, mask and bin in ID and ALLELE1, and the test's own name. Not a format."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

NEEDED = (
    ("set_id",), ("chromosome",), ("base_pair_location",), ("mask",), ("frequency_bin",), ("test",), ("beta",), ("standard_error",),
    ("statistic",), ("effect_allele_frequency",), ("p_value", "neg_log_10_p_value"),
)  # fmt: skip
TESTS = {
    "burden": "ADD", "skat": "ADD-SKAT", "skat_o": "ADD-SKATO", "skat_o_acat": "ADD-SKATO-ACAT", "acat_v": "ADD-ACATV",
    "acat_o": "ADD-ACATO", "burden_acat": "ADD-BURDEN-ACAT", "burden_acat_equal": "ADD-BURDEN-ACAT_EQUAL", "sbat": "ADD-BURDEN-SBAT",
    "sbat_positive": "ADD-BURDEN-SBAT_POS", "sbat_negative": "ADD-BURDEN-SBAT_NEG", "gene_p": "GENE_P",
}  # fmt: skip
_OF_GROUP = "^({})_(.+)$".format("|".join(sorted(TESTS.values(), key=len, reverse=True)))
_MASK = r"^(.*?)\.(all|singleton|[0-9.e-]+)$"


def of_sets(columns: Collection[str]) -> bool:
    """Whether a table is of sets."""
    return {"set_id", "mask", "frequency_bin"} <= {*columns}


def set_columns() -> dict[str, pl.Expr]:
    """By regenie's column what a table of sets has otherwise than one of variants; DF counts the burden masks of a row of all masks."""
    of_mask = pl.col("frequency_bin").is_not_null()
    group = pl.when(~of_mask).then(pl.col("mask"))
    mask = pl.concat_str("mask", "frequency_bin", separator=".")
    joint = pl.col("mask").is_null() & pl.col("test").str.contains("burden_acat|sbat")
    burdens = (pl.col("test") == "burden").sum().over("set_id")
    freedom = pl.when(of_mask).then(1).when(joint & (burdens > 0)).then(burdens)
    return {
        "ID": pl.concat_str("set_id", pl.when(of_mask).then(mask), separator=".", ignore_nulls=True),
        "ALLELE0": pl.when(of_mask).then(pl.lit("ref")),
        "ALLELE1": pl.when(of_mask).then(mask),
        "TEST": pl.concat_str(pl.col("test").cast(pl.String).replace(TESTS), group, separator="_", ignore_nulls=True),
        "EXTRA": pl.when(freedom.is_not_null()).then(pl.format("DF={}", freedom)),
    }


def sets_of(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Columns of sets from what was read of such lines under names of variants."""
    mask, name = pl.col("effect_allele"), pl.col("variant_id")
    length = name.str.len_chars().cast(pl.Int64) - mask.str.len_chars().cast(pl.Int64) - 1
    whole = pl.col("test").is_in([*TESTS.values()])
    test = pl.when(whole).then(pl.col("test")).otherwise(pl.col("test").str.extract(_OF_GROUP, 1))
    group = pl.when(~whole).then(pl.col("test").str.extract(_OF_GROUP, 2))
    return rows.with_columns(
        set_id=pl.when(mask.is_null()).then(name).otherwise(name.str.slice(0, length)),
        mask=mask.str.extract(_MASK, 1).fill_null(group),
        frequency_bin=mask.str.extract(_MASK, 2),
        test=test.replace({theirs: ours for ours, theirs in TESTS.items()}),
    ).drop("variant_id", "effect_allele", "other_allele", "reason")
