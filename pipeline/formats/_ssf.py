"""Files of GWAS-SSF as rows of a scan: which columns there are, and what they become. Not a format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from pipeline.errors import InputError
from pipeline.format import CostlySource
from pipeline.formats._by_trait import EFFECT, P_VALUE, PLACE
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_problems import first_problem, first_row
from pipeline.formats._csv_source import CsvSource

READ: Mapping[str, pl.DataType] = {
    "chromosome": pl.String(), "base_pair_location": pl.Int64(), "effect_allele": pl.String(), "other_allele": pl.String(),
    **dict.fromkeys((*EFFECT, "standard_error", "effect_allele_frequency"), pl.Float64()),
    "p_value": pl.String(), "neg_log_10_p_value": pl.Float64(), "variant_id": pl.String(), "rsid": pl.String(), "n": pl.Float64(),
}  # fmt: skip
"""The columns that are read, and as what; p-values are texts at first, for they may be smaller than a double."""

_REMEDY = "GWAS-SSF has tabs between all fields and #NA for a missing one. Complete the row, or get the file again where it ends with it."
TABS = Dialect(separator="\t", null_values=("#NA", "NA", "nan", "NaN"), short_remedy=_REMEDY)
_NAMES = {"23": "X", "24": "Y", "25": "MT"}  # where PLINK's 25 is XY and its 26 MT


@dataclass(frozen=True)
class GwasSsfSource(CostlySource):
    """One file, as a table of text."""

    text: CsvSource
    trait: str | None

    def load(self) -> pl.LazyFrame:
        """Its rows with our names and numbers."""
        found = self.text.load()
        return read_rows(found if isinstance(found, pl.LazyFrame) else found.frame.lazy(), self.trait)

    def explain(self) -> str | None:
        """What is wrong with the file, for a query over it that has failed; None where nothing is."""
        typed = {name: pl.Float64() if name == "p_value" else dtype for name, dtype in self.text.columns}
        return self.text.explain() or first_problem(self.text.path, typed, self.text.dialect)


def of_file(path: str, dialect: Dialect) -> CsvSource:
    """A file as a table of text. Raises InputError for one without the standard's columns."""
    names = first_row(path, dialect)
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{path}: its header line names {twice[0]!r} {names.count(twice[0])} times")
    for needed in (*((name,) for (name,) in PLACE), EFFECT, ("standard_error",), P_VALUE):
        if not {*needed} & {*names}:
            what = f"no column {' or '.join(needed)}: its columns are {', '.join(names[:8])}"
            raise InputError(f"{path}: is no GWAS-SSF file, it has {what}. Read it with format: csv, and rename its columns.")
    columns = tuple((name, READ.get(name, pl.String())) for name in names)
    return CsvSource(path, columns, dialect, columns)


def no_rows(text: CsvSource) -> pl.LazyFrame:
    """A file's columns alone, to ask what `read_rows` makes of them."""
    return pl.LazyFrame(schema=dict(text.columns))


def read_rows(rows: pl.LazyFrame, trait: str | None) -> pl.LazyFrame:
    """Rows of the standard's columns as a scan gives them."""
    there = rows.collect_schema().names()
    effect, p_text = next(name for name in EFFECT if name in there), pl.col("p_value")
    place = pl.format("{}:{}", "chromosome", "base_pair_location")
    ids = [pl.col(name) for name in ("rsid", "variant_id") if name in there]
    digits, exponent = (p_text.str.extract(pattern).cast(pl.Float64) for pattern in ("^([^eE]+)", "[eE](.+)$"))
    by_text = [pl.when(digits > 0).then(-(digits.log10() + exponent.fill_null(0)))] if "p_value" in there else []
    logarithm = pl.coalesce([*([pl.col("neg_log_10_p_value")] if "neg_log_10_p_value" in there else []), *by_text])
    p_value = p_text.cast(pl.Float64) if "p_value" in there else pl.lit(10.0) ** -logarithm
    beta = pl.col(effect) if effect == "beta" else pl.col(effect).log()
    return rows.with_columns(pl.col("chromosome").replace(_NAMES)).select(
        "chromosome", "base_pair_location", pl.coalesce([*ids, place]).alias("variant_id"),
        pl.col("effect_allele", "other_allele").str.to_uppercase(),
        *(pl.col(name) for name in ("effect_allele_frequency",) if name in there),
        beta.alias("beta"), "standard_error", p_value.alias("p_value"), logarithm.alias("neg_log_10_p_value"),
        *(pl.col("n").cast(pl.Int64) for name in ("n",) if name in there),
        *([] if trait is None else [pl.lit(trait).alias("trait")]),
    )  # fmt: skip
