"""Texts that a spreadsheet would take for formulas, made harmless (OWASP, CSV injection)."""

from __future__ import annotations

import polars as pl

FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"  # the wide signs too: spreadsheets of East Asia take them for the narrow ones
NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with ' before each text, and each name of a column, that begins as a formula does and is no number."""
    texts = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.String | pl.Categorical | pl.Enum)]
    harmless = frame.with_columns(_harmless(pl.col(name).cast(pl.String)) for name in texts)
    names = pl.DataFrame({"name": frame.columns}, schema={"name": pl.String}).select(_harmless(pl.col("name")))["name"]
    return harmless.rename(dict(zip(frame.columns, names, strict=True)))


def _harmless(text: pl.Expr) -> pl.Expr:
    is_formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    return pl.when(is_formula).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).name.keep()
