"""Tables of text with tabs between the columns."""

from __future__ import annotations

from pydantic import Field

from pipeline.formats.csv import CsvInput, CsvOutput


class TsvInput(CsvInput):
    """As csv, with tabs between the columns where nothing else is said."""

    name = "tsv"
    separator: str = Field("\t", min_length=1, max_length=1)


class TsvOutput(CsvOutput):
    """As csv, with tabs between the columns where nothing else is said."""

    name = "tsv"
    suffix = ".tsv"
    separator: str = Field("\t", min_length=1, max_length=1)
