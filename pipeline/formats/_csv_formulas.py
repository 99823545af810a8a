"""Texts that a spreadsheet would take for formulas, made harmless (OWASP, CSV injection)."""

from __future__ import annotations

import polars as pl

FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"  # the wide signs too: spreadsheets of East Asia take them for the narrow ones


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with ' before each text, and each name of a column, that begins as a formula does; a column of numbers stays as it is."""
    texts = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.String | pl.Categorical | pl.Enum)]
    harmless = frame.with_columns(_harmless(pl.col(name).cast(pl.String)) for name in texts)
    names = pl.DataFrame({"name": frame.columns}, schema={"name": pl.String}).select(_harmless(pl.col("name")))["name"]
    return harmless.rename(dict(zip(frame.columns, names, strict=True)))


def _harmless(text: pl.Expr) -> pl.Expr:
    return pl.when(text.str.contains(FORMULA)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).name.keep()
