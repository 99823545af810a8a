"""A table of types that tables with versions have in another width or unit, alone and within lists and structures."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl

from pipeline.format import OutputFormat
from pipeline.tables.part import Part, Schema

_MOMENT = datetime(2021, 3, 28, 1, 30)
_ZONED = pl.Series([_MOMENT, None], dtype=pl.Datetime("ms")).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
FRAME = pl.DataFrame(
    {
        "small": pl.Series([-128, None], dtype=pl.Int8),
        "short": pl.Series([32767, None], dtype=pl.Int16),
        "shorts": pl.Series([[1, None], None], dtype=pl.List(pl.Int16)),
        "pair": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)),
        "Time": pl.Series([{"Null": 1, "at": [_MOMENT]}, None], dtype=pl.Struct({"Null": pl.Int8, "at": pl.List(pl.Datetime("ms"))})),
        "seconds": pl.Series([_MOMENT, None], dtype=pl.Datetime("ns")),
        "zoned": _ZONED,
        "all_zoned": pl.DataFrame({"zoned": _ZONED}).select(pl.concat_list("zoned")).to_series(),
    }
)


def commit(writer: OutputFormat, folder: Any, rows: pl.DataFrame = FRAME) -> None:
    """Check and deliver the rows as a run does."""
    writer.check(Schema(rows.schema), rows.columns)
    path = f"{folder}/part.parquet"
    writer.write(Part(rows), {}, path)
    writer.deliver([path], "a run")


def plain(rows: Any) -> list[dict[str, Any]]:
    """Rows as values, moments with a zone in UTC."""
    frame = pl.DataFrame(pl.from_arrow(rows))
    return frame.with_columns(
        pl.col("zoned").dt.convert_time_zone("UTC"), pl.col("all_zoned").cast(pl.List(pl.Datetime("us", "UTC")))
    ).to_dicts()
